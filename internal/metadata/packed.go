package metadata

import (
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// inlineReplicas is how many replicas a packed partition holds itself.
const inlineReplicas = 4

// Bits of packed.flags; the low three are the number of replicas.
const (
	flagCount      = 0x07
	flagPresent    = 0x08 // the partition exists
	flagWide       = 0x10 // the rest stands in topicSlot.wide[nodes[0]]
	flagRecovering = 0x20
)

// packed is a partition in 40 bytes without pointers.
type packed struct {
	nodes          [inlineReplicas]kafka.NodeID
	dirs           [inlineReplicas]uint16 // numbers in dirTable
	leader         kafka.NodeID
	leaderEpoch    kafka.Epoch
	partitionEpoch int32
	flags          uint8
	isr, elr, last uint8 // bit i is nodes[i]
}

func (p *packed) present() bool { return p.flags&flagPresent != 0 }
func (p *packed) wide() bool    { return p.flags&flagWide != 0 }
func (p *packed) replicas() []kafka.NodeID {
	return p.nodes[:p.flags&flagCount]
}

// dirTable numbers directory ids. It only grows, and tables of deltas share
// their beginning.
type dirTable struct {
	list  []kafka.DirectoryID
	index map[kafka.DirectoryID]uint16
}

func (t *dirTable) clone() *dirTable {
	c := &dirTable{list: slices.Clone(t.list), index: make(map[kafka.DirectoryID]uint16, len(t.index)+1)}
	for d, i := range t.index {
		c.index[d] = i
	}
	return c
}

// bits maps a list onto bits over the replicas; false if it does not fit.
func bits(replicas, list []kafka.NodeID) (b uint8, ok bool) {
	for _, n := range list {
		i := slices.Index(replicas, n)
		if i < 0 || b&(1<<i) != 0 {
			return 0, false
		}
		b |= 1 << i
	}
	return b, true
}

// pack gives the small form, or false if p needs the wide one. intern numbers
// a directory, or says that there are no numbers left.
func pack(p *Partition, intern func(kafka.DirectoryID) (uint16, bool)) (q packed, ok bool) {
	n := len(p.Replicas)
	if n > inlineReplicas || p.Reassigning() {
		return q, false
	}
	for i, r := range p.Replicas {
		if slices.Contains(p.Replicas[:i], r) {
			return q, false
		}
	}
	var okISR, okELR, okLast bool
	q.isr, okISR = bits(p.Replicas, p.ISR)
	q.elr, okELR = bits(p.Replicas, p.ELR)
	q.last, okLast = bits(p.Replicas, p.LastKnownELR)
	if !okISR || !okELR || !okLast {
		return q, false
	}
	copy(q.nodes[:], p.Replicas)
	for i, d := range p.Directories {
		if q.dirs[i], ok = intern(d); !ok {
			return q, false
		}
	}
	q.flags = flagPresent | uint8(n)
	q.setHead(p)
	return q, true
}

// setHead sets what both forms carry.
func (q *packed) setHead(p *Partition) {
	q.leader, q.leaderEpoch, q.partitionEpoch = p.Leader, p.LeaderEpoch, p.PartitionEpoch
	q.flags |= flagPresent
	if p.Recovery == Recovering {
		q.flags |= flagRecovering
	}
}

// patch applies a change in place as Partition.merge would, if it concerns
// nothing but leadership and sets of replicas; else it reports false and q is
// of no use.
func (q *packed) patch(m *record.PartitionChange) bool {
	if m.Replicas != nil || m.AddingReplicas != nil || m.RemovingReplicas != nil || m.Directories != nil {
		return false
	}
	nodes := q.nodes[:q.flags&flagCount]
	for _, set := range []struct {
		to   *uint8
		from []kafka.NodeID
	}{{&q.isr, m.ISR}, {&q.elr, m.EligibleLeaderReplicas}, {&q.last, m.LastKnownELR}} {
		if set.from == nil {
			continue
		}
		b, ok := bits(nodes, set.from)
		if !ok {
			return false
		}
		*set.to = b
	}
	switch LeaderRecoveryState(m.LeaderRecoveryState) {
	case noRecoveryChange:
	case Recovered:
		q.flags &^= flagRecovering
	case Recovering:
		q.flags |= flagRecovering
	default:
		return false
	}
	if m.Leader != NoLeaderChange {
		q.leader = m.Leader
		q.leaderEpoch++
	}
	q.partitionEpoch++
	return true
}

// pick gives the nodes whose bits are set, in order of preference.
func (q *packed) pick(b uint8) []kafka.NodeID {
	if b == 0 {
		return nil
	}
	out := make([]kafka.NodeID, 0, inlineReplicas)
	for i, n := range q.replicas() {
		if b&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return out
}

// unpack spells out a packed partition that is not wide.
func (q *packed) unpack(id kafka.PartitionID, dirs *dirTable) Partition {
	p := Partition{
		ID: id, Leader: q.leader, LeaderEpoch: q.leaderEpoch, PartitionEpoch: q.partitionEpoch,
		Replicas: slices.Clone(q.replicas()), ISR: q.pick(q.isr), ELR: q.pick(q.elr), LastKnownELR: q.pick(q.last),
		Directories: make([]kafka.DirectoryID, len(q.replicas())),
	}
	for i := range p.Directories {
		p.Directories[i] = dirs.list[q.dirs[i]]
	}
	if q.flags&flagRecovering != 0 {
		p.Recovery = Recovering
	}
	return p
}
