package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/quorum"
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

func (c *monotonicChecker) booted(n *node, rec *quorum.Recovered) {
	s := c.seen[n.id]
	if s == nil {
		s = &lifeSeen{}
		c.seen[n.id] = s
	}
	s.hw = kafka.NoOffset
	if e := rec.Raft.Election; e == nil && s.epoch > 0 || e != nil && e.Epoch < s.epoch {
		c.w.violate("epochs", "node %d has forgotten epoch %d: %+v", n.id, s.epoch, e)
	}
}

func (c *monotonicChecker) stepped(n *node, out *raft.Effects) {
	s := c.seen[n.id]
	if e := n.core.Election().Epoch; e < s.epoch {
		c.w.violate("epochs", "node %d falls from epoch %d to %d", n.id, s.epoch, e)
	}
	// What is about to be persisted may not get there; it counts when revealed.
	if out.Persist == nil {
		s.epoch = n.core.Election().Epoch
	}
	if h := out.HighWatermark; h != nil {
		if *h <= s.hw {
			c.w.violate("high watermark", "node %d moves it from %d to %d", n.id, s.hw, *h)
		}
		s.hw = *h
	}
}
