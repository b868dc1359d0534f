package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// monotonicChecker: a node's epoch never falls, over restarts too, and its high
// watermark never falls within a life.
type monotonicChecker struct {
	w    *World
	seen map[kafka.NodeID]*lifeSeen
}

type lifeSeen struct {
	epoch kafka.Epoch
	hw    kafka.Offset
}

func (c *monotonicChecker) booted(n *node) {
	s := c.seen[n.id]
	if s == nil {
		s = &lifeSeen{}
		c.seen[n.id] = s
	}
	s.hw = kafka.NoOffset
	if e := n.r.Core().Election(); e.Epoch < s.epoch {
		c.w.violate("epochs", "node %d has forgotten epoch %d: %+v", n.id, s.epoch, e)
	}
}

// wiped: the disk is a new one.
func (c *monotonicChecker) wiped(n *node) { delete(c.seen, n.id) }

func (c *monotonicChecker) stepped(n *node, out *raft.Effects) {
	s := c.seen[n.id]
	e := n.r.Core().Election().Epoch
	if e < s.epoch {
		c.w.violate("epochs", "node %d falls from epoch %d to %d", n.id, s.epoch, e)
	}
	// What is about to be persisted may not get there; it counts when revealed.
	if out.Persist == nil {
		s.epoch = e
	}
	if h := out.HighWatermark; h != nil {
		if *h <= s.hw {
			c.w.violate("high watermark", "node %d moves it from %d to %d", n.id, s.hw, *h)
		}
		s.hw = *h
	}
}
