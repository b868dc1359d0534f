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
	// running is what the flush that is running may cover: not what has been cut
	// off meanwhile.
	running map[kafka.NodeID]kafka.Offset
	epochs  map[kafka.NodeID]kafka.Epoch // of the last record that was synced
}

// booted checks that the log still holds what was synced. After that the core
// must sync anew before it reveals anything.
func (c *durableChecker) booted(n *node) {
	was, end, snapshot := c.synced[n.id], n.r.Core().EndOffset(), n.r.Image().Provenance()
	// A downloaded snapshot of a later epoch replaces a log that has diverged.
	replaced := end == snapshot.EndOffset && snapshot.Epoch > c.epochs[n.id]
	if end < was && !replaced {
		c.w.violate("synced records lost", "node %d comes back with a log that ends at %d; %d was synced", n.id, end, was)
	}
	c.synced[n.id] = n.r.Store().StartOffset() // a snapshot that is durable stands for what it holds
}

// begins notes that a sync begins that will cover the log up to end.
func (c *durableChecker) begins(n *node, end kafka.Offset) { c.running[n.id] = end }

// ends notes that it has succeeded.
func (c *durableChecker) ends(n *node) {
	if to := c.running[n.id]; to > c.synced[n.id] {
		c.synced[n.id], c.epochs[n.id] = to, n.r.Core().EpochAt(to-1)
	}
}

func (c *durableChecker) wiped(n *node) { delete(c.synced, n.id) }

func (c *durableChecker) stepped(n *node, ev raft.Event, out *raft.Effects) {
	if out.Truncate != nil {
		c.cut(n, *out.Truncate)
	}
	if out.LoadSnapshot != nil {
		c.cut(n, 0)
		c.synced[n.id] = out.LoadSnapshot.Offset
	}
	if ev, ok := ev.(raft.LogStartMoved); ok { // the snapshot that ends there is durable
		c.synced[n.id] = max(c.synced[n.id], ev.Start.Offset)
	}
}

func (c *durableChecker) cut(n *node, to kafka.Offset) {
	c.synced[n.id] = min(c.synced[n.id], to)
	c.running[n.id] = min(c.running[n.id], to)
}

func (c *durableChecker) sent(n *node, b raft.Body) {
	if f, ok := b.(*raft.FetchRequest); ok && n.ctl && f.FetchOffset > c.synced[n.id] {
		c.w.violate("acknowledged before durable", "node %d fetches from %d, on disk is %d", n.id, f.FetchOffset, c.synced[n.id])
	}
}
