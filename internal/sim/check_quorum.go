package sim

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// quorumChecker: a leader that the majority of its voters does not ask for
// records any more resigns within a bound; observers do not count (HC-022). It
// looks whenever the node has been woken, since a process that stood still
// cannot know.
type quorumChecker struct {
	w     *World
	heard map[kafka.NodeID]*heard
}

// heard is when a node heard of voters, on its own clock; since is when it
// began to lead, or changed the voters.
type heard struct {
	from  map[raft.ReplicaKey]kafka.Mono
	since kafka.Mono
}

func (c *quorumChecker) stepped(n *node, ev raft.Event, out *raft.Effects) {
	now := n.clock().Mono
	h := c.heard[n.id]
	if h == nil || out.LeaderChange != nil {
		h = &heard{from: map[raft.ReplicaKey]kafka.Mono{}}
		c.heard[n.id] = h
	}
	if out.LeaderChange != nil || out.VotersChange != nil {
		h.since = now
	}
	if r, ok := ev.(raft.Request); ok {
		switch b := r.Body.(type) {
		case *raft.FetchRequest:
			h.from[b.Replica] = now
		case *raft.FetchSnapshotRequest:
			h.from[b.Replica] = now
		case *raft.UpdateVoterRequest:
			h.from[b.Voter.Key] = now
		}
	}
}

// woken looks at a node that has just handled its deadlines. The leader looks
// every one and a half fetch timeouts whether all that it needs have come since
// it looked last, so that the oldest may be twice that old.
func (c *quorumChecker) woken(n *node) {
	core := n.r.Core()
	if core.Role() != raft.Leader {
		return
	}
	voters, _ := core.VotersAt(core.EndOffset())
	h, bound := c.heard[n.id], 6*c.w.swarm.pace+10*time.Millisecond
	now := n.clock().Mono
	if h.since.Add(bound) > now {
		return
	}
	have := 0
	for _, v := range voters.All() {
		for key, at := range h.from {
			if key.ID == v.Key.ID && at.Add(bound) > now && voters.Contains(key) && key.ID != n.id {
				have++
				break
			}
		}
		if v.Key.ID == n.id {
			have++
		}
	}
	if have < voters.Majority() {
		c.w.violate("check quorum", "node %d still leads epoch %d; within %v it has heard of %d of %s", n.id, core.Election().Epoch, bound, have, voters)
	}
}
