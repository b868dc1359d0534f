package config

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Type is the type of a setting's value. The numbers are those that
// DescribeConfigs sends (DescribeConfigsResponse.ConfigType).
type Type int8

// The types of Kafka's ConfigDef.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String gives Kafka's name of the type.
func (t Type) String() string {
	return []string{"UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}[t]
}

// Dynamic says where a broker setting can be changed at run time.
type Dynamic int8

// ReadOnly settings need a restart; ClusterWide ones can be set for one broker
// or as the cluster's default; PerBroker ones for one broker only.
const (
	ReadOnly Dynamic = iota
	ClusterWide
	PerBroker
)

const noLimit = math.MaxInt64

// shape is a form of text that a few settings demand.
type shape int8

const (
	throttledReplicas shape = iota + 1 // "*" or partition:broker,…
	offsetReset                        // earliest, latest, by_duration:…
)

// Key is one setting of the table.
type Key struct {
	Name string
	Type Type
	// Default is the value when nobody sets one; meaningless if Null.
	Default string
	// Null: unset unless somebody sets it.
	Null bool
	// Bounded numbers lie in [Min, Max], or are −1 if OrMinusOne.
	Bounded    bool
	Min, Max   int64
	OrMinusOne bool
	// OneOf lists the accepted values (of each element, for a List).
	OneOf    []string
	AnyCase  bool
	NonEmpty bool
	Shape    shape
	Dynamic  Dynamic
}

// BrokerKeys, TopicKeys and GroupKeys are all settings of a kind, in order of
// name. Callers must not modify them.
func BrokerKeys() []Key { return brokerKeys }

// TopicKeys are the settings of a topic; see BrokerKeys.
func TopicKeys() []Key { return topicKeys }

// GroupKeys are the settings of a group; see BrokerKeys.
func GroupKeys() []Key { return groupKeys }

// BrokerKey finds a broker setting, or one of our own, by name.
func BrokerKey(name string) (*Key, bool) {
	if k, ok := find(brokerKeys, name); ok {
		return k, true
	}
	return find(ownKeys, name)
}

// TopicKey finds a topic setting by name.
func TopicKey(name string) (*Key, bool) { return find(topicKeys, name) }

// GroupKey finds a group setting by name.
func GroupKey(name string) (*Key, bool) { return find(groupKeys, name) }

func find(keys []Key, name string) (*Key, bool) {
	i := sort.Search(len(keys), func(i int) bool { return keys[i].Name >= name })
	if i < len(keys) && keys[i].Name == name {
		return &keys[i], true
	}
	return nil, false
}

// Sensitive tells whether the value must never be shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// InvalidValue is the complaint about a value, in Kafka's words.
type InvalidValue struct{ Name, Value, Reason string }

// Error reads like Kafka's ConfigException.
func (e *InvalidValue) Error() string {
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", e.Value, e.Name, e.Reason)
}

// Check tells what is wrong with value, as *InvalidValue, or nil.
func (k *Key) Check(value string) error {
	if reason := k.reason(strings.TrimSpace(value)); reason != "" {
		return &InvalidValue{Name: k.Name, Value: value, Reason: reason}
	}
	return nil
}

func (k *Key) reason(v string) string {
	switch k.Type {
	case Boolean:
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return "Expected value to be either true or false"
		}
	case Int, Short, Long:
		n, err := strconv.ParseInt(v, 10, map[Type]int{Int: 32, Short: 16, Long: 64}[k.Type])
		if err != nil {
			return "Not a number of type " + k.Type.String()
		}
		return k.outOfBounds(float64(n), n)
	case Double:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) {
			return "Not a number of type DOUBLE"
		}
		return k.outOfBounds(f, int64(f))
	case List:
		return k.badList(v)
	default:
		return k.badString(v)
	}
	return ""
}

func (k *Key) outOfBounds(f float64, n int64) string {
	switch {
	case !k.Bounded || k.OrMinusOne && n == -1:
		return ""
	case k.Type != Double && n < k.Min || f < float64(k.Min):
		return fmt.Sprintf("Value must be at least %d", k.Min)
	case k.Max != noLimit && (k.Type != Double && n > k.Max || f > float64(k.Max)):
		return fmt.Sprintf("Value must be no more than %d", k.Max)
	}
	return ""
}

func (k *Key) badList(v string) string {
	items := SplitList(v)
	for i, item := range items {
		if k.OneOf != nil && !slices.Contains(k.OneOf, item) {
			return "String must be one of: " + strings.Join(k.OneOf, ", ")
		}
		if k.OneOf != nil && slices.Contains(items[:i], item) {
			return "Configuration '" + k.Name + "' values must not be duplicated."
		}
	}
	if k.Shape == throttledReplicas && v != "" && v != "*" {
		for _, item := range items {
			var p, b int
			if n, err := fmt.Sscanf(item, "%d:%d", &p, &b); n != 2 || err != nil || p < 0 || b < 0 {
				return "must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
			}
		}
	}
	return ""
}

func (k *Key) badString(v string) string {
	if k.NonEmpty && v == "" {
		return "String must be non-empty"
	}
	if k.Shape == offsetReset {
		if span, ok := strings.CutPrefix(v, "by_duration:"); v != "earliest" && v != "latest" && !(ok && duration(span)) {
			return "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
		}
		return ""
	}
	if k.OneOf == nil {
		return ""
	}
	for _, ok := range k.OneOf {
		if v == ok || k.AnyCase && strings.EqualFold(v, ok) {
			return ""
		}
	}
	return "String must be one of: " + strings.Join(k.OneOf, ", ")
}

// SplitList splits a List value at commas and trims the elements; the empty
// text is the empty list.
func SplitList(v string) []string {
	if strings.TrimSpace(v) == "" {
		return nil
	}
	items := strings.Split(v, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
