package metadata

import (
	"slices"

	"github.com/tidwall/btree"

	"moldau/internal/kafka"
)

// BrokerCounts are numbers of partitions that concern one broker.
type BrokerCounts struct {
	Replicas  int // it has a replica
	ISR       int // it is in sync
	Leaders   int // it leads
	Preferred int // it should lead: it is the first replica
	Imbalance int // it should lead but does not
}

// brokerParts lists the partitions of one broker: slot in the high half of the
// key, partition id in the low half.
type brokerParts struct {
	parts  keySet
	counts BrokerCounts
}

func partKey(slot int32, id kafka.PartitionID) uint64 { return uint64(slot)<<32 | uint64(uint32(id)) }

// member is what the index knows of one broker in one partition.
type member struct {
	node                             kafka.NodeID
	replica, inISR, leads, preferred bool
}

// members lists the brokers of a partition: replicas, ISR and leader, which
// are the replicas except in odd records.
func (s *topicSlot) members(id kafka.PartitionID, buf []member) []member {
	buf = buf[:0]
	q := &s.parts[id]
	if !q.wide() {
		return q.members(buf)
	}
	p := s.wide[q.nodes[0]]
	add := func(n kafka.NodeID) *member {
		for i := range buf {
			if buf[i].node == n {
				return &buf[i]
			}
		}
		buf = append(buf, member{node: n})
		return &buf[len(buf)-1]
	}
	for i, n := range p.Replicas {
		m := add(n)
		m.replica = true
		m.preferred = m.preferred || i == 0
	}
	for _, n := range p.ISR {
		add(n).inISR = true
	}
	if p.Leader >= 0 {
		add(p.Leader).leads = true
	}
	return buf
}

// members is that of a packed partition.
func (q *packed) members(buf []member) []member {
	buf = buf[:0]
	for i, n := range q.replicas() {
		buf = append(buf, q.member(i, n))
	}
	if q.leader >= 0 && !slices.Contains(q.replicas(), q.leader) {
		buf = append(buf, member{node: q.leader, leads: true})
	}
	return buf
}

// member is the i-th replica, n.
func (q *packed) member(i int, n kafka.NodeID) member {
	return member{n, true, q.isr&(1<<i) != 0, n == q.leader && n >= 0, i == 0}
}

func (c *BrokerCounts) add(m member, n int) {
	count := func(to *int, cond bool) {
		if cond {
			*to += n
		}
	}
	count(&c.Replicas, m.replica)
	count(&c.ISR, m.inISR)
	count(&c.Leaders, m.leads)
	count(&c.Preferred, m.preferred)
	count(&c.Imbalance, m.preferred && !m.leads)
}

// indexer changes the broker index of one delta, partition by partition.
type indexer struct {
	index    *btree.Map[kafka.NodeID, *brokerParts]
	owned    map[kafka.NodeID]*brokerParts
	old, new []member // room for members
}

// membersOf is members of a partition that may not exist.
func (s *topicSlot) membersOf(id kafka.PartitionID, buf []member) []member {
	if int(id) >= len(s.parts) || !s.parts[id].present() {
		return buf[:0]
	}
	return s.members(id, buf)
}

// patched tells the index of a packed partition whose replicas stay: replace,
// but only for brokers to whom something changes.
func (x *indexer) patched(key uint64, old, new *packed) {
	if leads := func(q *packed) bool { return q.leader < 0 || slices.Contains(q.replicas(), q.leader) }; !leads(old) || !leads(new) {
		x.old, x.new = old.members(x.old), new.members(x.new)
		x.replace(key, x.old, x.new)
		return
	}
	for i, n := range old.replicas() {
		a, b := old.member(i, n), new.member(i, n)
		if a != b {
			c := &x.broker(n).counts
			c.add(a, -1)
			c.add(b, 1)
		}
	}
}

func (x *indexer) broker(n kafka.NodeID) *brokerParts {
	if b := x.owned[n]; b != nil {
		return b
	}
	b := &brokerParts{}
	if old, ok := x.index.Get(n); ok {
		b.parts, b.counts = old.parts.fork(), old.counts
	}
	x.owned[n] = b
	x.index.Set(n, b)
	return b
}

// replace tells the index that a partition had the members old and has new.
func (x *indexer) replace(key uint64, old, new []member) {
	// Most changes leave most members as they are.
	for len(old) > 0 && len(new) > 0 && old[0] == new[0] {
		old, new = old[1:], new[1:]
	}
	for len(old) > 0 && len(new) > 0 && old[len(old)-1] == new[len(new)-1] {
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	for _, m := range old {
		b := x.broker(m.node)
		b.counts.add(m, -1)
		if !slices.ContainsFunc(new, func(o member) bool { return o.node == m.node }) {
			b.parts.remove(key)
		}
	}
	for _, m := range new {
		b := x.broker(m.node)
		b.counts.add(m, 1)
		if !slices.ContainsFunc(old, func(o member) bool { return o.node == m.node }) {
			b.parts.add(key)
		}
	}
}

// finish drops brokers that have no partition left, so that the index depends
// on the state alone.
func (x *indexer) finish() {
	for n, b := range x.owned {
		if b.parts.n == 0 {
			x.index.Delete(n)
		}
	}
}

// Counts gives the numbers of partitions of a broker.
func (img *Image) Counts(broker kafka.NodeID) BrokerCounts {
	if b, ok := img.index.Get(broker); ok {
		return b.counts
	}
	return BrokerCounts{}
}

// EachPartitionOf calls f with every partition of which the broker is a
// replica, in the ISR, or the leader, until f returns false. Partitions of one
// topic come together and in order.
func (img *Image) EachPartitionOf(broker kafka.NodeID, f func(Topic, Partition) bool) {
	b, ok := img.index.Get(broker)
	if !ok {
		return
	}
	b.parts.each(func(key uint64) bool {
		t := img.topic(int32(key >> 32))
		p, ok := t.Partition(kafka.PartitionID(uint32(key)))
		return !ok || f(t, p)
	})
}
