package controller

import (
	"cmp"
	"fmt"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// The placement of new replicas is Kafka's StripedReplicaPlacer: replicas of a
// partition go to different racks as far as possible, leaders are spread
// evenly over unfenced brokers, and both wander from partition to partition.

// brokerRing hands out the brokers of one rack in turn.
type brokerRing struct {
	brokers              []kafka.NodeID
	index, offset, epoch int
}

// next gives the next broker of this round, or NoNode when all had their turn.
func (r *brokerRing) next(epoch int) kafka.NodeID {
	if len(r.brokers) == 0 {
		return kafka.NoNode
	}
	if r.epoch != epoch {
		r.epoch, r.index = epoch, 0
		r.offset = (r.offset + 1) % len(r.brokers)
	}
	if r.index >= len(r.brokers) {
		return kafka.NoNode
	}
	b := r.brokers[(r.index+r.offset)%len(r.brokers)]
	r.index++
	return b
}

type rack struct {
	name             string
	named            bool
	unfenced, fenced brokerRing
}

func (r *rack) next(epoch int) kafka.NodeID {
	if b := r.unfenced.next(epoch); b != kafka.NoNode {
		return b
	}
	return r.fenced.next(epoch)
}

// placer places the partitions of one operation.
type placer struct {
	random          func(n int) int
	racks           []*rack
	total, unfenced int
	epoch, offset   int
}

// newPlacer looks at the brokers that can take replicas: all but those that
// are shutting down, or have cordoned all their directories.
func (s *step) newPlacer() *placer {
	p := &placer{random: s.intn}
	s.tip.EachBroker(func(b *metadata.Broker) bool {
		if ses := s.sessions[b.ID]; b.InControlledShutdown && !b.Fenced || ses != nil && ses.epoch == b.Epoch && ses.shutdownOffset >= 0 || b.AllCordoned() {
			return true
		}
		p.total++
		r := p.rack(b)
		if b.Fenced {
			r.fenced.brokers = append(r.fenced.brokers, b.ID)
		} else {
			p.unfenced++
			r.unfenced.brokers = append(r.unfenced.brokers, b.ID)
		}
		return true
	})
	slices.SortFunc(p.racks, func(a, b *rack) int {
		if a.named != b.named { // no rack sorts first
			if b.named {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.name, b.name)
	})
	for _, r := range p.racks {
		for _, ring := range []*brokerRing{&r.fenced, &r.unfenced} {
			if len(ring.brokers) > 0 {
				ring.offset = p.random(len(ring.brokers))
			}
		}
	}
	if len(p.racks) > 0 {
		p.offset = p.random(len(p.racks))
	}
	return p
}

func (p *placer) rack(b *metadata.Broker) *rack {
	for _, r := range p.racks {
		if r.named == b.HasRack && r.name == b.Rack {
			return r
		}
	}
	r := &rack{name: b.Rack, named: b.HasRack}
	p.racks = append(p.racks, r)
	return r
}

// check tells why so many replicas cannot be placed.
func (p *placer) check(replicas int) failure {
	text := ""
	switch {
	case replicas <= 0:
		text = fmt.Sprintf("Invalid replication factor %d: the replication factor must be positive.", replicas)
	case p.unfenced == 0:
		text = "All brokers are currently fenced, or have all their log directories cordoned."
	case replicas > p.total:
		text = fmt.Sprintf("The target replication factor of %d cannot be reached because only %d broker(s) are registered.", replicas, p.total)
	default:
		return failure{}
	}
	return failure{kafka.ErrInvalidReplicationFactor, text}
}

// place gives the replicas of one more partition. check must have passed.
func (p *placer) place(replicas int) []kafka.NodeID {
	if p.epoch == p.unfenced && p.unfenced > 1 {
		p.shuffle()
		p.epoch = 0
	}
	if p.offset == len(p.racks) {
		p.offset = 0
	}
	out := make([]kafka.NodeID, 0, replicas)
	first := p.offset // the rack of the leader, which must be unfenced
	for {
		if b := p.racks[first].unfenced.next(p.epoch); b != kafka.NoNode {
			out = append(out, b)
			break
		}
		first = (first + 1) % len(p.racks)
	}
	at := p.offset
	for len(out) < replicas {
		if at == first {
			first = -1 // its turn is over once
		} else if b := p.racks[at].next(p.epoch); b != kafka.NoNode {
			out = append(out, b)
		}
		at = (at + 1) % len(p.racks)
	}
	p.epoch++
	p.offset++
	return out
}

func (p *placer) shuffle() {
	shuffle(p.random, p.racks)
	for _, r := range p.racks {
		shuffle(p.random, r.fenced.brokers)
		shuffle(p.random, r.unfenced.brokers)
	}
}

func shuffle[T any](random func(int) int, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := random(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// intn gives a number in [0, n); the bias is below n/2⁶⁴.
func (c *Core) intn(n int) int { return int(c.opts.Random() % uint64(n)) }

// newTopicID draws an id that no topic has.
func (s *step) newTopicID() kafka.TopicID {
	for {
		var b [16]byte
		for i := range 2 {
			v := s.opts.Random()
			for j := range 8 {
				b[i*8+j] = byte(v >> (8 * j))
			}
		}
		if u, ok := kafka.NewUUID(b); ok && !s.tip.TopicByID(kafka.TopicID(u)).Exists() {
			return kafka.TopicID(u)
		}
	}
}
