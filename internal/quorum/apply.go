package quorum

import (
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
)

// LeaderChanged implements App.
func (q *Replica) LeaderChanged(l raft.LeaderAndEpoch) {
	q.noteVoters()
	q.leader.Store(&l)
	if l.Leader != kafka.NoNode && l.Leader != q.opts.Raft.Self.ID {
		q.lostLeader = nil
	}
	if q.opts.LeaderChanged != nil {
		q.opts.LeaderChanged(l)
	}
}

// noteVoters makes the voters visible to Voters.
func (q *Replica) noteVoters() {
	set, _ := q.core.VotersAt(q.core.EndOffset())
	q.voters.Store(&set)
}

// Resigned implements App: what is pending may or may not survive.
func (q *Replica) Resigned(kafka.Epoch) { q.revert() }

// Led implements App; step goes on with lead once the effects are performed.
func (q *Replica) Led(epoch kafka.Epoch) { q.newLed = &epoch }

// Committed implements App: it publishes what has become committed, from the
// pending entries of a leader or else by reading the log, then releases
// replies.
func (q *Replica) Committed(hw kafka.Offset) error {
	applied := q.image.Load().Provenance().EndOffset
	for applied < hw {
		if len(q.pending) == 0 || q.pending[0].base != applied {
			to := hw
			if len(q.pending) > 0 {
				to = min(to, q.pending[0].base)
			}
			if err := q.replay(applied, to); err != nil {
				return err
			}
		} else {
			p := q.pending[0]
			if p.end > hw {
				return fmt.Errorf("high watermark %d lies inside the batch %d to %d", hw, p.base, p.end)
			}
			q.pending[0] = appended{}
			q.pending = q.pending[1:]
			q.publish(p.delta, p.image, p.bytes)
		}
		now := q.image.Load().Provenance().EndOffset
		if now <= applied {
			return fmt.Errorf("replay of the metadata log stands still at offset %d, %d is committed", applied, hw)
		}
		applied = now
	}
	if q.led == kafka.NoEpoch {
		q.tip = q.image.Load()
	}
	q.noteVoters()
	q.release()
	q.maybeSnapshot()
	return nil
}

// replayBytes is how much of the log one delta takes in at most, roughly.
const replayBytes = 4 << 20

// replay reads [from, to) of the log into deltas and publishes each.
func (q *Replica) replay(from, to kafka.Offset) error {
	base := q.image.Load()
	delta, p, size := metadata.NewDelta(base), base.Provenance(), 0
	flush := func() {
		q.publish(delta, delta.Apply(p), size)
		delta, size = metadata.NewDelta(q.image.Load()), 0
	}
	err := q.store.Batches(from, to, func(b raft.Batch) error {
		if b.Last >= to {
			return fmt.Errorf("offset %d lies inside the batch %d to %d", to, b.Base, b.Last)
		}
		if size > replayBytes {
			flush()
		}
		view := batch.Batch(b.Bytes)
		if err := replayBatch(delta, view); err != nil {
			return fmt.Errorf("metadata log, batch at offset %d: %w", b.Base, err)
		}
		p = metadata.Provenance{EndOffset: b.Last + 1, Epoch: b.Epoch, TimestampMs: view.MaxTimestamp()}
		size += len(b.Bytes)
		return nil
	})
	if err != nil {
		return err
	}
	flush()
	return nil
}

// replayBatch replays the records of a batch; control records concern raft only.
func replayBatch(delta *metadata.Delta, b batch.Batch) error {
	if b.Control() {
		return nil
	}
	return b.EachRecord(func(r *batch.Record) error {
		m, _, err := record.DecodeMetadata(r.Value)
		if err != nil {
			return err
		}
		return delta.Replay(m)
	})
}

// publish makes an image the committed one: pointer first, then subscribers.
func (q *Replica) publish(delta *metadata.Delta, img *metadata.Image, bytes int) {
	q.image.Store(img)
	q.snap.applied(img.Provenance(), bytes, q.opts.Clock())
	for _, f := range q.subscribers {
		f(delta, img)
	}
}
