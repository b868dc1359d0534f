package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// leaderChecker: at most one node ever begins an epoch, once; its log holds
// everything that was committed; and nobody publishes another leader for it.
type leaderChecker struct {
	w       *World
	byEpoch map[kafka.Epoch]kafka.NodeID
	// void are epochs whose beginning failed on their leader's disk.
	void map[kafka.Epoch]bool
}

func (c *leaderChecker) stepped(n *node, out *raft.Effects) {
	lc := out.LeaderChange
	if lc == nil {
		return
	}
	if other, ok := c.byEpoch[lc.Epoch]; ok && !(c.void[lc.Epoch] && other == n.id) {
		c.w.violate("one leader per epoch", "node %d leads epoch %d, which node %d has led", n.id, lc.Epoch, other)
	}
	c.byEpoch[lc.Epoch] = n.id
	delete(c.void, lc.Epoch)
	c.w.check.prefix.holds(n, c.w.check.prefix.before(lc.Epoch))
}

// undone marks an epoch whose beginning failed on disk: it has not left the
// node, which may win the epoch again after a restart.
func (c *leaderChecker) undone(out *raft.Effects) {
	if out.LeaderChange != nil {
		c.void[out.LeaderChange.Epoch] = true
	}
}

func (c *leaderChecker) published(n *node, l raft.LeaderAndEpoch) {
	if l.Leader == kafka.NoNode {
		return
	}
	if who, ok := c.byEpoch[l.Epoch]; !ok || who != l.Leader {
		c.w.violate("published leader", "node %d publishes leader %d of epoch %d; elected was %d (%t)", n.id, l.Leader, l.Epoch, who, ok)
	}
}
