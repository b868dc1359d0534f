package server

import (
	"errors"
	"fmt"
	"strconv"

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

// CheckBroker implements controller.ConfigRules (DynamicBrokerConfig.validateConfigs).
// Names that Kafka does not know are for plug-ins and are let through.
func (rules) CheckBroker(name, value string, cluster bool) error {
	k, ok := config.BrokerKey(name)
	switch {
	case !ok:
		return nil
	case k.Dynamic == config.ReadOnly:
		return fmt.Errorf("Cannot update these configs dynamically: Set(%s)", name)
	case cluster && k.Dynamic == config.PerBroker:
		return fmt.Errorf("Cannot update these configs at default cluster level: Set(%s)", name)
	}
	return k.Check(value)
}

// CheckGroup implements controller.ConfigRules.
func (rules) CheckGroup(name, value string) error {
	k, ok := config.GroupKey(name)
	if !ok {
		return fmt.Errorf("Unknown group config name: %s", name)
	}
	return k.Check(value)
}

// CheckClientMetrics implements controller.ConfigRules.
func (rules) CheckClientMetrics(name, value string) error {
	switch name {
	case "metrics", "match":
		return nil
	case "interval.ms":
		ms, err := strconv.Atoi(value)
		if err != nil || ms < 100 || ms > 3_600_000 {
			return fmt.Errorf("Invalid value %s for interval.ms, interval must be between 100 and 3600000 (1 hour)", value)
		}
		return nil
	}
	return errors.New("Unknown client metrics configuration: " + name)
}

// IsList implements controller.ConfigRules.
func (rules) IsList(t metadata.ResourceType, name string) bool {
	find := config.TopicKey
	switch t {
	case metadata.BrokerResource:
		find = config.BrokerKey
	case metadata.GroupResource:
		find = config.GroupKey
	case metadata.ClientMetricsResource:
		return name == "metrics" || name == "match"
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
	if k, ok := config.GroupKey(name); ok && t == metadata.GroupResource && !k.Null {
		return k.Default, true
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
