package partition

import (
	"slices"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/seglog/logdir"
)

func brokerSetting(broker, key, value string) *record.Config {
	m := &record.Config{ResourceType: 4, ResourceName: broker, Name: key, Value: &value}
	if value == "" {
		m.Value = nil
	}
	return m
}

// Dynamic broker settings that the Store takes act at once, the broker's own
// before the cluster's, and are gone when they are unset. Fails without tune, or
// if one of its values is read from the Options.
func TestStoreTunes(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0})
	r.append(r.part(id, 0), idempotent(9, 0, 0, "x"))
	known := func() int { list, _ := r.part(id, 0).Producers(); return len(list) }
	r.apply(brokerSetting("", "producer.id.expiration.ms", "3600000"), brokerSetting("1", "producer.id.expiration.ms", "86400000"))
	r.pass(2 * time.Hour)
	if known() != 1 {
		t.Error("the producer is forgotten by the cluster's setting, though the broker has one")
	}
	r.apply(brokerSetting("1", "producer.id.expiration.ms", ""))
	r.pass(11 * time.Minute)
	if known() != 0 {
		t.Error("the producer is known after two hours")
	}
	r.apply(brokerSetting("1", "log.segment.delete.delay.ms", "5000"))
	r.apply(&record.RemoveTopic{TopicID: id})
	r.pass(11 * time.Second)
	if got := r.folders("/a", logdir.Deleted); len(got) != 0 {
		t.Errorf("left after the delay: %v", got)
	}
	r.apply(brokerSetting("1", "log.segment.delete.delay.ms", ""))
	id = r.topic("t", []int{0})
	r.apply(&record.RemoveTopic{TopicID: id})
	r.pass(11 * time.Second)
	if got := r.folders("/a", logdir.Deleted); len(got) != 1 {
		t.Errorf("gone before the delay: %v", got)
	}
}

// KIP-1066: a cordoned directory gets no new replica while there is another; what
// is there stays. Fails if place does not look, or the start forgets.
func TestCordonedDirectoriesGetNoNewReplicas(t *testing.T) {
	r := newRig(t, "/a", "/b").mustOpen()
	in := func(id kafka.TopicID) kafka.DirectoryID { return r.part(id, 0).Directory() }
	a, b := kafka.DirectoryID{15: 100}, kafka.DirectoryID{15: 101}
	old := r.topic("old", []int{0})
	r.apply(brokerSetting("1", "cordoned.log.dirs", "/a"))
	for range 2 {
		for range 3 {
			if got := in(r.topic("t"+string(rune('a'+r.ids)), []int{-1})); got != b {
				t.Errorf("a new replica is in %v", got)
			}
		}
		if in(old) != a || !slices.Equal(r.s.CordonedDirs(), []kafka.DirectoryID{a}) {
			t.Errorf("old replica in %v, cordoned %v", in(old), r.s.CordonedDirs())
		}
		r.reopen()
	}
	r.apply(brokerSetting("1", "cordoned.log.dirs", ""))
	if got := in(r.topic("last", []int{-1})); got != a {
		t.Errorf("after the cordon a new replica is in %v", got)
	}
}
