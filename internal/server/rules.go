package server

import (
	"errors"

	"moldau/internal/config"
	"moldau/internal/controller"
	"moldau/internal/metadata"
)

// rules is what the controller asks about settings.
type rules struct{ static config.Lookup }

// CheckTopic implements controller.ConfigRules.
func (rules) CheckTopic(name, value string) error { return config.CheckTopic(name, value) }

// CheckTopicSet implements controller.ConfigRules.
func (r rules) CheckTopicSet(overrides map[string]string) error {
	return config.CheckTopicTogether(config.Layers{Topic: config.FromMap(overrides), Static: r.static})
}

// CheckBroker implements controller.ConfigRules: names and values one by one.
// Names that Kafka does not know are for plug-ins and are let through.
func (rules) CheckBroker(name, value string, cluster bool) error {
	return config.CheckDynamicNames(map[string]string{name: value}, cluster)
}

// CheckGroup implements controller.ConfigRules.
func (r rules) CheckGroup(overrides map[string]string) error {
	return config.CheckGroup(overrides, config.Layers{Static: r.static})
}

// CheckClientMetrics implements controller.ConfigRules.
func (rules) CheckClientMetrics(settings map[string]string) (bool, error) {
	err := config.CheckClientMetrics(settings)
	var bad *config.Malformed
	return errors.As(err, &bad), err
}

// IsList implements controller.ConfigRules. As in Kafka, lists of groups and of
// client metrics are set as a whole (KafkaConfigSchema knows topics and brokers).
func (rules) IsList(t metadata.ResourceType, name string) bool {
	find := config.TopicKey
	switch t {
	case metadata.TopicResource:
	case metadata.BrokerResource:
		find = config.BrokerKey
	default:
		return false
	}
	k, ok := find(name)
	return ok && k.Type == config.List
}

// Default implements controller.ConfigRules.
func (r rules) Default(t metadata.ResourceType, name string) (string, bool) {
	l := config.Layers{Static: r.static}
	switch t {
	case metadata.TopicResource:
		return l.TopicValue(name)
	case metadata.BrokerResource:
		return l.BrokerValue(name)
	}
	return "", false
}

// TopicDefaults implements controller.ConfigRules.
func (r rules) TopicDefaults() []controller.TopicDefault {
	entries := config.DescribeTopic(config.Layers{Static: r.static})
	out := make([]controller.TopicDefault, 0, len(entries))
	for _, e := range entries {
		d := controller.TopicDefault{Name: e.Name, Source: controller.DefaultConfig, Sensitive: e.Sensitive}
		if e.Value != nil {
			d.Value = *e.Value
		}
		if e.Source == config.SourceStatic {
			d.Source = controller.StaticBrokerConfig
		}
		d.BrokerName = config.BrokerNameOf(e.Name)
		out = append(out, d)
	}
	return out
}
