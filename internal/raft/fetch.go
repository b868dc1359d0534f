package raft

import (
	"slices"
	"time"

	"moldau/internal/kafka"
)

const (
	// maxReplicas bounds the replicas whose progress a leader keeps, voters
	// apart; fetches of more are served but not tracked.
	maxReplicas = 4096
	// maxParked bounds the fetches that wait at a leader; the oldest returns early.
	maxParked = 4096
	// replicaSession is after how long without fetch an observer is forgotten.
	replicaSession = 5 * time.Minute
)

// parkedFetch is a fetch that waits for records or a new high watermark.
type parkedFetch struct {
	token    uint64
	req      *FetchRequest
	deadline kafka.Mono
}

// handleFetch serves or parks a fetch.
func (c *Core) handleFetch(token uint64, r *FetchRequest) {
	if !c.clusterMatches(r.ClusterID) {
		f := c.fetchError(kafka.NoError)
		f.TopError = kafka.ErrInconsistentClusterID
		c.reply(token, f)
		return
	}
	if r.MaxWait < 0 || r.FetchOffset < 0 || r.LastFetchedEpoch < 0 ||
		r.LastFetchedEpoch > r.CurrentLeaderEpoch {
		c.reply(token, c.fetchError(kafka.ErrInvalidRequest))
		return
	}
	f := c.tryFetch(r, true)
	if f.Error == kafka.NoError && f.Diverging == NoDivergence && f.SnapshotID == NoDivergence {
		c.handOver(r)
	}
	if c.role != Leader && f.Error == kafka.NoError {
		f = c.fetchError(kafka.ErrNotLeaderForPartition) // it has just committed this leader's own removal, or handed over
	}
	if f.Error != kafka.NoError || f.Read.MaxBytes > 0 || r.MaxWait == 0 ||
		f.Diverging != NoDivergence || f.SnapshotID != NoDivergence || r.HighWatermark < f.HighWatermark {
		c.reply(token, f)
		return
	}
	c.park(parkedFetch{token: token, req: r, deadline: c.now.Mono.Add(min(r.MaxWait, maxFetchWait))})
}

// maxFetchWait bounds how long a fetch waits, whatever it asks for.
const maxFetchWait = 30 * time.Second

// park keeps a fetch. A replica waits once: its older fetch is answered.
func (c *Core) park(p parkedFetch) {
	l := c.lead
	old := slices.IndexFunc(l.parked, func(o parkedFetch) bool {
		return o.req.Replica == p.req.Replica && p.req.Replica.ID >= 0
	})
	if old < 0 && len(l.parked) >= maxParked {
		old = 0
	}
	if old >= 0 {
		c.reply(l.parked[old].token, c.tryFetch(l.parked[old].req, false))
		l.parked = slices.Delete(l.parked, old, old+1)
	}
	l.parked = append(l.parked, p)
}

// answerParked returns fetches whose time is up or that have something new to
// learn, a risen high watermark included (HC-017).
func (c *Core) answerParked() {
	if c.role != Leader || len(c.lead.parked) == 0 {
		return
	}
	keep := c.lead.parked[:0]
	for _, p := range c.lead.parked {
		if p.deadline > c.now.Mono && c.log.end <= p.req.FetchOffset && p.req.HighWatermark >= c.hwOrNone() {
			keep = append(keep, p)
			continue
		}
		c.reply(p.token, c.tryFetch(p.req, false))
	}
	clear(c.lead.parked[len(keep):])
	c.lead.parked = keep
}

// hwOrNone is the high watermark that a leader may tell: none before it has
// committed in its own epoch.
func (c *Core) hwOrNone() kafka.Offset {
	if c.lead == nil || !c.lead.led && !mutantOldEpochCommit {
		return kafka.NoOffset
	}
	return c.hw
}

// tryFetch answers a fetch from the present state. fresh tells that the
// request has just arrived, so that its position is news.
func (c *Core) tryFetch(r *FetchRequest, fresh bool) *FetchResponse {
	switch {
	case r.CurrentLeaderEpoch < c.election.Epoch:
		return c.fetchError(kafka.ErrFencedLeaderEpoch)
	case r.CurrentLeaderEpoch > c.election.Epoch:
		return c.fetchError(kafka.ErrUnknownLeaderEpoch)
	case c.role != Leader:
		return c.fetchError(kafka.ErrNotLeaderForPartition)
	case r.Replica.ID == c.opts.Self.ID:
		return c.fetchError(kafka.ErrInvalidRequest) // a leader has its own log
	}
	f := c.fetchError(kafka.NoError)
	switch v, at := c.log.validate(r.FetchOffset, r.LastFetchedEpoch); v {
	case posDiverging:
		f.Diverging = at
	case posSnapshot:
		f.SnapshotID = at
	default:
		if fresh && r.Replica.ID >= 0 {
			key := c.knownAs(r.Replica)
			c.lead.touched(key, c.voters().Contains(key), r.FetchOffset, c.log.end, c.now)
			c.contact(r.Replica)
			c.advance()
		}
		if r.FetchOffset < c.log.end {
			f.Read = ReadRange{From: r.FetchOffset, MaxBytes: max(1, r.MaxBytes)}
		}
	}
	f.HighWatermark = c.hwOrNone()
	return f
}

// knownAs is the key under which a replica's progress is kept: that of its
// entry in the voter set, which under kraft.version 0 has no directory.
func (c *Core) knownAs(key ReplicaKey) ReplicaKey {
	if v, ok := c.voters().Find(key.ID); ok && v.matches(key) {
		return v.Key
	}
	return key
}

// fetchError makes an answer without records.
func (c *Core) fetchError(code kafka.ErrorCode) *FetchResponse {
	return &FetchResponse{
		Leadership: c.leadership(code), HighWatermark: kafka.NoOffset, LogStart: c.log.start.Offset,
		Diverging: NoDivergence, SnapshotID: NoDivergence,
	}
}
