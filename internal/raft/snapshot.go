package raft

import (
	"moldau/internal/kafka"
)

// download is a snapshot that a follower is loading from its leader. It belongs
// to one leader and epoch: another leader's snapshot of the same id may have
// other bytes, so that every change of role begins anew (Trap 7).
type download struct {
	id       kafka.OffsetAndEpoch
	position int64 // what has been written
}

func (d *download) running() bool { return d.id.Offset > 0 }

// handleFetchSnapshot lets the shell serve a part of a snapshot. The 0-0
// checkpoint is never served (Trap 5).
func (c *Core) handleFetchSnapshot(r *FetchSnapshotRequest) *FetchSnapshotResponse {
	answer := func(code kafka.ErrorCode) *FetchSnapshotResponse {
		return &FetchSnapshotResponse{Leadership: c.leadership(code), ID: r.ID, Position: r.Position}
	}
	switch {
	case !c.clusterMatches(r.ClusterID):
		a := answer(kafka.NoError)
		a.TopError = kafka.ErrInconsistentClusterID
		return a
	case r.CurrentLeaderEpoch < c.election.Epoch:
		return answer(kafka.ErrFencedLeaderEpoch)
	case r.CurrentLeaderEpoch > c.election.Epoch:
		return answer(kafka.ErrUnknownLeaderEpoch)
	case c.role != Leader:
		return answer(kafka.ErrNotLeaderForPartition)
	case r.ID.Offset <= 0:
		return answer(kafka.ErrSnapshotNotFound)
	case r.Position < 0:
		return answer(kafka.ErrPositionOutOfRange)
	}
	if r.Replica.ID != c.opts.Self.ID {
		c.contact(r.Replica)
	}
	a := answer(kafka.NoError)
	a.MaxBytes = max(1, r.MaxBytes)
	return a
}

// beginDownload takes the leader's word that the log no longer holds what we
// need. It cannot mean a snapshot that ends where our log or our committed
// records already reach.
func (c *Core) beginDownload(id kafka.OffsetAndEpoch) bool {
	if id.Offset <= 0 || id.Epoch < 0 || id.Offset <= c.hw || id.Epoch > c.election.Epoch {
		return false
	}
	c.follow.download = download{id: id}
	return true
}

func (c *Core) snapshotRequest() *FetchSnapshotRequest {
	return &FetchSnapshotRequest{
		ClusterID: c.opts.ClusterID, Replica: c.opts.Self, CurrentLeaderEpoch: c.election.Epoch,
		ID: c.follow.download.id, Position: c.follow.download.position, MaxBytes: c.opts.SnapshotMaxBytes,
	}
}

// snapshotResponse takes the next part. What does not fit is dropped, and the
// download given up: the next fetch tells what to load (HC-037).
func (c *Core) snapshotResponse(from kafka.NodeID, r *FetchSnapshotResponse) (ok bool) {
	gone := r.TopError == kafka.NoError && r.LeaderEpoch == c.election.Epoch &&
		(r.Error == kafka.ErrSnapshotNotFound || r.Error == kafka.ErrPositionOutOfRange)
	if gone && c.role == Follower && from == c.election.Leader {
		c.follow.download = download{}
		c.touchLeader()
		return true
	}
	if done, ok := c.common(r.Leadership); done {
		return ok
	}
	if c.role != Follower || from != c.election.Leader || !c.follow.download.running() {
		return false
	}
	d := &c.follow.download
	end := r.Position + int64(len(r.Bytes))
	if r.ID != d.id || r.Position != d.position || len(r.Bytes) == 0 || end > r.SizeBytes {
		c.follow.download = download{}
		return false
	}
	c.out.SnapshotPart = &SnapshotPart{ID: d.id, Position: r.Position, Bytes: r.Bytes}
	d.position = end
	if end == r.SizeBytes {
		id := d.id
		c.out.SealSnapshot = &id
		c.sealing, c.follow.download = id, download{}
	}
	c.touchLeader()
	return true
}

// touchLeader sets the fetch timer back: the leader has answered.
func (c *Core) touchLeader() {
	if c.mayStand() {
		c.timer = c.now.Mono.Add(c.opts.FetchTimeout)
		c.follow.fetched = true
	}
}

// snapshotSealed loads a snapshot that is durable now. It holds committed
// records only; so it may be loaded whoever leads meanwhile, unless we do, or
// have passed it.
func (c *Core) snapshotSealed(e SnapshotSealed) {
	if e.ID != c.sealing {
		return
	}
	c.sealing = kafka.OffsetAndEpoch{}
	if e.Bad || c.role == Leader || e.ID.Offset <= max(c.hw, c.log.start.Offset) {
		return
	}
	id := e.ID
	c.log.reset(id)
	c.history.reset(e.Control)
	c.out.LoadSnapshot = &id
	c.setHighWatermark(id.Offset)
}
