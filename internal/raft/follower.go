package raft

import (
	"fmt"
	"time"

	"moldau/internal/kafka"
)

// handleBegin takes a leader's announcement.
func (c *Core) handleBegin(r *BeginQuorumEpochRequest) *BeginQuorumEpochResponse {
	answer := func(code kafka.ErrorCode) *BeginQuorumEpochResponse {
		return &BeginQuorumEpochResponse{c.leadership(code)}
	}
	if code, stop := c.checkLeaderRequest(r.ClusterID, r.LeaderID, r.LeaderEpoch); stop {
		a := answer(code)
		if code == kafka.ErrInconsistentClusterID {
			a.Error, a.TopError = kafka.NoError, code
		}
		return a
	}
	if !c.observe(r.LeaderEpoch, r.LeaderID, r.Endpoints) {
		return answer(kafka.ErrInvalidRequest)
	}
	c.peer(r.LeaderID).silent = false // it speaks
	if !c.meantForUs(r.Voter) {
		return answer(kafka.ErrInvalidVoterKey)
	}
	return answer(kafka.NoError)
}

func (c *Core) checkLeaderRequest(cluster string, leader kafka.NodeID, epoch kafka.Epoch) (kafka.ErrorCode, bool) {
	switch {
	case !c.clusterMatches(cluster):
		return kafka.ErrInconsistentClusterID, true
	case epoch < c.election.Epoch:
		return kafka.ErrFencedLeaderEpoch, true
	case leader < 0 || !PlausibleEpoch(epoch, c.election.Epoch):
		return kafka.ErrInvalidRequest, true
	}
	return kafka.NoError, false
}

// handleEnd takes a leader's farewell: the follower stands after a back-off
// that its place among the successors decides.
func (c *Core) handleEnd(r *EndQuorumEpochRequest) *EndQuorumEpochResponse {
	answer := func(code kafka.ErrorCode) *EndQuorumEpochResponse {
		return &EndQuorumEpochResponse{c.leadership(code)}
	}
	if code, stop := c.checkLeaderRequest(r.ClusterID, r.LeaderID, r.LeaderEpoch); stop {
		a := answer(code)
		if code == kafka.ErrInconsistentClusterID {
			a.Error, a.TopError = kafka.NoError, code
		}
		return a
	}
	if !c.observe(r.LeaderEpoch, r.LeaderID, r.Endpoints) {
		return answer(kafka.ErrInvalidRequest)
	}
	if c.role == Leader && r.LeaderEpoch == c.election.Epoch {
		return answer(c.askedToEnd(r.Successors))
	}
	if c.role == Follower && c.election.Leader == r.LeaderID && c.mayStand() {
		c.follow.fetched = false
		c.gone = LeaderAndEpoch{r.LeaderID, r.LeaderEpoch}
		c.timer = c.now.Mono.Add(c.endBackoff(r.Successors))
	}
	return answer(kafka.NoError)
}

// endBackoff grows with the place in the list; the first stands at once
// (strictExponentialElectionBackoffMs).
func (c *Core) endBackoff(successors []ReplicaKey) time.Duration {
	place := len(successors)
	for i, s := range successors {
		if s.ID == c.opts.Self.ID && (s.Dir == kafka.DirectoryID{} || s.Dir == c.opts.Self.Dir) {
			place = i
			break
		}
	}
	limit := c.opts.ElectionBackoffMax
	switch {
	case place == 0 && len(successors) > 0:
		return 0
	case place >= len(successors) || len(successors) > 31:
		return limit
	}
	return min(limit, limit>>(len(successors)-1)<<(place-1))
}

// sendFetch asks the leader for more, or, when the leader does not answer,
// somebody else who may know a newer one.
func (c *Core) sendFetch() {
	if !c.positionOnDisk() {
		return // the flush's completion brings us back
	}
	leader := c.peer(c.election.Leader)
	// One that has left a request unanswered may hang: it is asked again, but
	// meanwhile the others may know of a newer leader.
	failing := leader.silent || leader.pending == 0 && leader.resume > c.now.Mono ||
		leader.pending != 0 && leader.deadline <= c.now.Mono
	if failing && c.discover() {
		return
	}
	if c.fetchPending(c.election.Leader) || c.sealing.Offset > 0 {
		return
	}
	if c.tellLeader() {
		return
	}
	if c.follow.download.running() {
		c.request(c.election.Leader, c.snapshotRequest())
		return
	}
	c.request(c.election.Leader, c.fetchRequest())
}

// fetchPending tells whether a discovery fetch to somebody else is out.
func (c *Core) fetchPending(except kafka.NodeID) bool {
	for i := range c.peers {
		p := &c.peers[i]
		if p.id != except && p.fetch && p.pending != 0 {
			if p.deadline <= c.now.Mono {
				p.pending, p.silent = 0, true
				p.resume = c.now.Mono.Add(2 * c.opts.FetchMaxWait) // ask somebody else
				continue
			}
			c.wake = min(c.wake, p.deadline)
			return true
		}
	}
	return false
}

// sendDiscovery looks for the leader by fetching from anybody (HC-011).
func (c *Core) sendDiscovery() {
	if !c.shutdown && c.sealing.Offset == 0 && c.positionOnDisk() && !c.fetchPending(c.opts.Self.ID) {
		c.discover()
	}
}

// discover sends a fetch to a random voter other than the leader and itself that
// has answered so far. Only if none has, all of them and the bootstrap addresses
// are asked: one of them may be the leader's, which hangs. Who does not lead
// answers at once, so that a silent one costs less than a request's time.
func (c *Core) discover() bool {
	var ready, silent []kafka.NodeID
	answering := false
	consider := func(id kafka.NodeID) {
		if id == c.opts.Self.ID || c.role == Follower && id == c.election.Leader {
			return
		}
		p := c.peer(id)
		answering = answering || !p.silent
		switch {
		case p.resume > c.now.Mono:
			c.wake = min(c.wake, p.resume)
		case p.silent:
			silent = append(silent, id)
		default:
			ready = append(ready, id)
		}
	}
	for _, v := range c.voters().All() {
		consider(v.Key.ID)
	}
	if !answering {
		for _, id := range c.opts.Bootstrap {
			consider(id)
		}
		ready = append(ready, silent...)
	}
	if len(ready) == 0 {
		return false
	}
	to := ready[c.rng.IntN(len(ready))]
	if !c.request(to, c.fetchRequest()) {
		return false
	}
	if !c.isVoter() { // voters have their timers
		p := c.peer(to)
		p.deadline = min(p.deadline, c.now.Mono.Add(2*c.opts.FetchMaxWait))
		c.wake = min(c.wake, p.deadline)
	}
	return true
}

func (c *Core) fetchRequest() *FetchRequest {
	return &FetchRequest{
		ClusterID: c.opts.ClusterID, Replica: c.opts.Self,
		CurrentLeaderEpoch: c.election.Epoch,
		FetchOffset:        c.log.end, LastFetchedEpoch: c.log.lastEpoch(),
		HighWatermark: c.hw, MaxWait: c.opts.FetchMaxWait, MaxBytes: c.opts.FetchMaxBytes,
	}
}

// fetchResponse takes the answer to our one outstanding fetch.
func (c *Core) fetchResponse(from kafka.NodeID, r *FetchResponse) (ok bool) {
	if done, ok := c.common(r.Leadership); done {
		return ok
	}
	if c.role != Follower || from != c.election.Leader {
		return false
	}
	switch {
	case r.Diverging != NoDivergence && !mutantNoDivergence:
		ok = c.diverged(r.Diverging)
	case r.SnapshotID != NoDivergence:
		ok = c.beginDownload(r.SnapshotID)
	default:
		ok = c.appendFetched(r)
	}
	if ok {
		c.touchLeader()
	}
	return ok
}

// diverged cuts the log to where it is still the leader's. Cutting below the
// known high watermark would remove committed records: fatal (HC-012).
func (c *Core) diverged(at kafka.OffsetAndEpoch) bool {
	if at.Offset < 0 || at.Epoch < 0 {
		return false
	}
	to := c.log.cutFor(at)
	if mutantTruncateToHw {
		to = max(c.hw, c.log.start.Offset)
	}
	if at.Offset < c.hw || to < c.hw || to < c.log.start.Offset {
		c.fatal(fmt.Errorf("leader %d of epoch %d wants the log cut to offset %d (epoch %d ends at %d), below the high watermark %d or the log start %d",
			c.election.Leader, c.election.Epoch, to, at.Epoch, at.Offset, c.hw, c.log.start.Offset))
		return false
	}
	if to >= c.log.end {
		return false
	}
	c.log.truncate(to)
	c.history.truncate(to)
	c.out.Truncate = &to
	return true
}

// appendFetched appends records that continue the log exactly.
func (c *Core) appendFetched(r *FetchResponse) bool {
	next, epoch := c.log.end, c.log.lastEpoch()
	for _, b := range r.Batches {
		if b.Base != next || b.Last < b.Base || b.Epoch < epoch || b.Epoch > c.election.Epoch {
			return false
		}
		next, epoch = b.Last+1, b.Epoch
	}
	for _, b := range r.Batches {
		c.log.append(b.Base, b.Last, b.Epoch)
		c.history.add(b.Control...)
		c.out.Append = append(c.out.Append, b)
	}
	if r.HighWatermark >= 0 {
		c.setHighWatermark(min(r.HighWatermark, c.log.end))
	}
	return true
}
