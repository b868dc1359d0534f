package metadata

import (
	"cmp"
	"maps"
	"slices"

	"moldau/internal/kafka"
)

// TopicChange is a topic that a delta created, deleted or changed. A topic
// that was deleted and created again has two: the ids differ.
type TopicChange struct {
	Before, After Topic // at most one does not exist
	// Partitions are those created, removed or changed, in order.
	Partitions []kafka.PartitionID
}

// Created tells whether the topic is new.
func (c TopicChange) Created() bool { return !c.Before.Exists() }

// Deleted tells whether the topic is gone.
func (c TopicChange) Deleted() bool { return !c.After.Exists() }

// ID is the topic's id.
func (c TopicChange) ID() kafka.TopicID {
	if c.Deleted() {
		return c.Before.ID()
	}
	return c.After.ID()
}

// PartitionChange compares a partition before and after.
type PartitionChange struct {
	Before, After    Partition
	Created, Removed bool
}

// LeaderChanged: the leader, or its epoch, is another.
func (c PartitionChange) LeaderChanged() bool {
	return c.Created || c.Before.Leader != c.After.Leader || c.Before.LeaderEpoch != c.After.LeaderEpoch
}

// ISRChanged: the set of in-sync replicas is another.
func (c PartitionChange) ISRChanged() bool { return !slices.Equal(c.Before.ISR, c.After.ISR) }

// Partition compares one partition of the topic.
func (c TopicChange) Partition(id kafka.PartitionID) PartitionChange {
	var p PartitionChange
	var before, after bool
	p.Before, before = c.Before.Partition(id)
	p.After, after = c.After.Partition(id)
	p.Created, p.Removed = !before && after, before && !after
	return p
}

// Topics lists the topics that changed: deleted ones first, then by name.
func (d *Delta) Topics() []TopicChange {
	out := slices.Grow(slices.Clone(d.diffed), len(d.topics))
	for _, w := range d.topics {
		var c TopicChange
		if w.existed {
			c.Before = d.base.topic(w.slot)
		}
		if !w.deleted {
			c.After = d.next.topic(w.slot)
		}
		if !c.Before.Exists() && !c.After.Exists() {
			continue // came and went
		}
		c.Partitions = w.changed.list()
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b TopicChange) int {
		if a.Deleted() != b.Deleted() {
			if a.Deleted() {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.After.Name()+a.Before.Name(), b.After.Name()+b.Before.Name())
	})
	return out
}

// Brokers lists the brokers that registered, changed or went, in order.
func (d *Delta) Brokers() []kafka.NodeID { return slices.Sorted(maps.Keys(d.brokers)) }

// Controllers lists the controllers that registered or went, in order.
func (d *Delta) Controllers() []kafka.NodeID { return slices.Sorted(maps.Keys(d.controllers)) }

// Features lists the features whose level was set, in order.
func (d *Delta) Features() []string { return slices.Sorted(maps.Keys(d.features)) }

// Configs lists the resources whose overrides changed. Those of a deleted
// topic count.
func (d *Delta) Configs() []Resource {
	return slices.SortedFunc(maps.Keys(d.configs), func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
}

// Security says which of the small tables changed.
func (d *Delta) Security() Security { return d.security }

// Empty tells whether the delta changes nothing that an image shows.
func (d *Delta) Empty() bool {
	return len(d.topics)+len(d.diffed)+len(d.brokers)+len(d.controllers)+len(d.features)+len(d.configs) == 0 &&
		d.security == Security{} && d.base.producerID == d.next.producerID
}
