package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// TruncateTo removes everything from offset on and returns the new end: the end
// of the last batch that lies below offset as a whole. So it is less than offset
// if offset lies inside a batch or a gap: what the files cannot say would not
// survive a restart. At or beyond the end it does nothing. The log start falls to
// the new end if it was above.
//
// If the new end (TruncationEnd tells it) is below the recovery point, the owner
// must write a recovery point checkpoint with it first: recovery takes damage
// below the checkpoint for corruption. The cut is durable on return. Owner only;
// the files of removed segments are deleted by the jobs.
func (l *Log) TruncateTo(offset kafka.Offset, now kafka.WallMs) (end kafka.Offset, jobs []RemovalJob, err error) {
	if err := l.usable(); err != nil {
		return 0, nil, err
	}
	if offset >= l.EndOffset() {
		return l.EndOffset(), nil, nil
	}
	segs := l.list()
	if offset < segs[0].base {
		jobs, err = l.TruncateFully(offset, now)
		return offset, jobs, err
	}
	swapped, err := l.ResumeSwap()
	if err != nil {
		return 0, swapped, err
	}
	defer func() { jobs = append(jobs, swapped...) }()
	keep := floorSegment(segs, offset)
	s := segs[keep]
	ix, err := l.indexOf(s)
	if err != nil {
		return 0, nil, err
	}
	pos, end, err := l.cutPosition(s, ix, offset)
	if err != nil {
		return 0, nil, err
	}
	l.truncations++
	if jobs, err = l.removeBehind(segs, keep, now); err != nil {
		return 0, jobs, l.fail(err)
	}
	if err := l.cut(s, ix, pos, end); err != nil {
		return 0, jobs, l.fail(err)
	}
	if err := l.truncated(end, now); err != nil {
		return 0, jobs, l.fail(err)
	}
	return end, jobs, nil
}

// TruncationEnd tells where TruncateTo(offset) would make the log end.
func (l *Log) TruncationEnd(offset kafka.Offset) (kafka.Offset, error) {
	if offset >= l.EndOffset() {
		return l.EndOffset(), nil
	}
	segs := l.list()
	if offset < segs[0].base {
		return offset, nil
	}
	s := segs[floorSegment(segs, offset)]
	ix, err := l.indexOf(s)
	if err != nil {
		return 0, err
	}
	_, end, err := l.cutPosition(s, ix, offset)
	return end, err
}

// cutPosition finds the first batch that reaches to offset, and the end of the
// one before it.
func (l *Log) cutPosition(s *segment, ix *indexes, offset kafka.Offset) (pos int64, end kafka.Offset, err error) {
	size := s.size.Load()
	if size == 0 {
		return 0, s.base, nil
	}
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return 0, 0, err
	}
	defer h.unpin()
	end = s.base
	w := newWalker(h.file, ix.floorOffset(int64(offset-1-s.base)), size, make([]byte, scanChunk))
	for {
		e, err := w.next()
		if err == io.EOF {
			return size, end, nil
		}
		if err != nil {
			return 0, 0, l.corrupt(s, w.pos, offset, err)
		}
		if e.last >= offset {
			return e.pos, end, nil
		}
		end = e.next()
	}
}

// removeBehind renames the segments behind keep, the last one first, each made
// durable before the next: no crash may leave a hole in the log.
func (l *Log) removeBehind(segs []*segment, keep int, now kafka.WallMs) (jobs []RemovalJob, err error) {
	kept := segs[: keep+1 : keep+1]
	gone := segs[keep+1:]
	if len(gone) == 0 {
		return nil, nil
	}
	// Readers must find an end that the shorter list agrees with.
	l.end.Store(int64(min(l.EndOffset(), gone[0].base)))
	l.segs.Store(&kept)
	l.tail.Store(nil)
	for _, s := range slices.Backward(gone) {
		job, err := l.markDeleted(s, now)
		if err != nil {
			return jobs, err
		}
		jobs = append(jobs, job)
		if err := l.fs().SyncDir(l.Dir()); err != nil {
			return jobs, err
		}
	}
	return jobs, nil
}

// cut shortens what has become the active segment.
func (l *Log) cut(s *segment, ix *indexes, pos int64, end kafka.Offset) error {
	l.env.Files.activate(s, ix.truncated(int64(end-s.base)))
	l.tail.Store(nil)
	s.size.Store(pos)
	l.end.Store(int64(end))
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return err
	}
	defer h.unpin()
	if err := truncateFile(h.file, pos); err != nil {
		return err
	}
	s.saved, s.synced = false, false
	s.sinceIndex = 0
	s.maxTs.Store(tsUnknown)
	s.maxTsLast = s.base
	if pos == 0 {
		s.maxTs.Store(int64(kafka.NoTimestamp))
		s.firstTs = tsUnknown
	}
	return l.truncateTxnIndex(s, end)
}

// truncateFile cuts a segment, durably: the segment may be rolled right away, and
// then lies below the recovery point, where recovery does not look for old
// batches that a power loss brought back.
func truncateFile(f vfs.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Datasync()
}

// truncated adjusts what hangs on the log after its end has fallen.
func (l *Log) truncated(end kafka.Offset, now kafka.WallMs) error {
	l.start.Store(min(l.start.Load(), int64(end)))
	l.recoveryPoint = min(l.recoveryPoint, end)
	l.cleanedTo = min(l.cleanedTo, end)
	list, changed := l.epochList().truncateEnd(end)
	l.setEpochs(list, changed)
	l.snapSynced = min(l.snapSynced, end)
	if err := l.dropSnapshots(func(o kafka.Offset) bool { return o > end }); err != nil {
		return err
	}
	if l.producers.EndOffset() == end {
		return nil
	}
	if _, err := l.loadNewestSnapshot(l.StartOffset(), now); err != nil {
		return err
	}
	return l.replayProducers(end)
}

// TruncateFully removes everything and goes on, empty, at newStart: for a
// follower whose log its leader no longer has, or a snapshot that replaces the
// log. Producers and leader epochs are forgotten. As with TruncateTo, the owner
// lowers the recovery point checkpoint first. Owner only.
func (l *Log) TruncateFully(newStart kafka.Offset, now kafka.WallMs) ([]RemovalJob, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	jobs, err := l.ResumeSwap()
	if err != nil {
		return nil, err
	}
	l.truncations++
	segs := l.list()
	for _, s := range slices.Backward(segs) {
		job, err := l.markDeleted(s, now)
		if err != nil {
			return jobs, l.fail(err)
		}
		jobs = append(jobs, job)
		if err := l.fs().SyncDir(l.Dir()); err != nil {
			return jobs, l.fail(err)
		}
	}
	s, err := l.createSegment(newStart, now)
	if err != nil {
		return jobs, l.fail(err)
	}
	l.start.Store(int64(newStart))
	l.end.Store(int64(newStart))
	l.segs.Store(&[]*segment{s})
	l.tail.Store(nil)
	l.recoveryPoint = min(l.recoveryPoint, newStart)
	l.cleanedTo = min(l.cleanedTo, newStart)
	l.setEpochs(nil, true)
	l.snapSynced = 0
	if err := l.dropSnapshots(func(kafka.Offset) bool { return true }); err != nil {
		return jobs, l.fail(err)
	}
	l.producers.Reset(newStart)
	return jobs, nil
}

// AdvanceStart moves the log start up: DeleteRecords, a leader's log start, a
// snapshot of the metadata log. Retain deletes the segments that fall below. The
// owner writes the log start checkpoint. Owner only.
func (l *Log) AdvanceStart(start kafka.Offset) error {
	if err := l.usable(); err != nil {
		return err
	}
	if start > l.EndOffset() {
		return fmt.Errorf("%s: log start %d: %w, the log ends at %d", l.Dir(), start, ErrOffsetOutOfRange, l.EndOffset())
	}
	if start <= l.StartOffset() {
		return nil
	}
	l.start.Store(int64(start))
	list, changed := l.epochList().truncateStart(start)
	l.setEpochs(list, changed)
	l.producers.LogStart(start)
	return nil
}

// markDeleted renames a segment's files to .deleted at once, so that a later
// file of the same name is another one (HC-121).
func (l *Log) markDeleted(s *segment, now kafka.WallMs) (RemovalJob, error) {
	job, steps := l.retire(s, now)
	for _, step := range steps {
		err := l.fs().Rename(l.Dir()+"/"+step.from, l.Dir()+"/"+step.to)
		if errors.Is(err, fs.ErrNotExist) && (!hasSuffix(step.from, extLog) || s.unborn.Load()) {
			continue
		}
		if err != nil {
			return job, err
		}
	}
	return job, nil
}

// retire takes a segment out of use. The steps rename its files, of which some may
// not be there; the job deletes them then.
func (l *Log) retire(s *segment, now kafka.WallMs) (RemovalJob, []swapStep) {
	s.gone.Store(true)
	job := RemovalJob{fs: l.fs(), DueMs: now + kafka.WallMs(l.config.Load().FileDeleteDelayMs)}
	l.env.Files.drop(s)
	l.namesGen.Add(1)
	exts := []string{extLog, extIndex, extTime, extTxn}
	if i, ok := slices.BinarySearch(l.snapshots, s.base); ok {
		l.snapshots = slices.Delete(slices.Clone(l.snapshots), i, i+1)
		exts = append(exts, extSnapshot)
	}
	var steps []swapStep
	for _, ext := range exts {
		from := fileName(s.base, ext)
		steps = append(steps, swapStep{from, from + extDeleted})
		job.Files = append(job.Files, l.path(s.base, ext)+extDeleted)
	}
	return job, steps
}
