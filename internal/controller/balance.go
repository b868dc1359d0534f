package controller

import (
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// maxBalanced bounds the leaderships that one check gives back
// (ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE).
const maxBalanced = 1000

// balance gives leaderships back to the preferred replicas that can take them.
// If there are more than it may move at once, the next check is due at once.
func (s *step) balance() {
	s.nextBalance = s.now.Mono.Add(s.opts.LeaderCheckInterval)
	active := func(n kafka.NodeID) bool {
		b := s.tip.Broker(n)
		return b != nil && b.Active()
	}
	var records []record.Message
	s.tip.EachBroker(func(b *metadata.Broker) bool {
		if !b.Active() || s.tip.Counts(b.ID).Imbalance == 0 {
			return true
		}
		s.tip.EachPartitionOf(b.ID, func(t metadata.Topic, p metadata.Partition) bool {
			if p.Preferred() != b.ID || p.Leader == b.ID {
				return true
			}
			c := s.newChange(t, p, active)
			c.election = electPreferred
			if m := c.build(); m != nil {
				records = append(records, m)
			}
			return len(records) < maxBalanced
		})
		return len(records) < maxBalanced
	})
	if len(records) == maxBalanced {
		s.nextBalance = s.now.Mono
	}
	s.writeSplit(records)
}
