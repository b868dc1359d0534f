package raftnet

import (
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
