package config

import (
	"strings"
	"testing"
)

// What Apache Kafka 4.4 answers to these changes of a broker with default
// settings; code 42 each, or none. Each line fails without its check.
func TestCheckBrokerAsKafkaDoes(t *testing.T) {
	for _, q := range []struct {
		cluster bool
		set     string // key=value;key=value
		says    string // "" is accepted
	}{
		{false, "num.io.threads=16", ""},
		{false, "num.io.threads=17", "not be greater than double the current value 8"},
		{true, "num.io.threads=17", "not be greater than double the current value 8"},
		{false, "num.io.threads=3", "at least half the current value 8"},
		{false, "background.threads=21", "double"},
		{false, "num.replica.fetchers=3", "double"},
		{false, "log.cleaner.threads=3", "double"},
		{false, "node.id=1", "Cannot update these configs dynamically: [node.id]"},
		{true, "log.retention.hours=1;num.io.threads=99", "dynamically: [log.retention.hours]"},
		{false, "advertised.listeners=PLAINTEXT://h:1", "dynamically: [advertised.listeners]"},
		{true, "listeners=PLAINTEXT://h:1", "default cluster level, broker id must be specified: [listeners]"},
		{true, "listener.name.plaintext.sasl.jaas.config=x", "default cluster level"},
		{false, "ssl.keystore.location=x", "only per-listener using the listener prefix: [ssl.keystore.location]"},
		{false, "listener.name.plaintext.ssl.keystore.location=x", ""},
		{false, "foo.bar=x", ""},
		{true, "foo.bar=x", ""},
		{true, "listener.name.plaintext.max.connections=5", ""},
		{false, "listener.name.plaintext.max.connections=x", "Invalid value x for configuration max.connections: Not a number of type INT"},
		{false, "leader.replication.throttled.rate=x", "Not a number of type LONG"},
		{false, "leader.replication.throttled.rate=-1", "at least 0"},
		{true, "leader.replication.throttled.rate=5", ""},
		{false, "max.connections.per.ip.overrides=127.0.0.1:5", ""},
		{false, "max.connections.per.ip.overrides=127.0.0.1", "host:limit"},
		{false, "max.connections.per.ip.overrides=127.0.0.1:x", "not a number"},
		{false, "max.connections.per.ip=0", "zero only if"},
		{false, "max.connections.per.ip=0;max.connections.per.ip.overrides=127.0.0.1:5", ""},
		{false, "log.retention.ms=0", "unlimited (-1) or"},
		{false, "log.retention.ms=-1", ""},
		{false, "log.retention.bytes=5;log.local.retention.bytes=10", "log.local.retention.bytes: Value must not be more than log.retention.bytes property value: 5"},
		{false, "log.local.retention.bytes=10", ""},
		{true, "log.local.retention.ms=99999999999", "property value: 604800000"},
		{false, "log.cleaner.dedupe.buffer.size=1000", "1MB per cleaner thread"},
		{false, "log.roll.ms=0", "log.roll.ms must be"},
		{false, "log.roll.jitter.ms=-1", "log.roll.jitter.ms must be"},
		{false, "group.consumer.assignment.interval.ms=20000", "less than or equal to group.consumer.max.assignment.interval.ms"},
		{false, "producer.id.expiration.ms=0", "at least 1"},
		{false, "num.io.threads=99;message.max.bytes=-1", "message.max.bytes: Value must be at least 0"},
		{false, "unclean.leader.election.enable=maybe", "true or false"},
		{false, "cordoned.log.dirs=nowhere", "Missing entries : nowhere"},
		{false, "cordoned.log.dirs=*", ""},
		{false, "cordoned.log.dirs=/tmp/kafka-logs", ""},
		{true, "listener.name.plaintext.foo.bar=x", "default cluster level"},
		// Not Kafka's: what this version cannot do is not promised.
		{false, "principal.builder.class=x", "start again"},
	} {
		err := CheckBroker(Layers{Static: FromMap(combined)}, nil, settings(q.set), q.cluster)
		if got := errorText(err); (got == "") != (q.says == "") || !strings.Contains(got, q.says) {
			t.Errorf("%s (cluster %v): %q, want %q", q.set, q.cluster, got, q.says)
		}
	}
}

// combined are the properties of a node that is broker and controller.
var combined = settings("process.roles=broker,controller;controller.listener.names=CONTROLLER;listeners=PLAINTEXT://:9092,CONTROLLER://:9093")

// settings reads key=value;key=value.
func settings(text string) map[string]string {
	out := map[string]string{}
	for _, kv := range strings.Split(text, ";") {
		if k, v, ok := strings.Cut(kv, "="); ok {
			out[k] = v
		}
	}
	return out
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What Apache Kafka 4.4 answers to group settings, INVALID_CONFIG each.
func TestCheckGroupAsKafkaDoes(t *testing.T) {
	for set, says := range map[string]string{
		"consumer.session.timeout.ms=45000":                                      "",
		"consumer.session.timeout.ms=44000":                                      "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
		"consumer.heartbeat.interval.ms=15001":                                   "in the range 5000 to 15000",
		"consumer.session.timeout.ms=50000;consumer.heartbeat.interval.ms=15000": "",
		"consumer.assignment.interval.ms=0":                                      "",
		"consumer.assignment.interval.ms=15001":                                  "0 to 15000",
		"share.record.lock.duration.ms=14000":                                    "15000 to 60000",
		"share.delivery.count.limit=1":                                           "at least 2",
		"share.delivery.count.limit=11":                                          "2 to 10",
		"share.partition.max.record.locks=4001":                                  "100 to 4000",
		"share.auto.offset.reset=by_duration:PT1H":                               "",
		"share.auto.offset.reset=by_duration:P1DT2H3M4.5S":                       "",
		"share.auto.offset.reset=by_duration:-PT1H":                              "by_duration",
		"share.auto.offset.reset=by_duration:P":                                  "by_duration",
		"share.auto.offset.reset=by_duration:P1DT":                               "by_duration",
		"share.auto.offset.reset=by_duration:PT1.5H":                             "by_duration",
		"share.auto.offset.reset=by_duration:PT1M1H":                             "by_duration",
		"share.auto.offset.reset=EARLIEST":                                       "earliest",
		"share.isolation.level=x":                                                "read_committed, read_uncommitted",
		"streams.num.standby.replicas=2":                                         "",
		"streams.num.standby.replicas=3":                                         "less than or equal to 2",
		"streams.assignor.name=sticky":                                           "",
		"streams.assignor.name=":                                                 "not a registered task assignor",
		"streams.rack.aware.assignment.tags=a,b":                                 "",
		"streams.rack.aware.assignment.tags=a,a":                                 "duplicate",
		"errors.deadletterqueue.topic.name=__consumer_offsets":                   "must not start with",
		"errors.deadletterqueue.topic.name=x":                                    "",
		"nope=1":                                                                 "Unknown group config name: nope",
	} {
		overrides := map[string]string{}
		for _, kv := range strings.Split(set, ";") {
			k, v, _ := strings.Cut(kv, "=")
			overrides[k] = v
		}
		if got := errorText(CheckGroup(overrides, Layers{})); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%s: %q, want %q", set, got, says)
		}
	}
	// The limits are the broker's settings, and so are the defaults.
	wider := Layers{Static: FromMap(map[string]string{"group.consumer.max.session.timeout.ms": "90000", "group.consumer.session.timeout.ms": "80000"})}
	if err := CheckGroup(map[string]string{"consumer.session.timeout.ms": "90000"}, wider); err != nil {
		t.Error(err)
	}
	if v, _ := wider.GroupValue(nil, "consumer.session.timeout.ms"); v != "80000" {
		t.Errorf("a group takes %s from the broker", v)
	}
}

// What Apache Kafka 4.4 answers to client metrics settings; ! is INVALID_REQUEST,
// others INVALID_CONFIG.
func TestCheckClientMetricsAsKafkaDoes(t *testing.T) {
	for set, says := range map[string]string{
		"metrics=a,b":            "",
		"metrics=":               "",
		"metrics=*":              "",
		"metrics=a,a":            "",
		"metrics=a,,b":           "must not be empty",
		"interval.ms=99":         "!between 100 and 3600000",
		"interval.ms=100":        "",
		"interval.ms=3600001":    "!between 100 and 3600000",
		"interval.ms=x":          "Not a number of type INT",
		"match=client_id=x":      "",
		"match=client_id":        "Illegal client matching pattern: client_id",
		"match=nope=x":           "Illegal",
		"match=client_id=[":      "Illegal",
		"match=client_id=a=b":    "Illegal",
		"match=client_id=":       "Illegal",
		"match=client_id=(?!x)y": "", // only Java looks ahead
		"match= client_id = x , client_software_name=y": "",
		"nope=1": "!Unknown client metrics configuration: nope",
	} {
		k, v, _ := strings.Cut(set, "=")
		err := CheckClientMetrics(map[string]string{k: v})
		want, malformed := strings.CutPrefix(says, "!")
		if _, ok := err.(*Malformed); ok != malformed || (err == nil) != (says == "") || !strings.Contains(errorText(err), want) {
			t.Errorf("%s: %v, want %q", set, err, says)
		}
	}
}
