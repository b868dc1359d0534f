package quorum

import (
	"fmt"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

// snapshots decides when a snapshot is due. Its counters restart only when a
// snapshot has been made, whoever leads meanwhile (HC-036).
type snapshots struct {
	bytes int64 // applied since the newest one
	// oldest is when the oldest record that no snapshot covers was applied;
	// Never if there is none.
	oldest  kafka.Mono
	running bool
	// resume: not before; there was no room.
	resume kafka.Mono
	cfg    SnapshotConfig
}

// begin says that a snapshot of all that is applied is there.
func (s *snapshots) begin() { s.bytes, s.oldest = 0, kafka.Never }

func (s *snapshots) applied(_ metadata.Provenance, bytes int, now kafka.Now) {
	s.bytes += int64(bytes)
	s.oldest = min(s.oldest, now.Mono)
}

// deadline is when the time rule makes a snapshot due.
func (s *snapshots) deadline() kafka.Mono {
	if s.running || s.cfg.MaxIntervalMs <= 0 || s.oldest == kafka.Never {
		return kafka.Never
	}
	return max(s.resume, s.oldest.Add(time.Duration(s.cfg.MaxIntervalMs)*time.Millisecond))
}

func (s *snapshots) due(now kafka.Mono) bool {
	return !s.running && s.oldest != kafka.Never && now >= s.resume &&
		(s.cfg.MaxBytes > 0 && s.bytes >= s.cfg.MaxBytes || s.deadline() <= now)
}

// maybeSnapshot starts a snapshot of the committed image if one is due and the
// image is not inside a metadata transaction (HC-033). The image never changes,
// so that it is written on another goroutine while the loop goes on.
func (q *Replica) maybeSnapshot() {
	now := q.opts.Clock()
	img := q.image.Load()
	if q.failed != nil || !q.snap.due(now.Mono) || img.InTransaction() || img.Version() == 0 {
		if !q.snap.running && q.snap.deadline() <= now.Mono {
			q.snap.oldest = now.Mono // not possible now: try again an interval later
		}
		return
	}
	p := img.Provenance()
	id := kafka.OffsetAndEpoch{Offset: p.EndOffset, Epoch: p.Epoch}
	voters, kraft := q.core.VotersAt(id.Offset)
	w, err := q.store.NewSnapshot(id, p.TimestampMs, now.Wall, kraft, voters)
	if vfs.Exhausted(err) {
		q.putOff(err)
		return
	}
	if err != nil {
		q.fail(err)
		return
	}
	if w == nil { // there already; without this the deadline would stay in the past
		q.snap.bytes, q.snap.oldest = 0, kafka.Never
		return
	}
	q.snap.running, q.snap.bytes, q.snap.oldest = true, 0, kafka.Never
	q.exec.Background(func() error {
		err := img.WriteSnapshot(w.Add)
		if err == nil {
			err = w.Freeze()
		}
		if vfs.Exhausted(err) {
			if failed := w.Abort(); failed != nil {
				return failed
			}
		}
		return err
	}, func(err error) { q.snapshotDone(id, err) })
}

// snapshotDone offers the new snapshot and trims what it made superfluous.
func (q *Replica) snapshotDone(id kafka.OffsetAndEpoch, err error) {
	q.snap.running = false
	if vfs.Exhausted(err) {
		q.putOff(err)
		return
	}
	if err != nil {
		q.fail(fmt.Errorf("write snapshot %s: %w", snapshotName(id), err))
		return
	}
	if err := q.store.Snapshotted(id); err != nil {
		q.fail(err)
		return
	}
	if work := q.store.log.Removals(); work != nil { // what the last trim has left
		q.exec.Background(work, func(err error) {
			if err != nil {
				q.fail(err)
			}
		})
	}
	q.step(raft.SnapshotCreated{ID: id})
	start, err := q.store.Trim(q.opts.Clock().Wall, q.opts.Snapshots.RetentionBytes, q.opts.Snapshots.RetentionMs)
	if err != nil {
		q.fail(err)
		return
	}
	if start.Offset > 0 {
		q.step(raft.LogStartMoved{Start: start})
	}
}

// putOffFor is how long no snapshot is tried after one that found no room.
const putOffFor = time.Minute

// putOff does without a snapshot for now: nothing depends on it, and the log, to
// which it would only be a shortcut, has room set aside.
func (q *Replica) putOff(err error) {
	q.warn("no room for a snapshot of the metadata; the log is kept instead, and it is tried again in a minute", err)
	now := q.opts.Clock().Mono
	q.snap.resume, q.snap.oldest = now.Add(putOffFor), min(q.snap.oldest, now)
}
