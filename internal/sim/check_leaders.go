package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// leaderChecker: at most one node ever begins an epoch, once; its log holds
// everything that was committed; and nobody publishes another leader for it
// (HC-005, HC-019).
type leaderChecker struct {
	w       *World
	byEpoch map[kafka.Epoch]reign
	last    kafka.Epoch // the highest that has begun
}

type reign struct {
	leader kafka.NodeID
	began  kafka.Mono
	// void: the beginning failed on the leader's disk.
	void bool
}

func (c *leaderChecker) stepped(n *node, out *raft.Effects) {
	if out.Leader != nil {
		defer c.published(n, *out.Leader)
	}
	lc := out.LeaderChange
	if lc == nil {
		return
	}
	if old, ok := c.byEpoch[lc.Epoch]; ok && !(old.void && old.leader == n.id) {
		c.w.violate("one leader per epoch", "node %d leads epoch %d, which node %d has led", n.id, lc.Epoch, old.leader)
	}
	c.byEpoch[lc.Epoch] = reign{leader: n.id, began: c.w.now}
	c.last = max(c.last, lc.Epoch)
	c.w.note("%d leads epoch %d", n.id, lc.Epoch)
	c.w.check.prefix.holds(n, c.w.check.prefix.before(lc.Epoch))
}

// undone marks an epoch whose beginning failed on disk: it has not left the
// node, which may win the epoch again after a restart.
func (c *leaderChecker) undone(lc *raft.LeaderChange) {
	if lc == nil {
		return
	}
	r := c.byEpoch[lc.Epoch]
	r.void = true
	c.byEpoch[lc.Epoch] = r
}

func (c *leaderChecker) published(n *node, l raft.LeaderAndEpoch) {
	if l.Leader == kafka.NoNode {
		return
	}
	if r, ok := c.byEpoch[l.Epoch]; !ok || r.leader != l.Leader {
		c.w.violate("published leader", "node %d publishes leader %d of epoch %d; elected was %+v (%t)", n.id, l.Leader, l.Epoch, r, ok)
	}
}

// after tells when the first epoch behind e began; false if none has.
func (c *leaderChecker) after(e kafka.Epoch) (kafka.Mono, bool) {
	for e++; e <= c.last; e++ {
		if r, ok := c.byEpoch[e]; ok {
			return r.began, true
		}
	}
	return 0, false
}
