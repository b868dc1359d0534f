package config

import "strconv"

// A topic setting that nobody set for the topic takes the value of a broker
// setting. Most have one such synonym; times may also be given in larger units
// (Kafka's ServerTopicConfigSynonyms).

type synonym struct {
	name string
	toMs int64 // multiplies the value into milliseconds; 0: as it is
}

const (
	minuteMs = 60 * 1000
	hourMs   = 60 * minuteMs
)

// topicSynonyms gives the broker settings behind a topic setting, the one that
// counts most first; none for settings that only topics have.
func topicSynonyms(topicKey string) []synonym {
	switch topicKey {
	case "segment.ms":
		return []synonym{{name: "log.roll.ms"}, {"log.roll.hours", hourMs}}
	case "segment.jitter.ms":
		return []synonym{{name: "log.roll.jitter.ms"}, {"log.roll.jitter.hours", hourMs}}
	case "retention.ms":
		return []synonym{{name: "log.retention.ms"}, {"log.retention.minutes", minuteMs}, {"log.retention.hours", hourMs}}
	case "flush.ms":
		return []synonym{{name: "log.flush.interval.ms"}, {name: "log.flush.scheduler.interval.ms"}}
	case "segment.index.bytes":
		return []synonym{{name: "log.index.size.max.bytes"}}
	case "flush.messages":
		return []synonym{{name: "log.flush.interval.messages"}}
	case "file.delete.delay.ms":
		return []synonym{{name: "log.segment.delete.delay.ms"}}
	case "max.message.bytes":
		return []synonym{{name: "message.max.bytes"}}
	case "min.cleanable.dirty.ratio":
		return []synonym{{name: "log.cleaner.min.cleanable.ratio"}}
	case "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms":
		return []synonym{{name: "log.cleaner." + topicKey}}
	case "segment.bytes", "retention.bytes", "index.interval.bytes", "cleanup.policy", "preallocate",
		"message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
		"local.retention.ms", "local.retention.bytes":
		return []synonym{{name: "log." + topicKey}}
	case "remote.copy.lag.ms", "remote.copy.lag.bytes":
		return []synonym{{name: "log." + topicKey}}
	case "unclean.leader.election.enable", "min.insync.replicas", "compression.type", "compression.gzip.level",
		"compression.lz4.level", "compression.zstd.level", "max.decompressed.message.bytes":
		return []synonym{{name: topicKey}}
	}
	return nil
}

// brokerSynonyms gives all settings that express the same thing as the broker
// setting, the one that counts most first (DynamicBrokerConfig).
func brokerSynonyms(name string) []synonym {
	for _, topicKey := range []string{"segment.ms", "segment.jitter.ms", "retention.ms", "flush.ms"} {
		all := topicSynonyms(topicKey)
		for _, s := range all {
			if s.name == name {
				return all
			}
		}
	}
	return []synonym{{name: name}}
}

func (s synonym) convert(value string) string {
	if s.toMs == 0 {
		return value
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return value // −1 means no limit in every unit
	}
	return strconv.FormatInt(n*s.toMs, 10)
}

// Lookup finds a value that somebody set; nil finds nothing.
type Lookup func(name string) (string, bool)

func (l Lookup) get(name string) (string, bool) {
	if l == nil {
		return "", false
	}
	return l(name)
}

// FromMap makes a Lookup of a map, which may be nil.
func FromMap(m map[string]string) Lookup {
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

// Layers are the places where a setting can be set, as one broker sees them;
// the earlier field counts more.
type Layers struct {
	Topic   Lookup // overrides of the topic
	Broker  Lookup // dynamic settings of this broker
	Default Lookup // dynamic defaults of the cluster
	Static  Lookup // the properties file and --set
}

// set gives the value of a broker setting that somebody set under this very name.
func (l Layers) set(name string) (string, bool) {
	for _, layer := range []Lookup{l.Broker, l.Default, l.Static} {
		if v, ok := layer.get(name); ok {
			return v, true
		}
	}
	return "", false
}

// brokerValue gives what the broker setting amounts to.
func (l Layers) brokerValue(names []synonym) (string, bool) {
	for _, s := range names {
		for _, layer := range []Lookup{l.Broker, l.Default, l.Static} {
			if v, ok := layer.get(s.name); ok {
				return s.convert(v), true
			}
		}
	}
	for _, s := range names {
		if k, ok := BrokerKey(s.name); ok && !k.Null {
			return s.convert(k.Default), true
		}
	}
	return "", false
}

// TopicValue gives the value of a topic setting in force: the topic's own, or
// that of the broker settings behind it, or the default.
func (l Layers) TopicValue(name string) (string, bool) {
	if v, ok := l.Topic.get(name); ok {
		return v, true
	}
	if names := topicSynonyms(name); names != nil {
		if v, ok := l.brokerValue(names); ok {
			return v, true
		}
	}
	k, ok := TopicKey(name)
	if !ok || k.Null {
		return "", false
	}
	return k.Default, true
}

// BrokerValue gives the value of a broker setting in force.
func (l Layers) BrokerValue(name string) (string, bool) {
	return l.brokerValue([]synonym{{name: name}})
}

// BrokerNameOf is the broker setting that a topic setting falls back to, ""
// if only topics have it.
func BrokerNameOf(topicKey string) string {
	if names := topicSynonyms(topicKey); names != nil {
		return names[0].name
	}
	return ""
}
