package raft

import (
	"time"

	"moldau/internal/kafka"
)

// fastFailoverSpread is how long a follower waits at most after it has lost the
// connection to its leader (Trap 16).
const fastFailoverSpread = 150 * time.Millisecond

// peer is the state of our requests to one node: at most one is outstanding,
// and after a failure there is a pause.
type peer struct {
	id       kafka.NodeID
	pending  uint64 // id of the outstanding request, 0 for none
	fetch    bool   // it is a fetch
	deadline kafka.Mono
	resume   kafka.Mono // not before
	silent   bool       // the last request was not answered
}

func (c *Core) peer(id kafka.NodeID) *peer {
	for i := range c.peers {
		if c.peers[i].id == id {
			return &c.peers[i]
		}
	}
	c.peers = append(c.peers, peer{id: id})
	return &c.peers[len(c.peers)-1]
}

// forgetRequests drops all outstanding requests and pauses; their answers will
// find nobody who waits. Which voters were silent is remembered.
func (c *Core) forgetRequests() {
	keep, voters := c.peers[:0], c.voters()
	for _, p := range c.peers {
		if _, voter := voters.Find(p.id); p.silent && (voter || p.id < 0) {
			keep = append(keep, peer{id: p.id, silent: true})
		}
	}
	c.peers = keep
}

// request sends body to the node unless a request is outstanding or paused
// there; then wake tells when to try again.
func (c *Core) request(to kafka.NodeID, body Body) bool {
	return c.requestAt(to, c.endpointsOf(to), body)
}

func (c *Core) requestAt(to kafka.NodeID, at []kafka.Endpoint, body Body) bool {
	p := c.peer(to)
	if p.pending != 0 && p.deadline <= c.now.Mono {
		p.pending, p.resume, p.silent = 0, c.now.Mono.Add(c.opts.RetryBackoff), true
	}
	switch {
	case p.pending != 0:
		c.wake = min(c.wake, p.deadline)
		return false
	case p.resume > c.now.Mono:
		c.wake = min(c.wake, p.resume)
		return false
	}
	c.nextID++
	p.pending, p.deadline = c.nextID, c.now.Mono.Add(c.opts.RequestTimeout)
	_, p.fetch = body.(*FetchRequest)
	c.wake = min(c.wake, p.deadline)
	c.out.Requests = append(c.out.Requests, Outgoing{To: to, At: at, ID: c.nextID, Body: body})
	return true
}

// endpointsOf is where the node listens: what the leader itself has told comes
// first, since it may have moved.
func (c *Core) endpointsOf(id kafka.NodeID) []kafka.Endpoint {
	if id == c.election.Leader && len(c.leaderAddr) > 0 {
		return c.leaderAddr
	}
	v, _ := c.voters().Find(id)
	return v.Endpoints
}

func (c *Core) requestFailed(to kafka.NodeID, id uint64) {
	if p := c.peer(to); p.pending == id && id != 0 {
		p.pending, p.resume, p.silent = 0, c.now.Mono.Add(c.opts.RetryBackoff), true
		c.featuresFailed(to)
		c.unanswered(to)
	}
}

func (c *Core) reply(token uint64, body Body) {
	c.out.Replies = append(c.out.Replies, Reply{Token: token, Body: body})
}

func (c *Core) handleRequest(r Request) {
	switch b := r.Body.(type) {
	case *VoteRequest:
		c.reply(r.Token, c.handleVote(b))
	case *BeginQuorumEpochRequest:
		c.reply(r.Token, c.handleBegin(b))
	case *EndQuorumEpochRequest:
		c.reply(r.Token, c.handleEnd(b))
	case *FetchRequest:
		c.handleFetch(r.Token, b)
	case *FetchSnapshotRequest:
		c.reply(r.Token, c.handleFetchSnapshot(b))
	case *AddVoterRequest:
		c.handleAddVoter(r.Token, b)
	case *RemoveVoterRequest:
		c.handleRemoveVoter(r.Token, b)
	case *UpdateVoterRequest:
		c.reply(r.Token, c.handleUpdateVoter(b))
	case *UpgradeRequest:
		c.reply(r.Token, c.handleUpgrade(b))
	}
}

// handleResponse takes an answer only if it belongs to the one request that is
// outstanding to that node (HC-013).
func (c *Core) handleResponse(r Response) {
	p := c.peer(r.From)
	if p.pending == 0 || p.pending != r.ID {
		return
	}
	p.pending, p.silent = 0, false
	ok := true
	switch b := r.Body.(type) {
	case *VoteResponse:
		ok = c.voteResponse(r.From, b)
	case *BeginQuorumEpochResponse:
		_, ok = c.common(b.Leadership)
	case *EndQuorumEpochResponse:
		var done bool
		if done, ok = c.common(b.Leadership); !done {
			c.endAcknowledged(r.From)
		}
	case *FetchResponse:
		ok = c.fetchResponse(r.From, b)
	case *FetchSnapshotResponse:
		ok = c.snapshotResponse(r.From, b)
	case *FeaturesResponse:
		ok = c.featuresResponse(r.From, b)
	case *UpdateVoterResponse:
		ok = c.updateVoterResponse(b)
	case *AddVoterResponse:
		ok = c.joinResponse(b.Error)
	case *RemoveVoterResponse:
		ok = c.joinResponse(b.Error)
	}
	if !ok {
		c.pause(r.From)
	}
}

func (c *Core) pause(id kafka.NodeID) {
	d := c.opts.RetryBackoff
	if c.role == Follower && id != c.election.Leader {
		d *= discoveryPauses // it knows no newer leader; all brokers may be asking
	}
	c.peer(id).resume = c.now.Mono.Add(d)
}

// discoveryPauses is how many times longer than for a retry a follower waits
// before it asks the same node again who leads.
const discoveryPauses = 5

// common handles what all answers share (maybeHandleCommonResponse). done means
// that the answer needs no more; ok false asks for a pause before the next
// request to that node.
func (c *Core) common(l Leadership) (done, ok bool) {
	if l.TopError != kafka.NoError || l.LeaderEpoch > lastEpoch {
		return true, false
	}
	switch {
	case l.LeaderEpoch < c.election.Epoch || l.Error == kafka.ErrUnknownLeaderEpoch:
		return true, l.Error == kafka.NoError
	case l.LeaderEpoch > c.election.Epoch || l.Error == kafka.ErrFencedLeaderEpoch ||
		l.Error == kafka.ErrNotLeaderForPartition:
		before := c.election
		c.observe(l.LeaderEpoch, l.LeaderID, l.Endpoints)
		return true, c.election != before
	case l.LeaderID != kafka.NoNode && c.election.Leader == kafka.NoNode:
		if !c.observe(l.LeaderEpoch, l.LeaderID, l.Endpoints) {
			return true, false
		}
		// An observer finds the leader and the first records in one answer.
		return l.Error != kafka.NoError, true
	case l.Error != kafka.NoError:
		return true, false
	}
	return false, true
}

// send makes the requests that the role wants now.
func (c *Core) send() {
	c.wake = kafka.Never
	switch c.role {
	case Unattached:
		c.sendDiscovery()
	case Follower:
		c.sendFetch()
	case Prospective, Candidate:
		c.sendVotes()
	case Leader:
		c.sendBegin()
	case Resigned:
		c.sendEnd()
	}
}
