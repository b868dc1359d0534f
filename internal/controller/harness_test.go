package controller

import (
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// testRules is a small set of settings.
type testRules struct{}

func (testRules) CheckTopic(name, value string) error {
	switch name {
	case "cleanup.policy", "retention.ms", "min.insync.replicas", "unclean.leader.election.enable":
		if value == "bad" {
			return errors.New("Invalid value bad for configuration " + name)
		}
		return nil
	}
	return errors.New("Unknown topic config name: " + name)
}
func (testRules) CheckTopicSet(map[string]string) error { return nil }
func (testRules) CheckBroker(name, value string, _ bool) error {
	if value == "bad" {
		return errors.New("Invalid value bad for configuration " + name)
	}
	return nil
}
func (testRules) CheckGroup(map[string]string) error                 { return nil }
func (testRules) CheckClientMetrics(map[string]string) (bool, error) { return false, nil }
func (testRules) IsList(_ metadata.ResourceType, name string) bool {
	return name == "cleanup.policy"
}
func (testRules) Default(_ metadata.ResourceType, name string) (string, bool) {
	return "delete", name == "cleanup.policy"
}
func (testRules) TopicDefaults() []TopicDefault {
	return []TopicDefault{
		{Name: "cleanup.policy", Value: "delete", Source: DefaultConfig, BrokerName: "log.cleanup.policy"},
		{Name: "retention.ms", Value: "604800000", Source: DefaultConfig, BrokerName: "log.retention.ms"},
	}
}

// harness plays the shell: it keeps the log and replays what the core writes.
type harness struct {
	t         testing.TB
	core      *Core
	now       kafka.Now
	tip       *metadata.Image
	committed *metadata.Image
	log       []VersionedRecord // committed
	tail      []VersionedRecord // appended, not committed
	out       strings.Builder
	quiet     bool
}

func bootstrapRecords(elr bool) []VersionedRecord {
	out := []VersionedRecord{{&record.FeatureLevel{Name: metadata.FeatureMetadataVersion, FeatureLevel: int16(metadata.LatestVersion)}, 0}}
	if elr {
		out = append(out, VersionedRecord{&record.FeatureLevel{Name: metadata.FeatureELR, FeatureLevel: 1}, 0})
	}
	return out
}

func newHarness(t testing.TB, elr bool) *harness {
	h := &harness{t: t, tip: metadata.Empty(), now: kafka.Now{Mono: kafka.Mono(time.Hour), Wall: 1}}
	h.committed = h.tip
	rnd := rand.New(rand.NewSource(1))
	h.core = New(Options{
		NodeID: 9, ClusterID: "cluster", Bootstrap: bootstrapRecords(elr), Rules: testRules{}, Random: rnd.Uint64,
		Features: []metadata.Feature{{Name: metadata.FeatureMetadataVersion, Min: int16(metadata.MinVersion), Max: int16(metadata.LatestVersion)},
			{Name: metadata.FeatureELR, Max: 1}, {Name: metadata.FeatureGroup, Max: 1}, {Name: metadata.FeatureTransaction, Max: 2}},
		SessionTimeout: 9 * time.Second, MaxIdleInterval: 500 * time.Millisecond,
		DefaultPartitions: 1, DefaultReplicationFactor: 1, MinInSyncReplicas: 1,
	})
	return h
}

func (h *harness) next() kafka.Offset { return kafka.Offset(len(h.log) + len(h.tail)) }

// step gives the core an event, appends what it writes and replays it.
func (h *harness) step(ev Event) []Reply {
	h.t.Helper()
	var out Effects
	h.core.Step(h.now, ev, h.tip, h.next(), &out)
	for _, batch := range out.Batches {
		if len(batch) == 0 || len(batch) > MaxRecordsPerOperation+4 {
			h.t.Fatalf("batch of %d records", len(batch))
		}
		d := metadata.NewDelta(h.tip)
		h.printf("batch at %d\n", h.next())
		for _, r := range batch {
			record.AppendMetadata(nil, r.Message, r.Version) // panics on a version that cannot carry it
			if err := d.Replay(r.Message); err != nil {
				h.t.Fatalf("%T: %v", r.Message, err)
			}
			h.printf("  %s v%d%s\n", r.Message.Kind(), r.Version, fields(reflect.ValueOf(r.Message).Elem()))
		}
		h.tail = append(h.tail, batch...)
		h.tip = d.Apply(metadata.Provenance{EndOffset: h.next()})
	}
	for _, r := range out.Replies {
		if r.Body == nil {
			h.printf("failed %s %q\n", r.Code, r.Message)
		} else {
			h.printf("reply%s\n", fields(reflect.ValueOf(r.Body).Elem()))
		}
	}
	return out.Replies
}

func (h *harness) printf(format string, args ...any) {
	if !h.quiet {
		fmt.Fprintf(&h.out, format, args...)
	}
}

func (h *harness) commit() {
	h.log, h.tail, h.committed = append(h.log, h.tail...), nil, h.tip
}

// resign loses leadership: what was not committed is gone.
func (h *harness) resign() {
	h.tip, h.tail = h.committed, nil
	h.step(Resigned{})
}

// advance lets time pass and fires every deadline on the way.
func (h *harness) advance(d time.Duration) {
	end := h.now.Mono.Add(d)
	for range 1000 {
		due := h.core.Deadline()
		if due > end {
			h.now.Mono = end
			return
		}
		h.now.Mono = max(h.now.Mono, due)
		h.step(DeadlineReached{})
	}
	h.t.Fatal("deadlines do not end")
}

// fields prints what is set in a struct.
func fields(v reflect.Value) string {
	var b strings.Builder
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name == "UnknownTags" || name == "Version" {
			continue
		}
		if s := value(v.Field(i)); s != "" {
			b.WriteString(" " + name + "=" + s)
		}
	}
	return b.String()
}

func value(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.Slice && v.IsNil():
		return ""
	case v.Kind() == reflect.Pointer:
		if s := value(v.Elem()); s != "" {
			return s
		}
		return "{}"
	case v.Kind() == reflect.Array && v.Len() == 16:
		if v.IsZero() {
			return ""
		}
		var u kafka.UUID
		reflect.Copy(reflect.ValueOf(&u).Elem(), v)
		return u.String()
	case v.Kind() == reflect.Slice:
		var parts []string
		for i := range v.Len() {
			s := value(v.Index(i))
			if s == "" {
				s = "0"
			}
			parts = append(parts, s)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case v.Kind() == reflect.Struct:
		return "{" + strings.TrimPrefix(fields(v), " ") + "}"
	case v.IsZero():
		return ""
	case v.Kind() == reflect.String:
		return fmt.Sprintf("%q", v.String())
	case v.Kind() == reflect.Int16 && v.Type() == reflect.TypeOf(int16(0)):
		return fmt.Sprint(v.Int())
	}
	return fmt.Sprint(v.Interface())
}
