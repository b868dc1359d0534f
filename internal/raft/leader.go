package raft

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"moldau/internal/kafka"
)

// lead is the state of a leader; it lives for one epoch.
type lead struct {
	epoch kafka.Epoch
	// start is the end offset at election. Nothing is committed in this epoch
	// until a majority has a record at or beyond it (HC-003).
	start    kafka.Offset
	led      bool // the application has been told
	replicas map[ReplicaKey]*progress
	parked   []parkedFetch
	// begin is when voters that do not fetch are told again who leads.
	begin kafka.Mono
	// quorum is when leadership ends unless a majority has fetched since;
	// fetched are the voters that have.
	quorum  kafka.Mono
	fetched []kafka.NodeID
	// change is the voter change that somebody waits for.
	change *change
	// next is who shall lead next, nil if nobody has asked for that.
	next *handover
	// volatile is what voters have told of themselves while kraft.version 0
	// keeps that out of the log.
	volatile map[kafka.NodeID]Voter
}

// progress is what the leader knows of another replica.
type progress struct {
	key       ReplicaKey
	end       kafka.Offset // its fetch position: all below is on its disk; NoOffset if none yet
	lastFetch kafka.Now
	fetchedAt kafka.Offset // our end offset at that fetch
	caughtUp  kafka.WallMs
	hasFetch  bool
}

// becomeLeader begins the epoch with a LeaderChange record, and with it the
// voter set if the log does not hold it yet or our own entry is out of date.
func (c *Core) becomeLeader() {
	granting := c.nominee.granted
	el := c.election
	el.Leader = c.opts.Self.ID
	el.Voted = NoReplica // as Kafka stores it; a leader never votes
	c.enter(Leader, el)
	c.lead = &lead{
		epoch: el.Epoch, start: c.log.end,
		replicas: map[ReplicaKey]*progress{},
		begin:    c.now.Mono,
		quorum:   c.quorumTimeout(),
		volatile: map[kafka.NodeID]Voter{c.opts.Self.ID: c.self()},
	}
	c.out.LeaderChange = c.leaderChange(granting)
}

// leaderChange makes the first batch of the epoch and appends it to our view.
func (c *Core) leaderChange(granting []kafka.NodeID) *LeaderChange {
	voters, at := c.history.votersAt(c.log.end)
	lc := &LeaderChange{Base: c.log.end, Epoch: c.election.Epoch, Leader: c.opts.Self.ID}
	for _, v := range voters.All() {
		lc.Voters = append(lc.Voters, v.Key)
		if slices.Contains(granting, v.Key.ID) {
			lc.Granting = append(lc.Granting, v.Key)
		}
	}
	last := lc.Base
	me := c.self()
	mine, _ := voters.Find(me.Key.ID)
	if kraft := c.KRaftVersion(); kraft >= 1 && (at == kafka.NoOffset || !mine.equal(me)) {
		set := voters.with(me)
		lc.NewVoters, lc.KRaft = &set, kraft
		last += 2
		c.history.add(Control{Offset: lc.Base + 1, KRaft: kraft}, Control{Offset: lc.Base + 2, Voters: &set})
	}
	c.log.append(lc.Base, last, lc.Epoch)
	return lc
}

// self is this node as the voter that it is or would be.
func (c *Core) self() Voter {
	return Voter{Key: c.opts.Self, Endpoints: c.opts.Endpoints, MinKRaft: c.opts.MinKRaft, MaxKRaft: c.opts.MaxKRaft}
}

// propose appends the application's batches. Only a leader whose epoch is
// confirmed takes them, and only at the end of the log: that is what makes the
// base offsets, which the application has used already, true.
func (c *Core) propose(p Propose) error {
	if c.role != Leader || !c.lead.led || p.Epoch != c.lead.epoch {
		return ErrNotLeader
	}
	next := c.log.end
	for _, b := range p.Batches {
		if b.Base != next || b.Last < b.Base || b.Epoch != p.Epoch {
			return fmt.Errorf("%w: %d..%d of epoch %d at %d", ErrWrongOffset, b.Base, b.Last, b.Epoch, next)
		}
		next = b.Last + 1
	}
	for _, b := range p.Batches {
		c.log.append(b.Base, b.Last, b.Epoch)
		c.out.Append = append(c.out.Append, b)
	}
	if mutantSkipFsync {
		c.advance()
	}
	return nil
}

// position is how far the voter is known to have the log on disk.
func (c *Core) position(v Voter) kafka.Offset {
	if v.matches(c.opts.Self) {
		if mutantSkipFsync {
			return c.log.end
		}
		return c.log.flushed
	}
	for key, p := range c.lead.replicas {
		if v.matches(key) {
			return p.end
		}
	}
	return kafka.NoOffset
}

// advance moves the high watermark to what a majority of the voters has on
// disk, once that includes a record of this epoch.
func (c *Core) advance() {
	voters := c.voters()
	if voters.Len() == 0 {
		return
	}
	at := make([]kafka.Offset, 0, voters.Len())
	for _, v := range voters.All() {
		at = append(at, c.position(v))
	}
	if mutantCountObservers {
		for key, p := range c.lead.replicas {
			if !voters.Contains(key) {
				at = append(at, p.end)
			}
		}
	}
	slices.SortFunc(at, func(a, b kafka.Offset) int { return cmp.Compare(b, a) })
	majority := at[voters.Majority()-1]
	if majority <= c.lead.start && !(mutantOldEpochCommit && majority > 0) {
		return
	}
	c.setHighWatermark(majority)
	defer c.changeCommitted()
	if !c.lead.led && majority > c.lead.start {
		c.lead.led = true
		epoch := c.lead.epoch
		c.out.Led = &epoch
	}
}

func (c *Core) setHighWatermark(to kafka.Offset) {
	if to <= c.hw {
		return
	}
	c.hw = to
	c.out.HighWatermark = &to
}

// touched records a fetch of the replica at offset. A voter always counts,
// however many others have come before it.
func (l *lead) touched(key ReplicaKey, voter bool, offset, ourEnd kafka.Offset, now kafka.Now) {
	p := l.replicas[key]
	if p == nil {
		l.dropIdle(now)
		if len(l.replicas) >= maxReplicas && !voter {
			return
		}
		p = &progress{key: key, end: kafka.NoOffset, caughtUp: kafka.NoTimestamp}
		l.replicas[key] = p
	}
	if offset >= ourEnd {
		p.caughtUp = now.Wall
	} else if p.hasFetch && offset >= p.fetchedAt {
		p.caughtUp = max(p.caughtUp, p.lastFetch.Wall)
	}
	p.end, p.lastFetch, p.fetchedAt, p.hasFetch = offset, now, ourEnd, true
}

// dropIdle forgets replicas that have not fetched for long.
func (l *lead) dropIdle(now kafka.Now) {
	for k, p := range l.replicas {
		if now.Mono.Sub(p.lastFetch.Mono) >= replicaSession {
			delete(l.replicas, k)
		}
	}
}

// contact counts a fetch for check-quorum: only voters, by node and directory
// (HC-022).
func (c *Core) contact(key ReplicaKey) {
	voters := c.voters()
	if !voters.Contains(key) && !mutantObserversKeep {
		return
	}
	if c.lead.quorum <= c.now.Mono {
		return // too late: this process stood still, and expire ends its leadership
	}
	if !slices.Contains(c.lead.fetched, key.ID) {
		c.lead.fetched = append(c.lead.fetched, key.ID)
	}
	need := voters.Majority()
	if voters.Contains(c.opts.Self) {
		need--
	}
	if count(c.lead.fetched, voters) >= need || mutantObserversKeep && len(c.lead.fetched) >= need {
		c.lead.fetched = c.lead.fetched[:0]
		c.lead.quorum = c.quorumTimeout()
	}
}

func (c *Core) quorumTimeout() kafka.Mono {
	return c.now.Mono.Add(c.opts.FetchTimeout * 3 / 2)
}

// expireLeader resigns if the majority is silent. The only voter never does
// (HC-008).
func (c *Core) expireLeader() {
	l := c.lead
	if l.quorum <= c.now.Mono && !c.onlyVoter() {
		c.becomeResigned()
		return
	}
	if c.onlyVoter() && !l.led {
		c.advance() // its own flush may have been there before the epoch
		return
	}
	if l.change != nil && l.change.deadline <= c.now.Mono {
		c.endChange(kafka.ErrRequestTimedOut, "")
	}
}

func (c *Core) leaderDeadline() kafka.Mono {
	d := kafka.Never
	if !c.onlyVoter() {
		d = c.lead.quorum
		if c.othersVote() {
			d = min(d, c.lead.begin)
		}
	}
	for i := range c.lead.parked {
		d = min(d, c.lead.parked[i].deadline)
	}
	if c.lead.change != nil {
		d = min(d, c.lead.change.deadline)
	}
	return d
}

func (c *Core) othersVote() bool {
	n := c.voters().Len()
	return n > 1 || n == 1 && !c.isVoter()
}

// sendBegin tells voters that do not fetch who leads, every half fetch timeout.
func (c *Core) sendBegin() {
	l := c.lead
	if !c.othersVote() || l.begin > c.now.Mono {
		return
	}
	every := c.opts.FetchTimeout / 2
	l.begin = c.now.Mono.Add(every)
	for _, v := range c.voters().All() {
		if v.Key.ID == c.opts.Self.ID || c.fetchedWithin(v, every) {
			continue
		}
		c.request(v.Key.ID, &BeginQuorumEpochRequest{
			ClusterID: c.opts.ClusterID, Voter: v.Key,
			LeaderID: c.opts.Self.ID, LeaderEpoch: l.epoch, Endpoints: c.opts.Endpoints,
		})
	}
	c.wake = kafka.Never // begin is the only reason to send
}

func (c *Core) fetchedWithin(v Voter, d time.Duration) bool {
	for key, p := range c.lead.replicas {
		if v.matches(key) && c.now.Mono.Sub(p.lastFetch.Mono) < d {
			return true
		}
	}
	return false
}

// successors lists the other voters: who shall lead next, then who has most
// (KIP-595).
func (c *Core) successors() []ReplicaKey {
	var all []Voter
	for _, v := range c.voters().All() {
		if v.Key.ID != c.opts.Self.ID {
			all = append(all, v)
		}
	}
	rank := func(v Voter) kafka.Offset {
		if n := c.lead.next; n != nil && v.Key == n.to {
			return math.MaxInt64
		}
		return c.position(v)
	}
	slices.SortStableFunc(all, func(a, b Voter) int { return cmp.Compare(rank(b), rank(a)) })
	keys := make([]ReplicaKey, len(all))
	for i, v := range all {
		keys[i] = v.Key
	}
	return keys
}

func (c *Core) sendEnd() {
	for _, id := range c.resign.unacked {
		c.request(id, &EndQuorumEpochRequest{
			ClusterID: c.opts.ClusterID, LeaderID: c.opts.Self.ID, LeaderEpoch: c.election.Epoch,
			Successors: c.resign.successors, Endpoints: c.opts.Endpoints,
		})
	}
}

// endAcknowledged counts who knows that this leader has resigned. One that is
// no voter any more has nothing else to wait for: nobody tells it who leads, so
// it looks for itself.
func (c *Core) endAcknowledged(from kafka.NodeID) {
	if c.role != Resigned {
		return
	}
	c.resign.unacked = slices.DeleteFunc(c.resign.unacked, func(id kafka.NodeID) bool { return id == from })
	if len(c.resign.unacked) == 0 && !c.mayStand() && !c.shutdown {
		c.leaveResigned()
	}
}

// leaveResigned follows whoever leads next. The epoch must rise: others may
// still take this node for its leader.
func (c *Core) leaveResigned() {
	if c.exhausted() {
		return
	}
	c.timer = kafka.Never
	c.becomeUnattached(c.election.Epoch+1, kafka.NoNode)
}
