package metadata

import (
	"reflect"
	"slices"

	"github.com/tidwall/btree"

	"moldau/internal/kafka"
)

// Diff gives the delta that leads from one image to another that was not made
// from it: a snapshot was loaded. What the new image lacks counts as deleted
// (KAFKA-14894). The delta is applied already; both images stay as they are.
func Diff(from, to *Image) *Delta {
	d := NewDelta(from)
	d.next, d.applied = to, true
	d.diffTopics()
	diffKeys(from.brokers, to.brokers, func(id kafka.NodeID) { d.brokers[id] = struct{}{} })
	diffKeys(from.controllers, to.controllers, func(id kafka.NodeID) { d.controllers[id] = struct{}{} })
	diffKeys(from.features, to.features, func(name string) { d.features[name] = struct{}{} })
	if from.version != to.version {
		d.features[FeatureMetadataVersion] = struct{}{}
	}
	diffKeys(from.configs, to.configs, func(key string) {
		c, ok := from.configs.Get(key)
		if !ok {
			c, _ = to.configs.Get(key)
		}
		d.configs[c.resource] = struct{}{}
	})
	diffKeys(from.quotas, to.quotas, func(string) { d.security.Quotas = true })
	diffKeys(from.scram, to.scram, func(string) { d.security.SCRAM = true })
	diffKeys(from.acls, to.acls, func(string) { d.security.ACLs = true })
	diffKeys(from.tokens, to.tokens, func(string) { d.security.DelegationTokens = true })
	return d
}

// diffKeys calls f with each key whose value is missing or another on one side.
func diffKeys[K cmpOrdered, V any](from, to *btree.Map[K, V], f func(K)) {
	from.Scan(func(k K, v V) bool {
		if w, ok := to.Get(k); !ok || !reflect.DeepEqual(v, w) {
			f(k)
		}
		return true
	})
	to.Scan(func(k K, _ V) bool {
		if _, ok := from.Get(k); !ok {
			f(k)
		}
		return true
	})
}

func (d *Delta) diffTopics() {
	d.base.EachTopic(func(before Topic) bool {
		after := d.next.TopicByID(before.ID())
		c := TopicChange{Before: before, After: after}
		var changed partitionSet
		n := max(len(before.slot.parts), afterParts(after))
		for i := range n {
			id := kafka.PartitionID(i)
			p, had := before.Partition(id)
			q, has := after.Partition(id)
			if had != has || !samePartition(&p, &q) {
				changed.add(id)
			}
		}
		if c.Partitions = changed.list(); c.Deleted() || len(c.Partitions) > 0 {
			d.diffed = append(d.diffed, c)
		}
		return true
	})
	d.next.EachTopic(func(after Topic) bool {
		if !d.base.TopicByID(after.ID()).Exists() {
			var all partitionSet
			after.Each(func(p Partition) bool { all.add(p.ID); return true })
			d.diffed = append(d.diffed, TopicChange{After: after, Partitions: all.list()})
		}
		return true
	})
}

func afterParts(t Topic) int {
	if t.slot == nil {
		return 0
	}
	return len(t.slot.parts)
}

func samePartition(p, q *Partition) bool {
	return p.Leader == q.Leader && p.LeaderEpoch == q.LeaderEpoch && p.PartitionEpoch == q.PartitionEpoch &&
		p.Recovery == q.Recovery && slices.Equal(p.Replicas, q.Replicas) && slices.Equal(p.ISR, q.ISR) &&
		slices.Equal(p.ELR, q.ELR) && slices.Equal(p.LastKnownELR, q.LastKnownELR) &&
		slices.Equal(p.Adding, q.Adding) && slices.Equal(p.Removing, q.Removing) &&
		slices.Equal(p.Directories, q.Directories)
}
