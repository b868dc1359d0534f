package raft

import (
	"slices"

	"moldau/internal/kafka"
)

// nominee is the tally of one pre-vote or election. A new one begins with every
// change of role, so that old answers count for nothing (HC-010).
type nominee struct {
	granted, rejected []kafka.NodeID
	silent            []kafka.NodeID // they did not answer lately; they are asked all the same
}

// newNominee begins a tally with the own vote. Who was silent lately is not
// counted on.
func (c *Core) newNominee() nominee {
	n := nominee{granted: []kafka.NodeID{c.opts.Self.ID}}
	for _, p := range c.peers {
		if p.silent {
			n.silent = append(n.silent, p.id)
		}
	}
	return n
}

func (n *nominee) record(id kafka.NodeID, granted bool) {
	if slices.Contains(n.granted, id) || slices.Contains(n.rejected, id) {
		return
	}
	if granted {
		n.granted = append(n.granted, id)
	} else {
		n.rejected = append(n.rejected, id)
	}
}

func (n *nominee) asked(id kafka.NodeID) bool {
	return !slices.Contains(n.granted, id) && !slices.Contains(n.rejected, id)
}

// count gives how many of ids are voters: tallies are taken against the
// current voter set (HC-029).
func count(ids []kafka.NodeID, voters VoterSet) int {
	n := 0
	for _, id := range ids {
		if _, ok := voters.Find(id); ok {
			n++
		}
	}
	return n
}

func (n *nominee) won(voters VoterSet) bool {
	return voters.Len() > 0 && count(n.granted, voters) >= voters.Majority()
}

func (n *nominee) lost(voters VoterSet) bool {
	return voters.Len()-count(n.rejected, voters) < voters.Majority()
}

// hopeless tells that it is lost unless a voter that cannot be reached comes back.
func (n *nominee) hopeless(voters VoterSet) bool {
	against := count(n.rejected, voters)
	for _, id := range n.silent {
		if n.asked(id) && count([]kafka.NodeID{id}, voters) > 0 {
			against++
		}
	}
	return voters.Len()-against < voters.Majority()
}

// unanswered notes that a voter could not be asked.
func (c *Core) unanswered(id kafka.NodeID) {
	if c.role != Prospective && c.role != Candidate {
		return
	}
	if !slices.Contains(c.nominee.silent, id) {
		c.nominee.silent = append(c.nominee.silent, id)
	}
	c.maybeRetry()
}

// maybeRetry lets one who cannot win any more try again soon: a candidate, or
// one who knows that nobody leads. Others wait, so that those who hear from a
// leader are not asked all the time.
func (c *Core) maybeRetry() {
	if c.role != Prospective && c.role != Candidate {
		return
	}
	nobody := c.role == Candidate || c.gone == (LeaderAndEpoch{c.election.Leader, c.election.Epoch})
	if nobody && c.nominee.hopeless(c.voters()) {
		c.timer = min(c.timer, c.now.Mono.Add(c.retryElection()))
	}
}

// maybeWin moves on if a majority is for us.
func (c *Core) maybeWin() {
	if !c.nominee.won(c.voters()) {
		return
	}
	switch c.role {
	case Prospective:
		c.becomeCandidate()
	case Candidate:
		c.becomeLeader()
	}
}

func (c *Core) clusterMatches(id string) bool {
	return id == "" || c.opts.ClusterID == "" || id == c.opts.ClusterID
}

// meantForUs checks the receiver's key in a request (INVALID_VOTER_KEY).
func (c *Core) meantForUs(key ReplicaKey) bool {
	self := c.opts.Self
	return key.ID == kafka.NoNode ||
		key.ID == self.ID && (key.Dir == kafka.DirectoryID{} || key.Dir == self.Dir)
}

// handleVote decides on a vote or pre-vote. Whether the candidate is in the
// voter set does not matter: it may be newer than ours (HC-021).
func (c *Core) handleVote(r *VoteRequest) *VoteResponse {
	no := func(code kafka.ErrorCode) *VoteResponse { return &VoteResponse{Leadership: c.leadership(code)} }
	if !c.clusterMatches(r.ClusterID) {
		return &VoteResponse{Leadership: Leadership{TopError: kafka.ErrInconsistentClusterID, LeaderID: kafka.NoNode, LeaderEpoch: kafka.NoEpoch}}
	}
	illegal := r.LastEpoch >= r.ReplicaEpoch
	if r.PreVote {
		illegal = r.LastEpoch > r.ReplicaEpoch
	}
	if r.LastOffset < 0 || r.LastEpoch < 0 || illegal || !PlausibleEpoch(r.ReplicaEpoch, c.election.Epoch) {
		return no(kafka.ErrInvalidRequest)
	}
	if r.ReplicaEpoch < c.election.Epoch {
		return no(kafka.ErrFencedLeaderEpoch)
	}
	if r.Replica.ID < 0 {
		return no(kafka.ErrInvalidRequest)
	}
	if r.ReplicaEpoch > c.election.Epoch {
		c.becomeUnattached(r.ReplicaEpoch, kafka.NoNode)
	}
	if !c.meantForUs(r.Voter) {
		return no(kafka.ErrInvalidVoterKey)
	}
	granted := c.wouldGrant(r)
	if granted && !r.PreVote {
		// finish stores the vote before the answer leaves. The election timer
		// runs on: a candidate that dies must not cost a whole timeout more.
		c.election.Voted = r.Replica
	}
	return &VoteResponse{Leadership: c.leadership(kafka.NoError), Granted: granted}
}

// wouldGrant is the rule of KIP-595 and KIP-996. A pre-vote leaves nothing
// behind, no timer either (HC-009).
func (c *Core) wouldGrant(r *VoteRequest) bool {
	if c.voters().Len() == 0 {
		return false // a controller that was never a voter, or a voter whose folder is gone
	}
	upToDate := c.upToDate(r.LastEpoch, r.LastOffset)
	if r.PreVote {
		switch c.role {
		case Leader:
			return false
		case Follower:
			return upToDate && !c.follow.fetched
		}
		return upToDate
	}
	switch c.role {
	case Unattached, Prospective:
	default:
		return false
	}
	if v := c.election.Voted; v.ID != kafka.NoNode {
		return v.ID == r.Replica.ID && (v.Dir == kafka.DirectoryID{} || v.Dir == r.Replica.Dir)
	}
	return c.election.Leader == kafka.NoNode && upToDate
}

func (c *Core) upToDate(epoch kafka.Epoch, end kafka.Offset) bool {
	mine := c.log.lastEpoch()
	return epoch > mine || epoch == mine && end >= c.log.end
}

// voteResponse counts an answer. send has made sure that it belongs to this
// candidacy.
func (c *Core) voteResponse(from kafka.NodeID, r *VoteResponse) (ok bool) {
	if r.TopError == kafka.ErrUnsupportedVersion && c.role == Prospective {
		c.becomeCandidate() // a voter that knows no pre-vote
		return true
	}
	if done, ok := c.common(r.Leadership); done {
		return ok
	}
	if c.role != Prospective && c.role != Candidate {
		return true
	}
	c.nominee.record(from, r.Granted)
	switch {
	case r.Granted:
		c.maybeWin()
	case c.role == Prospective && c.nominee.lost(c.voters()):
		c.afterLostPreVote()
		return true
	}
	c.maybeRetry()
	return true
}

// sendVotes asks every voter that has not answered, while there is hope. The
// position that a vote is given for must outlive a crash: after one, the same
// candidate asks in the same epoch again, and who has voted for it does not
// compare the logs once more.
func (c *Core) sendVotes() {
	voters := c.voters()
	if c.nominee.lost(voters) || !c.positionOnDisk() {
		return // the flush's completion brings us back
	}
	for _, v := range voters.All() {
		if v.Key.ID == c.opts.Self.ID || !c.nominee.asked(v.Key.ID) {
			continue
		}
		c.request(v.Key.ID, &VoteRequest{
			ClusterID: c.opts.ClusterID, Voter: v.Key, Replica: c.opts.Self,
			ReplicaEpoch: c.election.Epoch, LastEpoch: c.log.lastEpoch(), LastOffset: c.log.end,
			PreVote: c.role == Prospective,
		})
	}
}
