package sim

import (
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// partitionChecker: at every batch the leader of a partition is live and in
// sync, or there is none (HC-043); epochs of partitions never fall.
type partitionChecker struct{ w *World }

func (c *partitionChecker) committed(base kafka.Offset, delta *metadata.Delta) {
	img := delta.Image()
	check := func(t metadata.Topic, p metadata.Partition) {
		if p.Leader == kafka.NoNode {
			return
		}
		b := img.Broker(p.Leader)
		if b == nil || b.Fenced || !slices.Contains(p.ISR, p.Leader) {
			c.w.violate("partition leader", "%s-%d is led by %d at offset %d; in sync are %v, broker %+v", t.Name(), p.ID, p.Leader, base, p.ISR, b)
		}
	}
	if len(delta.Brokers()) > 0 {
		img.EachTopic(func(t metadata.Topic) bool {
			t.Each(func(p metadata.Partition) bool { check(t, p); return true })
			return true
		})
		return
	}
	for _, ch := range delta.Topics() {
		for _, id := range ch.Partitions {
			pc := ch.Partition(id)
			if pc.Removed {
				continue
			}
			check(ch.After, pc.After)
			if !pc.Created && (pc.After.LeaderEpoch < pc.Before.LeaderEpoch || pc.After.PartitionEpoch < pc.Before.PartitionEpoch) {
				c.w.violate("partition epoch", "%s-%d at offset %d: %+v becomes %+v", ch.After.Name(), id, base, pc.Before, pc.After)
			}
		}
	}
}
