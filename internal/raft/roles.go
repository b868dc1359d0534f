package raft

import (
	"time"

	"moldau/internal/kafka"
)

// start chooses the first role from what was on disk (QuorumState.initialize).
// A former leader comes up resigned: it may have lost records of its epoch, and
// must not lead that epoch again (HC-004).
func (c *Core) start() {
	self := c.opts.Self
	switch el := c.election; {
	case el.Epoch < c.log.lastEpoch():
		// quorum-state is missing or old (HC-006). Votes of epochs beyond the
		// log's are unknown; in the log's own epoch nobody can ask for one,
		// because a candidate's log is older than its epoch.
		c.enter(Unattached, ElectionState{Epoch: c.log.lastEpoch(), Leader: kafka.NoNode, Voted: NoReplica})
		c.timer = c.voterTimeout()
	case el.Leader == self.ID && el.Leader != kafka.NoNode:
		c.enter(Resigned, el)
		c.resign = c.newResigning(nil)
		c.timer = c.electionTimeout()
	case el.Voted.ID == self.ID && (el.Voted.Dir == self.Dir || el.Voted.Dir == kafka.DirectoryID{}) && c.mayStand():
		c.enter(Candidate, el)
		c.nominee = c.newNominee()
		c.timer = c.electionTimeout()
	case el.Leader != kafka.NoNode:
		if _, known := c.voters().Find(el.Leader); known {
			c.becomeFollower(el.Epoch, el.Leader, nil)
			break
		}
		fallthrough
	default:
		c.enter(Unattached, el)
		c.timer = c.voterTimeout()
	}
	if c.onlyVoter() && !c.shutdown {
		c.becomeProspective() // nobody to wait for (HC-008)
	}
}

// enter changes role and election. It ends whatever the old role had going:
// outstanding requests are forgotten (HC-013), waiting fetches sent back.
func (c *Core) enter(role Role, el ElectionState) {
	wasLead := c.lead
	if el.Epoch < c.election.Epoch {
		panic("raft: the epoch falls")
	}
	if el.Leader != c.election.Leader || el.Epoch != c.election.Epoch {
		c.leaderAddr = nil
	}
	if mutantVoteTwice {
		el.Voted = NoReplica
	}
	c.role, c.election = role, el
	c.lead = nil
	c.timer = kafka.Never
	c.forgetRequests()
	if wasLead == nil {
		return
	}
	for _, p := range wasLead.parked {
		c.reply(p.token, c.fetchError(kafka.ErrNotLeaderForPartition))
	}
	if ch := wasLead.change; ch != nil {
		c.answerChange(ch, kafka.ErrNotLeaderForPartition, "")
	}
	switch epoch := wasLead.epoch; {
	case !wasLead.led:
	case c.out.Led != nil && *c.out.Led == epoch:
		c.out.Led = nil // ended in the step in which it began: nobody needs to know
	default:
		c.out.Resigned = &epoch
	}
}

// voterTimeout is an election timeout for voters; observers have none.
func (c *Core) voterTimeout() kafka.Mono {
	if !c.mayStand() {
		return kafka.Never
	}
	return c.electionTimeout()
}

// becomeUnattached follows an epoch whose leader is not known or, after a lost
// pre-vote, waits in the same one. A running election timeout goes on, so that
// a stream of higher epochs cannot keep everybody from standing.
func (c *Core) becomeUnattached(epoch kafka.Epoch, leader kafka.NodeID) {
	timer := c.voterTimeout()
	if timer != kafka.Never {
		running := c.role == Unattached || c.role == Candidate || c.role == Resigned ||
			c.role == Prospective && !c.nominee.lost(c.voters())
		if running && c.timer > c.now.Mono && c.timer != kafka.Never {
			timer = c.timer
		}
	}
	el := ElectionState{Epoch: epoch, Leader: leader, Voted: NoReplica}
	if epoch == c.election.Epoch {
		el.Voted = c.election.Voted // one vote per epoch (HC-005)
	}
	c.enter(Unattached, el)
	c.timer = timer
}

// becomeFollower follows a known leader.
func (c *Core) becomeFollower(epoch kafka.Epoch, leader kafka.NodeID, addr []kafka.Endpoint) {
	el := ElectionState{Epoch: epoch, Leader: leader, Voted: NoReplica}
	if epoch == c.election.Epoch {
		el.Voted = c.election.Voted
	}
	c.enter(Follower, el)
	if len(addr) > 0 {
		c.leaderAddr = addr
	} else if v, ok := c.voters().Find(leader); ok && c.leaderAddr == nil {
		c.leaderAddr = v.Endpoints
	}
	c.follow = follow{update: c.now.Mono.Add(c.opts.FetchTimeout)}
	c.timer = c.now.Mono.Add(c.opts.FetchTimeout)
	if !c.mayStand() {
		c.timer = kafka.Never // observers look for a leader by fetching elsewhere
	}
}

// becomeProspective asks whether an election would be won. It changes nothing
// durable: epoch, leader and vote stay (KIP-996).
func (c *Core) becomeProspective() {
	addr := c.leaderAddr
	c.enter(Prospective, c.election)
	c.leaderAddr = addr
	c.nominee = c.newNominee()
	c.timer = c.electionTimeout()
	c.maybeWin()
}

// becomeCandidate opens a new epoch with a vote for itself.
func (c *Core) becomeCandidate() {
	if c.exhausted() {
		return
	}
	old := c.nominee
	c.enter(Candidate, ElectionState{Epoch: c.election.Epoch + 1, Leader: kafka.NoNode, Voted: c.opts.Self})
	c.nominee = c.newNominee()
	if mutantStaleGrant {
		c.nominee = old
	}
	c.timer = c.electionTimeout()
	c.maybeWin()
}

// becomeResigned ends this node's leadership. It stays the epoch's leader in
// name, so that it cannot vote in it, and tells the others.
func (c *Core) becomeResigned() {
	successors := c.successors()
	c.enter(Resigned, c.election)
	c.resign = c.newResigning(successors)
	c.timer = c.electionTimeout()
}

// resigning is the state of a resigned leader: whom it still has to tell.
type resigning struct {
	successors []ReplicaKey
	unacked    []kafka.NodeID
}

func (c *Core) newResigning(successors []ReplicaKey) resigning {
	r := resigning{successors: successors}
	for _, v := range c.voters().All() {
		if v.Key.ID != c.opts.Self.ID {
			r.unacked = append(r.unacked, v.Key.ID)
		}
	}
	return r
}

// expire acts on timers that have run out, until none has.
func (c *Core) expire() {
	for range 4 { // unattached → prospective → candidate → leader
		role, epoch := c.role, c.election.Epoch
		c.expireRole()
		if c.role == role && c.election.Epoch == epoch {
			return
		}
	}
}

func (c *Core) expireRole() {
	due := c.timer <= c.now.Mono
	switch c.role {
	case Unattached, Follower:
		if due && c.mayStand() && !c.shutdown {
			if c.role == Follower {
				c.peer(c.election.Leader).silent = true // for a whole fetch timeout
			}
			c.becomeProspective()
		}
	case Prospective:
		if due && !c.shutdown {
			c.afterLostPreVote()
		}
	case Candidate:
		if due && !c.shutdown {
			c.becomeProspective()
		}
	case Resigned:
		if due && !c.shutdown {
			c.leaveResigned()
		}
	case Leader:
		c.expireLeader()
	}
}

// afterLostPreVote goes back to where the pre-vote began.
func (c *Core) afterLostPreVote() {
	if l := c.election.Leader; l != kafka.NoNode && l != c.opts.Self.ID {
		if _, known := c.voters().Find(l); known || len(c.leaderAddr) > 0 {
			c.becomeFollower(c.election.Epoch, l, c.leaderAddr)
			if c.gone == (LeaderAndEpoch{l, c.election.Epoch}) && c.mayStand() {
				// The others may not have known when they refused.
				c.timer = min(c.timer, c.now.Mono.Add(c.retryElection()))
			}
			return
		}
	}
	c.becomeUnattached(c.election.Epoch, c.election.Leader)
}

// roleDeadline is the next timer that this role will act on (HC-018).
func (c *Core) roleDeadline() kafka.Mono {
	if c.role == Leader {
		return c.leaderDeadline()
	}
	if c.shutdown {
		return kafka.Never
	}
	return c.timer
}

// retryElection is how long one who was not elected waits before the next try
// while nobody leads: a part of the election timeout, so that two who stood at
// the same time need not wait for all of it, at random, so that they do not
// stand at the same time again. Kafka's candidate waits for what is left of it.
func (c *Core) retryElection() time.Duration { return c.draw(c.opts.ElectionTimeout / 4) }

// connectionLost lets a follower stand soon after its leader died (Trap 16). A
// fetch that is answered sets the timer back.
func (c *Core) connectionLost(leader kafka.NodeID) {
	if !c.opts.FastFailover || c.role != Follower || c.election.Leader != leader || !c.mayStand() {
		return
	}
	c.follow.fetched = false
	c.gone = LeaderAndEpoch{leader, c.election.Epoch}
	c.timer = min(c.timer, c.now.Mono.Add(c.draw(fastFailoverSpread)))
}

// observe takes in what a message says about the leadership (maybeTransition).
// It reports false if that contradicts what is known.
func (c *Core) observe(epoch kafka.Epoch, leader kafka.NodeID, addr []kafka.Endpoint) bool {
	cur := c.election
	switch {
	case epoch < cur.Epoch:
		return true
	case leader == c.opts.Self.ID:
		// Only we can know whether we lead.
		return epoch == cur.Epoch && c.role == Leader
	case epoch > cur.Epoch && leader == kafka.NoNode:
		c.becomeUnattached(epoch, kafka.NoNode)
	case epoch > cur.Epoch:
		c.becomeFollower(epoch, leader, addr)
	case leader == kafka.NoNode:
	case cur.Leader != kafka.NoNode && cur.Leader != leader:
		return false
	case c.role == Unattached || c.role == Prospective || c.role == Candidate:
		c.becomeFollower(epoch, leader, addr)
	case c.role == Follower && len(addr) > len(c.leaderAddr):
		c.leaderAddr = addr
	}
	return true
}
