package seglog

import (
	"errors"
	"fmt"
	"io/fs"

	"moldau/internal/kafka"
	"moldau/internal/producerstate"
	"moldau/internal/vfs"
)

// FlushJob makes durable what a log held when it was prepared. Run may be
// called on any goroutine, without the owner's lock, beside appends.
type FlushJob struct {
	log         *Log
	end         kafka.Offset
	truncations uint32
	segs        []*segment // to be synced
	all         []*segment
	side        []kafka.Offset // segments whose side files must be synced
	snapshots   []kafka.Offset
	epochs      *epochs
	namesGen    uint64
	writeEpochs bool
	syncDir     bool
	syncParent  bool
	err         error
	full        bool // err is a full disk and has cost nothing: try again
	ran         bool
}

// PrepareFlush captures what a flush must do. Owner only. The job must be run
// before the log is closed.
func (l *Log) PrepareFlush() *FlushJob {
	j := &FlushJob{
		log: l, end: l.EndOffset(), truncations: l.truncations,
		epochs: l.epochs.Load(), writeEpochs: l.epochsDirty,
		namesGen: l.namesGen.Load(), syncParent: l.newDir,
	}
	segs := l.list()
	j.all = segs
	if j.end > l.recoveryPoint {
		j.segs = segs[max(floorSegment(segs, l.recoveryPoint), 0):]
	}
	for _, s := range segs {
		if s.saved && !s.synced {
			j.side = append(j.side, s.base)
		}
	}
	for _, o := range l.snapshots {
		if o > l.snapSynced {
			j.snapshots = append(j.snapshots, o)
		}
	}
	j.syncDir = j.namesGen != l.namesSynced || j.writeEpochs
	return j
}

// EndOffset is what the recovery point will be when the job is done.
func (j *FlushJob) EndOffset() kafka.Offset { return j.end }

// Run syncs. After an error the log must go offline (FlushDone sees to it): a
// second fsync would not say what the first one lost.
func (j *FlushJob) Run() error {
	j.ran = true
	j.err = j.run()
	j.full = j.full || vfs.NoDescriptor(j.err)
	return j.err
}

func (j *FlushJob) run() error {
	l := j.log
	for _, s := range j.segs {
		if err := l.datasync(s); err != nil {
			return err
		}
	}
	for _, o := range j.side {
		for _, ext := range []string{extIndex, extTime, extTxn} {
			if err := syncFile(l.fs(), l.path(o, ext)); err != nil {
				return err
			}
		}
	}
	for _, o := range j.snapshots {
		if err := syncFile(l.fs(), l.path(o, extSnapshot)); err != nil {
			return err
		}
	}
	if j.writeEpochs {
		if err := vfs.WriteFileAtomic(l.fs(), l.Dir()+"/"+epochFile, j.epochs.appendTo(nil)); err != nil {
			// The old file is still there, and what was synced before is durable.
			j.full = vfs.Exhausted(err)
			return err
		}
	} else if j.syncDir {
		if err := l.fs().SyncDir(l.Dir()); err != nil {
			return err
		}
	}
	if j.syncParent {
		return l.fs().SyncDir(parentDir(l.Dir()))
	}
	return nil
}

func (l *Log) datasync(s *segment) error {
	h, err := l.env.Files.acquire(s, l.Dir())
	if errors.Is(err, fs.ErrNotExist) && s.gone.Load() {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.unpin()
	return h.file.Datasync()
}

// FlushDone takes in the result of a job that has run: the recovery point moves,
// or the log goes offline; after a full disk (ENOSPC) it stays as it was, if
// nothing was lost by that. A job that was prepared before a truncation moves
// nothing. Owner only.
func (l *Log) FlushDone(j *FlushJob) error {
	if !j.ran {
		panic("seglog: FlushDone of a job that has not run")
	}
	if j.full {
		return fmt.Errorf("%s: flush: %w", l.Dir(), j.err)
	}
	if j.err != nil {
		return l.fail(fmt.Errorf("flush: %w", j.err))
	}
	l.namesSynced = max(l.namesSynced, j.namesGen)
	l.newDir = l.newDir && !j.syncParent
	for _, s := range j.all {
		s.named = true
	}
	if l.epochs.Load() == j.epochs && j.writeEpochs {
		l.epochsDirty = false
	}
	if j.truncations != l.truncations {
		return nil
	}
	for _, o := range j.snapshots {
		l.snapSynced = max(l.snapSynced, o)
	}
	for _, o := range j.side {
		segs := l.list()
		if i := floorSegment(segs, o); i >= 0 && segs[i].base == o && segs[i].saved {
			segs[i].synced = true
		}
	}
	// A segment that was rolled while the job ran has indexes that the job did
	// not sync: the recovery point stays at its base until the next flush.
	to := j.end
	segs := l.list()
	for i := max(floorSegment(segs, l.recoveryPoint), 0); i < len(segs)-1; i++ {
		if !segs[i].synced {
			to = min(to, segs[i].base)
			break
		}
	}
	l.recoveryPoint = max(l.recoveryPoint, to)
	return nil
}

// addAborted appends to the active segment's transaction index (Kafka's
// AbortedTxn, version 0). Recovery rebuilds the file, so an error only costs
// readers the abort list of this transaction until then; it takes the log
// offline rather than do that.
func (l *Log) addAborted(done producerstate.CompletedTxn) {
	if err := l.appendTxnIndex(l.active().base, done); err != nil {
		l.fail(err)
	}
}
