package sim

import (
	"sort"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
)

// prefixChecker: what any node regards as committed is the same batch at the
// same place on every node and for ever.
type prefixChecker struct {
	w       *World
	batches []committed
}

// committed is a batch; in is the epoch in which the first node learned that it
// is committed.
type committed struct {
	base, last kafka.Offset
	epoch      kafka.Epoch
	sum        uint64
	in         kafka.Epoch
}

func (c committed) same(o committed) bool {
	return c.base == o.base && c.last == o.last && c.epoch == o.epoch && c.sum == o.sum
}

func (c *prefixChecker) end() kafka.Offset {
	if n := len(c.batches); n > 0 {
		return c.batches[n-1].last + 1
	}
	return 0
}

// containing gives the committed batch with offset o.
func (c *prefixChecker) containing(o kafka.Offset) (committed, bool) {
	i := sort.Search(len(c.batches), func(i int) bool { return c.batches[i].last >= o })
	if o < 0 || i == len(c.batches) {
		return committed{}, false
	}
	return c.batches[i], true
}

// published compares the records behind a new image: from the end of the last
// one, or from the log's start if a snapshot stands for what was before.
func (c *prefixChecker) published(n *node, img *metadata.Image) {
	end, from := img.Provenance().EndOffset, max(n.applied, n.r.Store().StartOffset())
	if from >= end {
		return
	}
	err := n.r.Store().Batches(from, end, func(b raft.Batch) error {
		if b.Last >= end {
			c.w.violate("boundary", "node %d: the image ends at %d, inside the batch %d to %d", n.id, end, b.Base, b.Last)
			return nil
		}
		c.applied(n, b)
		return nil
	})
	if err != nil && !injected(err) {
		c.w.violate("committed prefix", "node %d cannot read what it has published: %v", n.id, err)
	}
}

// applied takes a batch that a node regards as committed.
func (c *prefixChecker) applied(n *node, b raft.Batch) {
	got := committed{base: b.Base, last: b.Last, epoch: b.Epoch, sum: checksum(b.Bytes), in: n.r.Core().Election().Epoch}
	if b.Base >= c.end() {
		if b.Base != c.end() {
			c.w.violate("committed prefix", "node %d applies offset %d after %d", n.id, b.Base, c.end())
			return
		}
		c.batches = append(c.batches, got)
		c.w.check.committed(b)
		return
	}
	if want, ok := c.containing(b.Base); !ok || !want.same(got) {
		c.w.violate("committed prefix", "node %d has %+v where %+v is committed", n.id, got, want)
	}
}

// before gives how many batches were committed in epochs before epoch. A leader
// of a later epoch must hold them; one of an earlier epoch that is late, need
// not, and can commit nothing.
func (c *prefixChecker) before(epoch kafka.Epoch) int {
	i := len(c.batches)
	for i > 0 && c.batches[i-1].in >= epoch {
		i--
	}
	return i
}

// recent is how many batches of the log are compared at an election. Now and
// then it is all.
const recent = 20

// holds checks that the log of n contains the first count committed batches.
func (c *prefixChecker) holds(n *node, count int) {
	if count == 0 {
		return
	}
	first := max(0, count-recent)
	if c.w.rng.IntN(50) == 0 {
		first = 0
	}
	start := n.r.Store().StartOffset() // a snapshot may stand for what was before
	for first < count && c.batches[first].base < start {
		first++
	}
	if first == count {
		return
	}
	i := first
	err := n.r.Store().Batches(c.batches[first].base, c.batches[count-1].last+1, func(b raft.Batch) error {
		got := committed{base: b.Base, last: b.Last, epoch: b.Epoch, sum: checksum(b.Bytes)}
		if i >= count || !c.batches[i].same(got) {
			c.w.violate("committed record lost", "node %d leads, and holds %+v", n.id, got)
		}
		i++
		return nil
	})
	if err == nil && i < count {
		c.w.violate("committed record lost", "node %d leads, and its log ends before %+v", n.id, c.batches[i])
	}
	if err != nil && !injected(err) {
		c.w.violate("committed record lost", "node %d leads: %v", n.id, err)
	}
}
