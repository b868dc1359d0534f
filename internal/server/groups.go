package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/batch"
	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
	"moldau/internal/record"
	"moldau/internal/statemachine"
)

// groups are the coordinators of groups: one for each partition of
// __consumer_offsets that this broker leads. They follow the metadata as the
// store does, and after it.
type groups struct {
	s *Server

	mu       sync.Mutex
	stopped  bool
	machines atomic.Pointer[[]*statemachine.Machine] // by partition; nil: led elsewhere
}

func newGroups(s *Server) *groups {
	g := &groups{s: s}
	g.machines.Store(&[]*statemachine.Machine{})
	return g
}

// Partition implements handler.Groups.
func (g *groups) Partition(id string) kafka.PartitionID {
	n := int32(g.s.Image().TopicByName(kafka.ConsumerOffsetsTopic).NumPartitions())
	if n == 0 {
		n = int32(g.s.opts.Config.Long("offsets.topic.num.partitions"))
	}
	return kafka.CoordinatorPartition(id, n)
}

// Machine implements handler.Groups.
func (g *groups) Machine(n kafka.PartitionID) *statemachine.Machine {
	list := *g.machines.Load()
	if int(n) >= len(list) {
		return nil
	}
	return list[n]
}

// Machines implements handler.Groups.
func (g *groups) Machines() []*statemachine.Machine {
	return slices.DeleteFunc(slices.Clone(*g.machines.Load()), func(m *statemachine.Machine) bool { return m == nil })
}

// load begins with the first image, when the logs are open.
func (g *groups) load(img *metadata.Image) {
	g.mu.Lock()
	defer g.mu.Unlock()
	topic := img.TopicByName(kafka.ConsumerOffsetsTopic)
	topic.Each(func(p metadata.Partition) bool {
		g.assign(topic, p.ID)
		return true
	})
}

// follow takes in a change of the metadata: leaderships first, then deletions of
// topics, whose offsets go (BrokerMetadataPublisher). Coordinators that load
// hear of deletions afterwards; what is deleted while nobody leads stays until it
// expires, as in Kafka.
func (g *groups) follow(d *metadata.Delta, img *metadata.Image) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var gone []kafka.TopicPartition
	for _, c := range d.Topics() {
		switch {
		case c.Deleted():
			gone = append(gone, partitionsOf(c.Before)...)
			if c.Before.Name() == kafka.ConsumerOffsetsTopic {
				g.resignAll()
			}
		case c.After.Name() == kafka.ConsumerOffsetsTopic:
			for _, n := range c.Partitions {
				g.assign(c.After, n)
			}
		}
	}
	if len(gone) == 0 {
		return
	}
	for _, m := range g.Machines() {
		m.Notify(group.PartitionsDeleted{Partitions: gone})
	}
}

func partitionsOf(t metadata.Topic) (out []kafka.TopicPartition) {
	t.Each(func(p metadata.Partition) bool {
		out = append(out, kafka.TopicPartition{Topic: t.Name(), Partition: p.ID})
		return true
	})
	return out
}

// assign begins or ends a coordinator, or begins it anew in another leader epoch.
// Called with mu held.
func (g *groups) assign(topic metadata.Topic, n kafka.PartitionID) {
	p, _ := topic.Partition(n)
	store := g.s.store.Partition(topic.ID(), n)
	leads := p.Leader == g.s.opts.Config.NodeID && store != nil
	old := g.Machine(n)
	switch {
	case g.stopped, old == nil && !leads, old != nil && leads && old.Epoch() == p.LeaderEpoch:
		return
	case old != nil:
		old.Resign()
	}
	var m *statemachine.Machine
	if leads {
		m = g.newMachine(store, p.LeaderEpoch)
		m.Start()
	}
	g.set(n, m)
}

func (g *groups) set(n kafka.PartitionID, m *statemachine.Machine) {
	old := *g.machines.Load()
	list := make([]*statemachine.Machine, max(len(old), int(n)+1))
	copy(list, old)
	list[n] = m
	g.machines.Store(&list)
}

func (g *groups) resignAll() {
	for _, m := range g.Machines() {
		m.Resign()
	}
	g.machines.Store(&[]*statemachine.Machine{})
}

// stop ends all coordinators; none begins any more.
func (g *groups) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.resignAll()
}

// newMemberJoinTimeout is how long a new member of a group may wait for its first
// generation (GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS).
const newMemberJoinTimeout = 5 * time.Minute

func (g *groups) newMachine(p *partition.Partition, epoch kafka.Epoch) *statemachine.Machine {
	c := g.s.opts.Config
	return statemachine.New(statemachine.Options{
		Name: p.Name(), Epoch: epoch, Kind: record.GroupLog,
		NewCore: func() coordinator.Core {
			return group.New(group.Options{
				MinSessionMs: int32(c.Long("group.min.session.timeout.ms")), MaxSessionMs: int32(c.Long("group.max.session.timeout.ms")),
				MaxSize: int32(c.Long("group.max.size")), InitialRebalanceDelayMs: int32(c.Long("group.initial.rebalance.delay.ms")),
				NewMemberJoinTimeoutMs: int32(newMemberJoinTimeout.Milliseconds()), MaxMetadataSize: int32(c.Long("offset.metadata.max.bytes")),
				RetentionMs:      c.Long("offsets.retention.minutes") * time.Minute.Milliseconds(),
				RetentionCheckMs: c.Long("offsets.retention.check.interval.ms"), UUID: NewUUID,
			})
		},
		Log: stateLog{p}, Timer: stateTimer{g.s.store.Deadlines}, Go: func(f func()) { go f() }, Now: g.s.clock, Logger: g.s.log,
		CommitTimeout:   time.Duration(c.Long("offsets.commit.timeout.ms")) * time.Millisecond,
		LoadBufferBytes: int(c.Long("offsets.load.buffer.size")), Codec: batch.Codec(c.Long("offsets.topic.compression.codec")),
	})
}

// stateLog is a partition as the log of a state machine.
type stateLog struct{ p *partition.Partition }

func (l stateLog) Append(epoch kafka.Epoch, base kafka.Offset, now kafka.WallMs, batches ...batch.Batch) (kafka.Offset, kafka.ErrorCode) {
	return l.p.AppendAt(epoch, base, now, batches...)
}

func (l stateLog) Span(epoch kafka.Epoch) (start, end kafka.Offset, err error) {
	return l.p.Span(epoch)
}

func (l stateLog) Read(epoch kafka.Epoch, from kafka.Offset, maxBytes int, buf []byte) ([]byte, error) {
	return l.p.ReadAhead(epoch, from, maxBytes, buf)
}

func (l stateLog) HighWatermark() kafka.Offset { return l.p.HighWatermark() }

// MaxBatchBytes is what both a batch and a segment may have: the commits of many
// clients, written as one, must not fail where each alone would not.
func (l stateLog) MaxBatchBytes() int {
	s := l.p.Settings()
	return int(min(int64(s.Rules.MaxBatchBytes), s.SegmentBytes))
}

func (l stateLog) Watch(news func()) func() {
	w := partition.NewWaiter(news)
	l.p.Watch(w)
	return func() { l.p.Unwatch(w) }
}

// stateTimer is the store's heap of deadlines as the timer of a state machine.
type stateTimer struct{ d *partition.Deadlines }

func (t stateTimer) At(at kafka.Mono, ring func()) func() {
	w := partition.NewWaiter(ring)
	t.d.Add(w, at)
	return func() { t.d.Remove(w) }
}
