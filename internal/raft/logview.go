package raft

import (
	"slices"

	"moldau/internal/kafka"
)

// logView is what the core knows of its log: where it starts and ends, which
// epoch holds which offsets, and how far it is on disk. The shell's log holds
// the same, because it does exactly what Effects say.
type logView struct {
	// start is the log start offset with the epoch of the snapshot that ends
	// there; {0, 0} for a log that was never trimmed.
	start kafka.OffsetAndEpoch
	// snapshot is the newest snapshot that may be offered to others;
	// Offset 0 if there is none (the 0-0 checkpoint is never offered).
	snapshot kafka.OffsetAndEpoch
	// epochs holds the first offset of each epoch in the log, both rising.
	epochs []kafka.OffsetAndEpoch
	end    kafka.Offset
	// flushed: everything below is on disk.
	flushed kafka.Offset
	// flight is the flush that runs; Seq 0 if none does.
	flight Flush
	seq    uint64
}

// lastEpoch is the epoch of the last record, or of the snapshot if the log is
// empty, or 0 (Kafka's lastFetchedEpoch).
func (l *logView) lastEpoch() kafka.Epoch {
	if n := len(l.epochs); n > 0 {
		return l.epochs[n-1].Epoch
	}
	return l.start.Epoch
}

// epochBefore is the epoch of the record just before offset o, that is, of the
// last record of a log that ends at o.
func (l *logView) epochBefore(o kafka.Offset) kafka.Epoch {
	for i := len(l.epochs) - 1; i >= 0; i-- {
		if l.epochs[i].Offset < o {
			return l.epochs[i].Epoch
		}
	}
	return l.start.Epoch
}

// endFor gives the largest epoch ≤ epoch that the log holds and the offset
// where it ends.
func (l *logView) endFor(epoch kafka.Epoch) kafka.OffsetAndEpoch {
	next := l.end
	for i := len(l.epochs) - 1; i >= 0; i-- {
		if l.epochs[i].Epoch <= epoch {
			return kafka.OffsetAndEpoch{Offset: next, Epoch: l.epochs[i].Epoch}
		}
		next = l.epochs[i].Offset
	}
	return kafka.OffsetAndEpoch{Offset: next, Epoch: l.start.Epoch}
}

func (l *logView) append(base, last kafka.Offset, epoch kafka.Epoch) {
	if len(l.epochs) == 0 || l.epochs[len(l.epochs)-1].Epoch != epoch {
		l.epochs = append(l.epochs, kafka.OffsetAndEpoch{Offset: base, Epoch: epoch})
	}
	l.end = last + 1
}

// truncate cuts the log. A flush in flight is worth only what survives the cut,
// even if the same epoch is written again at the same offset.
func (l *logView) truncate(to kafka.Offset) {
	i := len(l.epochs)
	for i > 0 && l.epochs[i-1].Offset >= to {
		i--
	}
	l.epochs = slices.Clip(l.epochs[:i])
	l.end = min(l.end, to)
	l.flushed = min(l.flushed, to)
	if l.flight.Seq != 0 && l.flight.Offset > to && !mutantStaleCompletion {
		l.flight.Offset, l.flight.Epoch = to, l.epochBefore(to)
	}
}

// reset drops everything: the log now begins where the snapshot ends. A flush
// in flight is worth nothing any more.
func (l *logView) reset(id kafka.OffsetAndEpoch) {
	l.start, l.snapshot, l.epochs = id, id, nil
	l.end, l.flushed = id.Offset, id.Offset
	l.flight.Offset, l.flight.Epoch = 0, 0
}

// startFlush begins a flush of all that is not on disk, unless one runs.
func (l *logView) startFlush() (Flush, bool) {
	if l.flight.Seq != 0 || l.flushed >= l.end {
		return Flush{}, false
	}
	l.seq++
	l.flight = Flush{Seq: l.seq, Offset: l.end, Epoch: l.lastEpoch()}
	return l.flight, true
}

// flushDone takes a completion. It counts only for the flush that runs, up to
// what no cut has taken back, and only if the log still has that epoch there
// (HC-014).
func (l *logView) flushDone(done Flush) bool {
	if l.flight.Seq == 0 || done.Seq != l.flight.Seq {
		return false
	}
	upTo := l.flight
	l.flight = Flush{}
	if mutantStaleCompletion {
		l.flushed = max(l.flushed, min(done.Offset, l.end))
		return true
	}
	if upTo.Offset > l.end || l.epochBefore(upTo.Offset) != upTo.Epoch || upTo.Offset <= l.flushed {
		return false
	}
	l.flushed = upTo.Offset
	return true
}

// validity of a follower's position, as seen by the leader.
type validity int8

const (
	posValid validity = iota
	posDiverging
	posSnapshot
)

// validate compares a follower's (offset, epoch of the record before it) with
// the log (ReplicatedLog.validateOffsetAndEpoch). For posDiverging it gives
// where the follower's epoch ends here, for posSnapshot what to load.
func (l *logView) validate(offset kafka.Offset, epoch kafka.Epoch) (validity, kafka.OffsetAndEpoch) {
	if offset == 0 && l.snapshot.Offset > 0 {
		return posSnapshot, l.snapshot // quicker than reading the whole log
	}
	if l.start.Offset == 0 && offset == 0 && epoch == 0 {
		return posValid, kafka.OffsetAndEpoch{}
	}
	if l.snapshot.Offset > 0 && (offset < l.start.Offset ||
		!mutantSnapshotEpoch && (offset == l.start.Offset && l.start.Offset != 0 && epoch != l.start.Epoch ||
			epoch < l.start.Epoch)) {
		return posSnapshot, l.snapshot
	}
	end := l.endFor(epoch)
	if end.Epoch != epoch || end.Offset < offset {
		return posDiverging, end
	}
	return posValid, kafka.OffsetAndEpoch{}
}

// cutFor gives where a follower cuts its log when the leader says that the
// epoch at.Epoch ends at at.Offset (ReplicatedLog.truncateToEndOffset).
func (l *logView) cutFor(at kafka.OffsetAndEpoch) kafka.Offset {
	if at.Epoch == 0 && len(l.epochs) == 0 {
		return min(at.Offset, l.end)
	}
	local := l.endFor(at.Epoch)
	if local.Epoch == at.Epoch {
		return min(local.Offset, at.Offset)
	}
	return local.Offset
}
