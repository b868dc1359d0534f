package sim

import (
	"errors"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/raft"
)

// prefixChecker: what any node regards as committed is the same batch at the
// same place on every node and for ever, and the state made of it is the same
// whether it was replayed or loaded from a snapshot.
type prefixChecker struct {
	w       *World
	batches []committed
	by      []kafka.Epoch           // the epoch in which each batch was committed
	images  map[kafka.Offset]uint64 // end offset → checksum of the state there
}

type committed struct {
	base, last kafka.Offset
	epoch      kafka.Epoch
	sum        uint64
}

func (c *prefixChecker) end() kafka.Offset {
	if n := len(c.batches); n > 0 {
		return c.batches[n-1].last + 1
	}
	return 0
}

// find gives the committed batch that begins at base.
func (c *prefixChecker) find(base kafka.Offset) (committed, bool) {
	lo, hi := 0, len(c.batches)
	for lo < hi {
		mid := (lo + hi) / 2
		if c.batches[mid].base < base {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(c.batches) && c.batches[lo].base == base {
		return c.batches[lo], true
	}
	return committed{}, false
}

// applied takes a batch that a node regards as committed.
func (c *prefixChecker) applied(n *node, b raft.Batch) {
	got := committed{b.Base, b.Last, b.Epoch, checksum(b.Bytes)}
	if b.Base >= c.end() {
		if b.Base != c.end() {
			c.w.violate("committed prefix", "node %d applies offset %d after %d", n.id, b.Base, c.end())
		}
		c.batches = append(c.batches, got)
		c.by = append(c.by, n.core.Election().Epoch)
		c.w.counts.Commits++
		return
	}
	if want, ok := c.find(b.Base); !ok || want != got {
		c.w.violate("committed prefix", "node %d has %+v where %+v is committed", n.id, got, want)
	}
}

// state compares the state that a node has at an end offset.
func (c *prefixChecker) state(n *node, end kafka.Offset, sum uint64) {
	if want, ok := c.images[end]; ok && want != sum {
		c.w.violate("state", "node %d has another state at offset %d", n.id, end)
	}
	c.images[end] = sum
}

// loaded checks a state that came from a snapshot.
func (c *prefixChecker) loaded(n *node, rec *quorum.Recovered) {
	if end := rec.Snapshot.Offset; end > 0 {
		if end > c.end() {
			c.w.violate("snapshot", "node %d holds a snapshot of uncommitted records: ends at %d of %d", n.id, end, c.end())
		}
		c.state(n, end, n.image.sum)
	}
}

// before gives how many batches were committed in epochs before epoch. A leader
// of a later epoch must hold them; one of an earlier epoch that is late, need
// not, and can commit nothing.
func (c *prefixChecker) before(epoch kafka.Epoch) int {
	i := len(c.by)
	for i > 0 && c.by[i-1] >= epoch {
		i--
	}
	return i
}

// holds checks that the log of n contains the first count committed batches.
func (c *prefixChecker) holds(n *node, count int) {
	if count == 0 {
		return
	}
	i, from := 0, n.store.StartOffset() // a snapshot may have replaced the log below
	for i < count && c.batches[i].base < from {
		i++
	}
	err := n.store.Batches(from, c.batches[count-1].last+1, func(b raft.Batch) error {
		got := committed{b.Base, b.Last, b.Epoch, checksum(b.Bytes)}
		if c.batches[i] != got {
			c.w.violate("committed record lost", "node %d holds %+v", n.id, got)
			return errViolated
		}
		i++
		return nil
	})
	if err != nil && !errors.Is(err, errDisk) {
		c.w.violate("committed record lost", "node %d: %v", n.id, err)
	}
}
