package raft

import (
	"moldau/internal/kafka"
)

// What a follower tells its leader of itself: a voter keeps its entry of the
// voter set true, an observer may ask to become a voter (KIP-853, KIP-1186).

// joining is what a follower has to say, if anything.
type joining int8

const (
	nothing joining = iota
	updateEntry
	removeFormer
	addSelf
)

// wants tells what the leader should be told. Only if there is something does
// a timer run (HC-018).
func (c *Core) wants() joining {
	if c.role != Follower || c.shutdown {
		return nothing
	}
	kraft := c.KRaftVersion()
	mine, listed := c.voters().Find(c.opts.Self.ID)
	switch {
	case c.isVoter() && kraft == 0:
		// Every leader must hear it: this is what an upgrade will write.
		if !c.follow.updated && c.opts.MaxKRaft >= 1 && len(c.opts.Endpoints) > 0 {
			return updateEntry
		}
	case c.isVoter():
		if !mine.equal(c.self()) {
			return updateEntry
		}
	case !c.opts.AutoJoin || !c.opts.CanBecomeVoter || kraft == 0:
	case listed:
		return removeFormer // our node under a disk that is gone
	default:
		return addSelf
	}
	return nothing
}

// tellLeader sends what is due instead of a fetch. It is asked only when a fetch
// could be sent; so only then does its time wake us.
func (c *Core) tellLeader() bool {
	what := c.wants()
	if what == nothing || c.follow.download.id.Offset > 0 {
		return false
	}
	if c.follow.update > c.now.Mono {
		c.wake = min(c.wake, c.follow.update)
		return false
	}
	var body Body
	switch what {
	case updateEntry:
		body = &UpdateVoterRequest{ClusterID: c.opts.ClusterID, CurrentLeaderEpoch: c.election.Epoch, Voter: c.self()}
	case removeFormer:
		former, _ := c.voters().Find(c.opts.Self.ID)
		body = &RemoveVoterRequest{ClusterID: c.opts.ClusterID, Voter: former.Key}
	case addSelf:
		body = &AddVoterRequest{ClusterID: c.opts.ClusterID, Timeout: c.opts.RequestTimeout, Voter: c.self(), AckEarly: true}
	}
	if c.request(c.election.Leader, body) {
		c.follow.update = c.now.Mono.Add(c.opts.FetchTimeout)
	}
	return true
}

func (c *Core) updateVoterResponse(r *UpdateVoterResponse) bool {
	l := r.Leadership
	l.Error, l.TopError = l.TopError, kafka.NoError // it has one code only
	unsupported := l.Error == kafka.ErrUnsupportedVersion
	if unsupported {
		l.Error = kafka.NoError // an older leader: it will never want to know
	}
	if done, ok := c.common(l); done {
		return ok
	}
	if c.role == Follower {
		c.follow.updated = true
		c.touchLeader()
	}
	return true
}

// joinResponse takes the answer to AddVoter or RemoveVoter of our own. After a
// refusal it is tried again a period later.
func (c *Core) joinResponse(code kafka.ErrorCode) bool {
	switch code {
	case kafka.NoError, kafka.ErrRequestTimedOut, kafka.ErrDuplicateVoter:
		return true
	}
	return false
}
