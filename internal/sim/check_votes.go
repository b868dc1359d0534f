package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// voteChecker: who gets a voter's vote in an epoch is a function, over every
// restart (HC-005).
type voteChecker struct {
	w     *World
	given map[voteKey]kafka.NodeID
}

type voteKey struct {
	voter raft.ReplicaKey
	epoch kafka.Epoch
}

func (c *voteChecker) answered(n *node, request, answer raft.Body) {
	r, ok := request.(*raft.VoteRequest)
	a, ok2 := answer.(*raft.VoteResponse)
	if !ok || !ok2 || r.PreVote || !a.Granted {
		return
	}
	key := voteKey{raft.ReplicaKey{ID: n.id, Dir: n.dir}, r.ReplicaEpoch}
	if who, ok := c.given[key]; ok && who != r.Replica.ID {
		c.w.violate("one vote per epoch", "node %d votes for %d in epoch %d after %d", n.id, r.Replica.ID, r.ReplicaEpoch, who)
	}
	c.given[key] = r.Replica.ID
}
