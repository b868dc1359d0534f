package metadata

import (
	mathbits "math/bits"

	"moldau/internal/kafka"
)

// partitionSet is a set of partitions of one topic. The zero value is empty.
type partitionSet struct {
	low  uint64 // partitions 0 to 63: most topics have no others
	high []uint64
}

func (s *partitionSet) add(id kafka.PartitionID) {
	if id < 64 {
		s.low |= 1 << id
		return
	}
	w := int(id)/64 - 1
	for len(s.high) <= w {
		s.high = append(s.high, 0)
	}
	s.high[w] |= 1 << (id % 64)
}

func (s *partitionSet) len() int {
	n := mathbits.OnesCount64(s.low)
	for _, w := range s.high {
		n += mathbits.OnesCount64(w)
	}
	return n
}

// each calls f with the members in order.
func (s *partitionSet) each(f func(kafka.PartitionID)) {
	word := func(w uint64, base kafka.PartitionID) {
		for ; w != 0; w &= w - 1 {
			f(base + kafka.PartitionID(mathbits.TrailingZeros64(w)))
		}
	}
	word(s.low, 0)
	for i, w := range s.high {
		word(w, kafka.PartitionID(64*(i+1)))
	}
}

func (s *partitionSet) list() []kafka.PartitionID {
	out := make([]kafka.PartitionID, 0, s.len())
	s.each(func(id kafka.PartitionID) { out = append(out, id) })
	return out
}
