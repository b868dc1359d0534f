package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// alterPartition answers AlterPartition: a leader tells who is in sync. The
// broker epochs of version 3 keep a replica out that has restarted since
// (KIP-903).
func (s *step) alterPartition(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	resp := kmsg.NewPtrAlterPartitionResponse()
	resp.Version = req.Version
	if f := s.checkEpoch(kafka.NodeID(req.BrokerID), kafka.BrokerEpoch(req.BrokerEpoch)); f.failed() {
		resp.ErrorCode = int16(f.code)
		return resp
	}
	var records []record.Message
	seen := map[kafka.TopicIDPartition]bool{}
	for _, rt := range req.Topics {
		t := s.tip.TopicByID(rt.TopicID)
		out := kmsg.NewAlterPartitionResponseTopic()
		out.TopidID = rt.TopicID
		for i := range rt.Partitions {
			rp := &rt.Partitions[i]
			result := kmsg.NewAlterPartitionResponseTopicPartition()
			result.Partition = rp.Partition
			key := kafka.TopicIDPartition{TopicID: rt.TopicID, Partition: kafka.PartitionID(rp.Partition)}
			switch {
			case !t.Exists():
				result.ErrorCode = int16(kafka.ErrUnknownTopicID)
			case seen[key]:
				result.ErrorCode = int16(kafka.ErrInvalidRequest)
			default:
				seen[key] = true
				if m := s.alterOne(kafka.NodeID(req.BrokerID), t, req.Version, rp, &result); m != nil {
					records = append(records, m)
				}
			}
			out.Partitions = append(out.Partitions, result)
		}
		resp.Topics = append(resp.Topics, out)
	}
	s.writeSplit(records)
	return resp
}

// alterOne changes one partition; it fills in the result.
func (s *step) alterOne(leader kafka.NodeID, t metadata.Topic, version int16, req *kmsg.AlterPartitionRequestTopicPartition,
	result *kmsg.AlterPartitionResponseTopicPartition) record.Message {
	p, ok := t.Partition(kafka.PartitionID(req.Partition))
	if !ok {
		result.ErrorCode = int16(kafka.ErrUnknownTopicOrPartition)
		return nil
	}
	wanted := newISR(version, req)
	if code := s.checkISR(leader, &p, wanted, req); code != kafka.NoError {
		result.ErrorCode = int16(code)
		return nil
	}
	c := s.newChange(t, p, func(n kafka.NodeID) bool {
		b := s.tip.Broker(n)
		return b != nil && b.Active()
	})
	// In the order of the image, so that a mere shuffle changes nothing.
	c.isr = slices.DeleteFunc(slices.Clone(p.Replicas), func(n kafka.NodeID) bool {
		return !slices.ContainsFunc(wanted, func(w isrMember) bool { return w.node == n })
	})
	c.recovery = metadata.LeaderRecoveryState(req.LeaderRecoveryState)
	m := c.build()
	if m == nil {
		fillPartition(result, &p)
		return nil
	}
	applyChange(&p, m)
	if m.Leader != metadata.NoLeaderChange && m.Leader != leader {
		// The end of a reassignment moved the leadership; the old leader must
		// look again.
		result.ErrorCode = int16(kafka.ErrNewLeaderElected)
		return m
	}
	fillPartition(result, &p)
	return m
}

// applyChange brings p to the state after m, as far as the answer shows it.
func applyChange(p *metadata.Partition, m *record.PartitionChange) {
	if m.ISR != nil {
		p.ISR = m.ISR
	}
	if m.Leader != metadata.NoLeaderChange {
		p.Leader = m.Leader
		p.LeaderEpoch++
	}
	if m.LeaderRecoveryState != -1 {
		p.Recovery = metadata.LeaderRecoveryState(m.LeaderRecoveryState)
	}
	p.PartitionEpoch++
}

func fillPartition(result *kmsg.AlterPartitionResponseTopicPartition, p *metadata.Partition) {
	result.LeaderID, result.LeaderEpoch = int32(p.Leader), int32(p.LeaderEpoch)
	result.LeaderRecoveryState, result.PartitionEpoch = int8(p.Recovery), p.PartitionEpoch
	result.ISR = []int32{}
	for _, n := range p.ISR {
		result.ISR = append(result.ISR, int32(n))
	}
}

// isrMember is a replica that the leader holds to be in sync.
type isrMember struct {
	node  kafka.NodeID
	epoch kafka.BrokerEpoch // NoBrokerEpoch is not known
}

func newISR(version int16, req *kmsg.AlterPartitionRequestTopicPartition) (out []isrMember) {
	if version < 3 {
		for _, n := range req.NewISR {
			out = append(out, isrMember{kafka.NodeID(n), kafka.NoBrokerEpoch})
		}
		return out
	}
	for _, m := range req.NewEpochISR {
		out = append(out, isrMember{kafka.NodeID(m.BrokerID), kafka.BrokerEpoch(m.BrokerEpoch)})
	}
	return out
}

// checkISR is Kafka's validateAlterPartitionData. A leader with newer epochs
// than ours means that we are not the active controller any more.
func (s *step) checkISR(leader kafka.NodeID, p *metadata.Partition, wanted []isrMember, req *kmsg.AlterPartitionRequestTopicPartition) kafka.ErrorCode {
	recovering := metadata.LeaderRecoveryState(req.LeaderRecoveryState)
	switch {
	case kafka.Epoch(req.LeaderEpoch) > p.LeaderEpoch, req.PartitionEpoch > p.PartitionEpoch:
		return kafka.ErrNotController
	case kafka.Epoch(req.LeaderEpoch) < p.LeaderEpoch:
		return kafka.ErrFencedLeaderEpoch
	case leader != p.Leader:
		return kafka.ErrInvalidRequest
	case req.PartitionEpoch < p.PartitionEpoch:
		return kafka.ErrInvalidUpdateVersion
	case recovering != metadata.Recovered && recovering != metadata.Recovering,
		recovering == metadata.Recovering && (len(wanted) > 1 || p.Recovery == metadata.Recovered):
		return kafka.ErrInvalidRequest
	}
	hasLeader := false
	for i, m := range wanted {
		if !slices.Contains(p.Replicas, m.node) || slices.ContainsFunc(wanted[:i], func(o isrMember) bool { return o.node == m.node }) {
			return kafka.ErrInvalidRequest
		}
		hasLeader = hasLeader || m.node == leader
	}
	if !hasLeader {
		return kafka.ErrInvalidRequest
	}
	for _, m := range wanted {
		b := s.tip.Broker(m.node)
		if b == nil || !b.Active() || m.epoch != kafka.NoBrokerEpoch && m.epoch != b.Epoch {
			return kafka.ErrIneligibleReplica
		}
	}
	return kafka.NoError
}
