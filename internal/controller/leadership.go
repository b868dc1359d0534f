package controller

import (
	"slices"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// brokerEvent is why the partitions of a broker are looked at.
type brokerEvent int8

const (
	brokerGone     brokerEvent = iota // it leaves ISR and leadership
	brokerBack                        // it may lead what nobody leads
	brokerLostData                    // as gone, and it leaves the ELR too
)

// leaderAndISR makes the changes of all partitions that a broker's coming or
// going asks for (generateLeaderAndIsrUpdates).
func (s *step) leaderAndISR(id kafka.NodeID, why brokerEvent) []record.Message {
	var out []record.Message
	active := func(n kafka.NodeID) bool {
		if n == id {
			return why == brokerBack
		}
		b := s.tip.Broker(n)
		return b != nil && b.Active()
	}
	s.tip.EachPartitionOf(id, func(t metadata.Topic, p metadata.Partition) bool {
		switch why {
		case brokerBack:
			if p.Leader != kafka.NoNode {
				return true
			}
		case brokerLostData:
			if !slices.Contains(p.ISR, id) && !slices.Contains(p.ELR, id) {
				return true
			}
		default:
			if !slices.Contains(p.ISR, id) {
				return true
			}
		}
		c := s.newChange(t, p, active)
		if why != brokerBack {
			c.isr = without(c.isr, id)
		}
		if why == brokerLostData {
			c.lostData = id
		}
		if m := c.build(); m != nil {
			out = append(out, m)
		}
		return true
	})
	return out
}

// directoriesLost takes the replicas of a broker in lost directories out of
// ISR and leadership.
func (s *step) directoriesLost(id kafka.NodeID, lost []kafka.DirectoryID) []record.Message {
	var out []record.Message
	s.tip.EachPartitionOf(id, func(t metadata.Topic, p metadata.Partition) bool {
		dir, ok := p.Directory(id)
		if !ok || !slices.Contains(lost, dir) || !slices.Contains(p.ISR, id) {
			return true
		}
		c := s.newChange(t, p, func(n kafka.NodeID) bool {
			b := s.tip.Broker(n)
			return n != id && b != nil && b.Active()
		})
		c.isr = without(c.isr, id)
		if m := c.build(); m != nil {
			out = append(out, m)
		}
		return true
	})
	return out
}

// newChange starts a change of a partition. active says which brokers may lead.
func (s *step) newChange(t metadata.Topic, p metadata.Partition, active func(kafka.NodeID) bool) *partitionChange {
	c := &partitionChange{
		topic: t.ID(), before: p, version: s.tip.Version(), useELR: s.tip.CanUseELR(),
		minISR: s.effectiveMinISR(t), lostData: kafka.NoNode, assigned: kafka.NoNode,
		isr: slices.Clone(p.ISR), replicas: p.Replicas, adding: p.Adding, removing: p.Removing,
		elr: p.ELR, recovery: p.Recovery, defaultDir: s.defaultDirectory,
	}
	c.acceptable = func(n kafka.NodeID) bool {
		if !active(n) {
			return false
		}
		dir, known := p.Directory(n)
		return !known || s.tip.Broker(n).Online(dir)
	}
	if s.topicSetting(t.Name(), configUnclean, strconv.FormatBool(s.opts.UncleanLeaderElection)) == "true" {
		c.election = electUnclean
	}
	return c
}

// topicSetting is a setting of a topic that has the same name on brokers: the
// topic's, this node's, the cluster's, or what the configuration file says.
func (s *step) topicSetting(topic, name, static string) string {
	for _, r := range []metadata.Resource{
		{Type: metadata.TopicResource, Name: topic},
		{Type: metadata.BrokerResource, Name: strconv.Itoa(int(s.opts.NodeID))},
		{Type: metadata.BrokerResource},
	} {
		if v, ok := s.tip.Config(r, name); ok {
			return v
		}
	}
	return static
}

// effectiveMinISR is min.insync.replicas, at most the replication factor.
func (s *step) effectiveMinISR(t metadata.Topic) int {
	n, err := strconv.Atoi(s.topicSetting(t.Name(), configMinInSync, strconv.Itoa(max(s.opts.MinInSyncReplicas, 1))))
	if err != nil {
		n = 1
	}
	if p, ok := t.Partition(0); ok {
		n = min(n, len(p.Replicas))
	}
	return n
}

// defaultDirectory is where a new replica on a broker goes: its one directory,
// or wherever the broker decides.
func (s *step) defaultDirectory(id kafka.NodeID) kafka.DirectoryID {
	b := s.tip.Broker(id)
	switch {
	case b == nil:
		return kafka.DirectoryUnassigned
	case len(b.Directories) == 0:
		return kafka.DirectoryMigrating
	case len(b.Directories) == 1:
		return b.Directories[0]
	}
	return kafka.DirectoryUnassigned
}

func without(list []kafka.NodeID, n kafka.NodeID) []kafka.NodeID {
	return slices.DeleteFunc(slices.Clone(list), func(x kafka.NodeID) bool { return x == n })
}
