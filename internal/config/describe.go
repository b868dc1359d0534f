package config

import "strings"

// Source says where a value comes from (DescribeConfigsResponse.ConfigSource).
type Source int8

// The sources, with Kafka's numbers.
const (
	SourceUnknown        Source = 0
	SourceTopic          Source = 1
	SourceBroker         Source = 2
	SourceDefaultBroker  Source = 3
	SourceStatic         Source = 4
	SourceDefault        Source = 5
	SourceBrokerLogger   Source = 6
	SourceClientMetrics  Source = 7
	SourceGroup          Source = 8
	maxDescribedSynonyms        = 16
)

// SynonymValue is one setting, in one place, that an entry takes or would take
// its value from.
type SynonymValue struct {
	Name   string
	Value  *string // nil if sensitive
	Source Source
}

// Entry is one setting as DescribeConfigs shows it.
type Entry struct {
	Key       *Key
	Name      string
	Value     *string // nil if unset or sensitive
	Source    Source
	ReadOnly  bool
	Sensitive bool
	Synonyms  []SynonymValue
}

// DescribeTopic lists all settings of a topic, with the values in force.
func DescribeTopic(l Layers) []Entry {
	entries := make([]Entry, 0, len(topicKeys))
	for i := range topicKeys {
		k := &topicKeys[i]
		e := Entry{Key: k, Name: k.Name, Source: SourceDefault}
		if v, ok := l.TopicValue(k.Name); ok {
			v = shown(k, v)
			e.Value = &v
		}
		if v, ok := l.Topic.get(k.Name); ok {
			v = shown(k, v)
			e.Synonyms = append(e.Synonyms, SynonymValue{k.Name, &v, SourceTopic})
		}
		if names := topicSynonyms(k.Name); names != nil {
			e.Synonyms = append(e.Synonyms, l.synonymValues(names[0].name, names, false)...)
		}
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	return entries
}

// shown is a value as Kafka prints it after parsing: lists without blanks.
func shown(k *Key, v string) string {
	if k.Type != List {
		return v
	}
	return strings.Join(SplitList(v), ",")
}

// DescribeBroker lists all settings of this broker, with the values in force,
// and those of set that the table does not have.
func DescribeBroker(l Layers, set ...string) []Entry {
	entries := make([]Entry, 0, len(brokerKeys)+len(set))
	for i := range brokerKeys {
		k := &brokerKeys[i]
		e := Entry{Key: k, Name: k.Name, Source: SourceDefault, ReadOnly: k.Dynamic == ReadOnly, Sensitive: k.Sensitive()}
		if v, ok := l.BrokerValue(k.Name); ok && !e.Sensitive {
			e.Value = &v
		}
		e.Synonyms = l.synonymValues(k.Name, brokerSynonyms(k.Name), e.Sensitive)
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	for _, name := range set {
		if _, ok := find(brokerKeys, name); !ok {
			entries = append(entries, l.unlisted(name))
		}
	}
	return entries
}

// unlisted describes a dynamic setting that the table does not have under that
// name: of one listener, a throttle, or a plug-in's, of which nothing is known
// and whose value may be secret (ConfigHelper.createBrokerConfigEntry).
func (l Layers) unlisted(name string) Entry {
	k := DynamicKey(name)
	e := Entry{Key: k, Name: name, Source: SourceDefault, ReadOnly: k == nil || k.Name != name, Sensitive: k == nil || k.Sensitive()}
	names := []synonym{{name: name}}
	if k != nil && k.Name != name {
		names = append(names, brokerSynonyms(k.Name)...)
	}
	e.Synonyms = l.synonymValues(name, names, e.Sensitive)
	if len(e.Synonyms) > 0 {
		e.Value, e.Source = e.Synonyms[0].Value, e.Synonyms[0].Source
	}
	return e
}

// synonymValues lists the places where the settings are set, the one that
// counts most first, without those before the setting that was asked for
// (ConfigHelper.configSynonyms).
func (l Layers) synonymValues(asked string, names []synonym, sensitive bool) []SynonymValue {
	all := make([]SynonymValue, 0, maxDescribedSynonyms)
	add := func(name, value string, source Source) {
		s := SynonymValue{Name: name, Source: source}
		if !sensitive {
			s.Value = &value
		}
		all = append(all, s)
	}
	for _, layer := range []struct {
		Lookup
		Source
	}{{l.Broker, SourceBroker}, {l.Default, SourceDefaultBroker}, {l.Static, SourceStatic}} {
		for _, s := range names {
			if v, ok := layer.get(s.name); ok {
				add(s.name, v, layer.Source)
			}
		}
	}
	for _, s := range names {
		if k, ok := BrokerKey(s.name); ok && !k.Null {
			add(s.name, k.Default, SourceDefault)
		}
	}
	for i, s := range all {
		if s.Name == asked {
			return all[i:]
		}
	}
	return nil
}
