package config

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
)

func TestTablesAreSorted(t *testing.T) {
	for _, keys := range [][]Key{brokerKeys, topicKeys, groupKeys, clientMetricsKeys, ownKeys} {
		if !sort.SliceIsSorted(keys, func(i, j int) bool { return keys[i].Name < keys[j].Name }) {
			t.Error("a table is not in order of name; find would miss keys")
		}
		for _, k := range keys {
			if !k.Null {
				if err := k.Check(k.Default); err != nil {
					t.Errorf("default of %s: %v", k.Name, err)
				}
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The files are what Apache Kafka 4.4's kafka-configs --describe --all prints
// for a broker with testdata/server.properties and a topic without overrides.
func TestDescribeAsKafkaDoes(t *testing.T) {
	props, err := ParseProperties(read(t, "server.properties"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(props)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Unknown) > 0 {
		t.Errorf("unknown keys %v", s.Unknown)
	}
	layers := Layers{Static: s.Static, Default: FromMap(map[string]string{"min.insync.replicas": "1"})}
	compare(t, read(t, "describe-topic.txt"), DescribeTopic(layers))
	compare(t, read(t, "describe-broker.txt"), DescribeBroker(layers))
}

func compare(t *testing.T, want string, entries []Entry) {
	t.Helper()
	got := map[string]string{}
	for _, e := range entries {
		var syn []string
		for _, s := range e.Synonyms {
			syn = append(syn, fmt.Sprintf("%s:%s=%s", sourceName(s.Source), s.Name, text(s.Value)))
		}
		got[e.Name] = fmt.Sprintf("%s=%s sensitive=%v synonyms={%s}", e.Name, text(e.Value), e.Sensitive, strings.Join(syn, ", "))
	}
	n := 0
	for _, line := range strings.Split(want, "\n") {
		if !strings.HasPrefix(line, "  ") {
			continue
		}
		n++
		line = strings.TrimSpace(line)
		name, _, _ := strings.Cut(line, "=")
		if got[name] != line {
			t.Errorf("\n got %s\nwant %s", got[name], line)
		}
	}
	if n != len(entries) {
		t.Errorf("%d entries, Kafka has %d", len(entries), n)
	}
}

func text(p *string) string {
	if p == nil {
		return "null"
	}
	return *p
}

func sourceName(s Source) string {
	return []string{"UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"}[s]
}

// HC-167: fails if a value that equals the default loses its source.
func TestHC167SourcesAndSynonyms(t *testing.T) {
	l := Layers{
		Topic:   FromMap(map[string]string{"retention.ms": "604800000"}),
		Broker:  FromMap(map[string]string{"log.retention.ms": "5"}),
		Static:  FromMap(map[string]string{"log.roll.hours": "2", "message.max.bytes": "77"}),
		Default: FromMap(map[string]string{"message.max.bytes": "88"}),
	}
	for _, e := range DescribeTopic(l) {
		switch e.Name {
		case "retention.ms":
			if e.Source != SourceTopic || *e.Value != "604800000" || len(e.Synonyms) != 3 || e.Synonyms[1].Source != SourceBroker {
				t.Errorf("%+v", e)
			}
		case "max.message.bytes":
			if e.Source != SourceDefaultBroker || *e.Value != "88" || e.Synonyms[1].Source != SourceStatic || e.Synonyms[2].Source != SourceDefault {
				t.Errorf("%+v", e)
			}
		}
	}
	if r := ResolveTopic(l); r.SegmentMs != 2*3_600_000 || r.MaxMessageBytes != 88 {
		t.Errorf("%+v", r)
	}
}

func TestCheckTopic(t *testing.T) {
	for _, c := range [][3]string{
		{"retention.ms", "-1", ""},
		{"retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", "x", "Invalid value x for configuration retention.ms: Not a number of type LONG"},
		{"cleanup.policy", "compact,delete", ""},
		{"cleanup.policy", "compress", "Invalid value compress for configuration cleanup.policy: String must be one of: compact, delete"},
		{"compression.gzip.level", "-1", ""},
		{"compression.gzip.level", "10", "Invalid value 10 for configuration compression.gzip.level: Value must be no more than 9"},
		{"min.cleanable.dirty.ratio", "1.5", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.insync.replicas", "3000000000", "Invalid value 3000000000 for configuration min.insync.replicas: Not a number of type INT"},
		{"leader.replication.throttled.replicas", "0:1,1:2", ""},
		{"leader.replication.throttled.replicas", "0-1", "Invalid value 0-1 for configuration leader.replication.throttled.replicas: must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."},
		{"preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"nope", "1", "Unknown topic config name: nope"},
	} {
		got := ""
		if err := CheckTopic(c[0], c[1]); err != nil {
			got = err.Error()
		}
		if got != c[2] {
			t.Errorf("%s=%s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestParseProperties(t *testing.T) {
	got, err := ParseProperties("# c\n! c\n\na=1\nb : two words \n c\tx\\\n   y\nd=\\u0041\\n\\\\\r\nlast")
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"a": "1", "b": "two words ", "c": "xy", "d": "A\n\\", "last": ""} {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
	if _, err := ParseProperties(`a=\u12`); err == nil {
		t.Error(`a cut \u was accepted`)
	}
}

func TestDefaultIsAccepted(t *testing.T) {
	props, err := ParseProperties(Default)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(props)
	if err != nil || len(s.Unknown) != 0 || !s.Broker || !s.Controller || s.Listeners[0].Port != 9092 || s.Listeners[0].Host != "127.0.0.1" {
		t.Fatal(err, s)
	}
}

// Every contradiction must name the key to change.
func TestContradictionsSayTheFix(t *testing.T) {
	for _, c := range [][2]string{
		{"process.roles=", "process.roles=broker,controller"},
		{"node.id=-1", "at least 0"},
		{"broker.id=7", "remove broker.id"},
		{"controller.listener.names=", "controller.listener.names=CONTROLLER"},
		{"listeners=PLAINTEXT://:9092", "add e.g. CONTROLLER://:9093"},
		{"listeners=CONTROLLER://:9093", "add e.g. PLAINTEXT://:9092"},
		{"listeners=FOO://:9092,CONTROLLER://:9093", "add FOO:PLAINTEXT to listener.security.protocol.map"},
		{"listeners=PLAINTEXT://:9092,CONTROLLER://:9092", "different port"},
		{"listeners=SSL://:9092,CONTROLLER://:9093", "use PLAINTEXT"},
		{"listeners=nonsense", "NAME://host:port"},
		{"process.roles=broker", "remove it from listeners"},
		{"advertised.listeners=PLAINTEXT://0.0.0.0:9092", "set advertised.listeners=PLAINTEXT://"},
		{"advertised.listeners=OTHER://h:1", "listener.security.protocol.map"},
		{"controller.quorum.bootstrap.servers=", "e.g. controller.quorum.bootstrap.servers="},
		{"controller.quorum.bootstrap.servers=a:1,b", `"b" is not of the form host:port`},
		{"controller.quorum.bootstrap.servers=a:x", `"a:x" is not of the form host:port`},
		{"controller.quorum.voters=2@h:9093", "has no node 1"},
		{"controller.quorum.voters=1:h", "id@host:port"},
		{"log.dirs=,", "log.dirs"},
		{"log.dirs=", "log.dirs has an empty name"},
		{"num.partitions=0", "num.partitions: Value must be at least 1"},
		{"inter.broker.listener.name=X", "add it there"},
		{"inter.broker.listener.name=CONTROLLER", "a listener of their own"},
		{"controller.listener.names=CONTROLLER,OTHER", "OTHER, which listeners does not have"},
		{"listeners=PLAINTEXT://h:1,IN://h:2,CONTROLLER://h:3\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT\nadvertised.listeners=PLAINTEXT://h:1\ninter.broker.listener.name=IN", "leaves out IN"},
		{"process.roles=broker\nlisteners=PLAINTEXT://h:1\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT", "add CONTROLLER:PLAINTEXT"},
		{"process.roles=broker\nlisteners=PLAINTEXT://h:1\ncontroller.quorum.voters=1@h:9093", "but process.roles has no controller"},
		{"process.roles=broker\nlisteners=PLAINTEXT://h:1\ncontroller.quorum.auto.join.enable=true", "is for controllers"},
		{"process.roles=controller", "has others than controller.listener.names"},
		{"process.roles=controller\nlisteners=PLAINTEXT://h:1", "listeners has none of controller.listener.names"},
	} {
		props, _ := ParseProperties(Default + c[0] + "\n")
		if _, err := NewServer(props); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v; want it to say %q", c[0], err, c[1])
		}
	}
}

// Brokers and controllers alone need only what their role is about, and what
// advertised.listeners leaves out is nobody's business.
func TestRolesAlone(t *testing.T) {
	for _, c := range []struct {
		text               string
		broker, controller bool
	}{
		{"process.roles=broker\nlisteners=PLAINTEXT://h:1", true, false},
		{"process.roles=broker\nlisteners=PLAINTEXT://h:1\ncontroller.quorum.bootstrap.servers=\ncontroller.quorum.voters=7@h:9093", true, false},
		{"process.roles=controller\nlisteners=CONTROLLER://h:1", false, true},
		{"process.roles=controller\nlisteners=CONTROLLER://h:1\ncontroller.quorum.bootstrap.servers=\ncontroller.quorum.voters=1@h:1,2@g:1", false, true},
	} {
		props, _ := ParseProperties(Default + c.text + "\n")
		s, err := NewServer(props)
		if err != nil || s.Broker != c.broker || s.Controller != c.controller {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	props, _ := ParseProperties(Default + "listeners=PLAINTEXT://h:1,IN://h:2,CONTROLLER://h:3\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT\nadvertised.listeners=IN://g:5\n")
	s, err := NewServer(props)
	if err != nil || s.Advertises("PLAINTEXT") || !s.Advertises("IN") || s.Advertises("CONTROLLER") || s.InterBrokerListener != "IN" {
		t.Errorf("%v %+v", err, s)
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add(Default)
	f.Fuzz(func(t *testing.T, s string) {
		if props, err := ParseProperties(s); err == nil {
			_, _ = NewServer(props)
		}
	})
}
