package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/metadata"
)

// inSync is the shell of lifecycle.Alone: publish feeds it, whoever has a reason
// calls send.
type inSync struct {
	b    *broker
	told atomic.Bool

	mu   sync.Mutex
	core lifecycle.Alone
}

// follow looks at what a committed change did to the partitions led here.
func (s *inSync) follow(d *metadata.Delta) {
	self := s.b.s.opts.Config.NodeID
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range d.Topics() {
		for _, n := range c.Partitions {
			id := kafka.TopicIDPartition{TopicID: c.ID(), Partition: n}
			p, ok := c.After.Partition(n)
			if ok && !c.Deleted() && p.Leader == self && slices.ContainsFunc(p.ISR, func(r kafka.NodeID) bool { return r != self }) {
				s.core.Leads(lifecycle.Led{TopicIDPartition: id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch})
			} else {
				s.core.Settled(id)
			}
		}
	}
}

func (s *inSync) deadline() kafka.Mono {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Deadline()
}

// send asks for what is due. Only a broker in service is listened to.
func (s *inSync) send(epoch kafka.BrokerEpoch) {
	s.mu.Lock()
	due := s.core.Next(s.b.s.clock())
	s.mu.Unlock()
	if len(due) == 0 {
		return
	}
	if !s.told.Swap(true) {
		s.b.s.log.Warn("this version does not copy data between brokers: where several replicas are assigned, the leader alone is in sync")
	}
	s.b.s.control().own(aloneRequest(s.b.s.opts.Config.NodeID, epoch, due), s.b.timeout, func(kmsg.Response, error) {
		s.mu.Lock()
		s.core.Answered(s.b.s.clock())
		s.mu.Unlock()
		s.b.wake()
	})
}

func aloneRequest(self kafka.NodeID, epoch kafka.BrokerEpoch, due []lifecycle.Led) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.SetVersion(req.MaxVersion())
	req.BrokerID, req.BrokerEpoch = int32(self), int64(epoch)
	for _, l := range due {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicID != l.TopicID {
			t := kmsg.NewAlterPartitionRequestTopic()
			t.TopicID = l.TopicID
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.PartitionEpoch = int32(l.Partition), int32(l.LeaderEpoch), l.PartitionEpoch
		p.NewISR = []int32{int32(self)} // v2
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		m.BrokerID, m.BrokerEpoch = int32(self), int64(epoch)
		p.NewEpochISR = append(p.NewEpochISR, m)
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// wake has the broker's goroutine look around.
func (b *broker) wake() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// earlier is the time until the first of two deadlines.
func (b *broker) earlier(x, y kafka.Mono) time.Duration {
	d := min(x, y)
	if d == kafka.Never {
		return time.Hour
	}
	return max(d.Sub(b.s.clock().Mono), 0)
}
