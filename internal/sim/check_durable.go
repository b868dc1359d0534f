package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// durableChecker: a fetch position that leaves a node that can become a voter is
// on its disk (HC-001, HC-014). It keeps its own account of what has been synced.
type durableChecker struct {
	w      *World
	synced map[kafka.NodeID]kafka.Offset
}

// booted checks that the log still holds what was synced. After that the core
// must sync anew before it reveals anything.
func (c *durableChecker) booted(n *node) {
	if was, end := c.synced[n.id], n.r.Core().EndOffset(); end < was {
		c.w.violate("synced records lost", "node %d comes back with a log that ends at %d; %d was synced", n.id, end, was)
	}
	c.synced[n.id] = n.r.Store().StartOffset() // a snapshot that is durable stands for what it holds
}

// covers notes that a sync which covers the log up to end has succeeded.
func (c *durableChecker) covers(n *node, end kafka.Offset) {
	c.synced[n.id] = max(c.synced[n.id], end)
}

func (c *durableChecker) wiped(n *node) { delete(c.synced, n.id) }

func (c *durableChecker) stepped(n *node, out *raft.Effects) {
	if out.Truncate != nil {
		c.synced[n.id] = min(c.synced[n.id], *out.Truncate)
	}
	if out.LoadSnapshot != nil {
		c.synced[n.id] = out.LoadSnapshot.Offset
	}
}

func (c *durableChecker) sent(n *node, b raft.Body) {
	if f, ok := b.(*raft.FetchRequest); ok && n.ctl && f.FetchOffset > c.synced[n.id] {
		c.w.violate("acknowledged before durable", "node %d fetches from %d, on disk is %d", n.id, f.FetchOffset, c.synced[n.id])
	}
}
