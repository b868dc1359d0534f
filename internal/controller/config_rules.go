package controller

import "moldau/internal/metadata"

// ConfigRules knows the settings of Kafka: names, types, defaults and limits.
type ConfigRules interface {
	// CheckTopic says why a value is not allowed; nil if it is. Unknown names
	// are errors.
	CheckTopic(name, value string) error
	// CheckTopicSet looks at all overrides that a topic would have together.
	CheckTopicSet(overrides map[string]string) error
	// CheckBroker does so for a dynamic broker setting; cluster tells whether
	// it is the default of all brokers.
	CheckBroker(name, value string, cluster bool) error
	// CheckGroup looks at all overrides that a group would have.
	CheckGroup(overrides map[string]string) error
	// CheckClientMetrics does so for a client metrics subscription; malformed
	// tells of the complaints that are INVALID_REQUEST.
	CheckClientMetrics(settings map[string]string) (malformed bool, err error)
	// IsList tells whether a setting takes append and subtract.
	IsList(t metadata.ResourceType, name string) bool
	// Default is the value of a setting without overrides, as this node's
	// configuration file and Kafka's defaults have it.
	Default(t metadata.ResourceType, name string) (value string, ok bool)
	// TopicDefaults lists every topic setting in order of name.
	TopicDefaults() []TopicDefault
}

// TopicDefault is a topic setting without its topic's override.
type TopicDefault struct {
	Name       string
	Value      string
	Source     ConfigSource // StaticBrokerConfig or DefaultConfig
	Sensitive  bool
	BrokerName string // the broker setting that it falls back to; "" if none
}

// ConfigSource says where a value comes from, with DescribeConfigs' numbers.
type ConfigSource int8

// The sources of a topic's settings.
const (
	DynamicTopicConfig         ConfigSource = 1
	DynamicBrokerConfig        ConfigSource = 2
	DynamicDefaultBrokerConfig ConfigSource = 3
	StaticBrokerConfig         ConfigSource = 4
	DefaultConfig              ConfigSource = 5
)
