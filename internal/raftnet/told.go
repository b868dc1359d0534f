package raftnet

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// maxForeign bounds the addresses that are remembered as another cluster's.
const maxForeign = 100

// sameCluster says, once, that an address belongs to another cluster: the core
// only asks again, and nothing else would tell why this node hears nothing.
func (n *Net) sameCluster(out raft.Outgoing, body raft.Body) {
	if body == nil {
		return
	}
	address, foreign := n.address(out), topError(body) == kafka.ErrInconsistentClusterID
	n.mu.Lock()
	known := n.foreign[address]
	if !foreign {
		delete(n.foreign, address)
	} else if len(n.foreign) < maxForeign {
		n.foreign[address] = true
	}
	n.mu.Unlock()
	if foreign && !known && n.opts.Peer.Log != nil {
		n.opts.Peer.Log.Error("the controller at this address belongs to another cluster; check cluster.id in this node's meta.properties, and controller.quorum.bootstrap.servers or controller.quorum.voters",
			"address", address)
	}
}

// topError is the error of an answer as a whole.
func topError(body raft.Body) kafka.ErrorCode {
	switch b := body.(type) {
	case *raft.VoteResponse:
		return b.TopError
	case *raft.BeginQuorumEpochResponse:
		return b.TopError
	case *raft.EndQuorumEpochResponse:
		return b.TopError
	case *raft.FetchResponse:
		return b.TopError
	case *raft.FetchSnapshotResponse:
		return b.TopError
	case *raft.UpdateVoterResponse:
		return b.TopError
	}
	return kafka.NoError
}

const (
	// silence is the usual Options.Silence.
	silence = 5 * time.Second
	// sayAgain is how often that is repeated.
	sayAgain = 30 * time.Second
)

// quiet is for how long this node has fetched in vain. A node that waits for its
// first metadata would otherwise say nothing at all.
type quiet struct{ since, said time.Time }

// heard takes note of what became of a fetch: whoever does not lead fetches all
// the time.
func (n *Net) heard(out raft.Outgoing, body raft.Body, err error) {
	if _, fetch := out.Body.(*raft.FetchRequest); !fetch {
		return
	}
	now := time.Now()
	why := "it does not answer"
	if err != nil {
		why = err.Error()
	}
	if f, ok := body.(*raft.FetchResponse); ok {
		if f.TopError == kafka.NoError && f.LeaderEpoch >= 0 {
			n.mu.Lock()
			n.quiet.since = now
			n.mu.Unlock()
			return
		}
		why = "its answer: " + max(f.TopError, f.Error).String()
	}
	n.mu.Lock()
	say := now.Sub(n.quiet.since) >= n.opts.Silence && now.Sub(n.quiet.said) >= sayAgain
	if say {
		n.quiet.said = now
	}
	n.mu.Unlock()
	if say && n.opts.Peer.Log != nil {
		n.opts.Peer.Log.Warn("no controller answers; this node goes on asking the voters that it knows and controller.quorum.bootstrap.servers",
			"for", now.Sub(n.quiet.since).Round(time.Second), "asked last", n.address(out), "why", why)
	}
}
