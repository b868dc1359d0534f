package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// voterSetChecker: adjacent voter sets differ by one voter at most, so that
// their majorities overlap (HC-025); a change begins only when the one before is
// committed.
type voterSetChecker struct {
	w     *World
	set   raft.VoterSet // the last one committed
	begun map[kafka.NodeID]kafka.Offset
}

func newVoterSetChecker(w *World) *voterSetChecker {
	return &voterSetChecker{w: w, begun: map[kafka.NodeID]kafka.Offset{}}
}

func (c *voterSetChecker) booted(n *node) { delete(c.begun, n.id) }

func (c *voterSetChecker) stepped(n *node, out *raft.Effects) {
	if out.LeaderChange != nil || out.Truncate != nil {
		delete(c.begun, n.id)
	}
	v := out.VotersChange
	if v == nil {
		return
	}
	if at, ok := c.begun[n.id]; ok && at >= c.w.check.prefix.end() {
		c.w.violate("voter change", "node %d changes the voters at %d before the change at %d is committed", n.id, v.Base, at)
	}
	c.begun[n.id] = v.Base
	before, _ := n.r.Core().VotersAt(v.Base)
	c.compare(before, v.Voters, "appended", v.Base)
}

func (c *voterSetChecker) committed(b raft.Batch) {
	for _, ctl := range b.Control {
		if ctl.Voters == nil {
			continue
		}
		if c.set.Len() > 0 {
			if c.compare(c.set, *ctl.Voters, "committed", b.Base) > 0 {
				c.w.counts.VoterChanges++
			}
		}
		c.set = *ctl.Voters
	}
}

func (c *voterSetChecker) compare(a, b raft.VoterSet, what string, at kafka.Offset) int {
	missing := func(a, b raft.VoterSet) (n int) {
		for _, v := range a.All() {
			if o, ok := b.Find(v.Key.ID); !ok || o.Key.Dir != v.Key.Dir && v.Key.Dir != (kafka.DirectoryID{}) && o.Key.Dir != (kafka.DirectoryID{}) {
				n++
			}
		}
		return n
	}
	n := missing(a, b) + missing(b, a)
	if n > 1 {
		c.w.violate("voter sets", "%s at %d follows %s %s", b, at, a, what)
	}
	return n
}
