package seglog

import (
	"errors"
	"fmt"
	"io"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/producerstate"
	"moldau/internal/vfs"
)

// maxRelative is how far an offset may lie from its segment's base.
const maxRelative = 1<<31 - 1

// Append writes batches at the end of the log, in one write. Offsets and leader
// epochs must be set; each batch begins at or beyond the end of the one before.
// The batches are in the page cache afterwards, visible to readers, and taken in
// by the producer state and the leader epochs. On an error the log is as before;
// if even that failed, it is offline. The batches are not kept.
//
// A segment is rolled first if the batches would not fit, if it is too old
// (segment.ms, by timestamps), or if its indexes are full. Owner only.
func (l *Log) Append(now kafka.WallMs, batches ...batch.Batch) error {
	if err := l.usable(); err != nil {
		return err
	}
	if len(batches) == 0 {
		return nil
	}
	size, maxTs, err := l.checkBatches(batches)
	if err != nil {
		return err
	}
	first, last := batches[0], batches[len(batches)-1]
	if err := l.loadActive(); err != nil {
		return err
	}
	s := l.active()
	if l.shouldRoll(s, now, size, maxTs, last.LastOffset()) {
		// Kafka begins the new segment at the first batch. Ours begins at the end
		// of the old one even if offsets are skipped, so that recovery can tell a
		// lost tail from a gap.
		base := l.EndOffset()
		if last.LastOffset()-base > maxRelative {
			base = first.BaseOffset()
		}
		if err := l.roll(now, base); err != nil {
			return err
		}
		s = l.active()
	}
	if err := l.write(s, batches, size); err != nil {
		return err
	}
	l.accept(s, batches, size)
	return nil
}

func (l *Log) checkBatches(batches []batch.Batch) (size int64, maxTs kafka.WallMs, err error) {
	next := l.EndOffset()
	maxTs = kafka.NoTimestamp
	for _, b := range batches {
		if len(b) < batch.HeaderSize || b.Size() != len(b) {
			return 0, 0, fmt.Errorf("%s: append: %w: %d bytes", l.Dir(), batch.ErrCorrupt, len(b))
		}
		if b.BaseOffset() < next || b.LastOffsetDelta() < 0 {
			return 0, 0, fmt.Errorf("%s: %w: offsets %d to %d, want %d", l.Dir(), ErrOutOfOrder, b.BaseOffset(), b.LastOffset(), next)
		}
		next = b.NextOffset()
		size += int64(len(b))
		maxTs = max(maxTs, b.MaxTimestamp())
	}
	return size, maxTs, nil
}

// shouldRoll is LogSegment.shouldRoll.
func (l *Log) shouldRoll(s *segment, now kafka.WallMs, size int64, maxTs kafka.WallMs, last kafka.Offset) bool {
	c := l.config.Load()
	have := s.size.Load()
	if last-s.base > maxRelative {
		return true
	}
	if have == 0 {
		return false
	}
	waited := int64(now - s.createdMs)
	if s.firstTs >= 0 {
		waited = int64(maxTs - s.firstTs)
	}
	ix := s.index.Load()
	return have > min(c.SegmentBytes, maxSegmentBytes)-size ||
		waited > c.SegmentMs-s.jitterMs ||
		ix.offsets.n.Load() > c.SegmentIndexBytes-offsetEntry || ix.times.n.Load() > c.SegmentIndexBytes-timeEntry
}

// write puts the batches behind the segment's end, all or nothing.
func (l *Log) write(s *segment, batches []batch.Batch, size int64) error {
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return err
	}
	defer h.unpin()
	if s.unborn.Load() {
		s.unborn.Store(false)
		l.namesGen.Add(1)
	}
	at := s.size.Load()
	var n int
	if len(batches) == 1 {
		n, err = h.file.WriteAt(batches[0], at)
	} else {
		l.scratch = l.scratch[:0]
		for _, b := range batches {
			l.scratch = append(l.scratch, b)
		}
		n, err = h.file.WriteVecAt(l.scratch, at)
		clear(l.scratch)
	}
	if err == nil && int64(n) < size {
		err = io.ErrShortWrite
	}
	if err == nil {
		return nil
	}
	if terr := h.file.Truncate(at); terr != nil {
		return l.fail(fmt.Errorf("append: %w; and then: %w", err, terr))
	}
	return fmt.Errorf("append to %s: %w", l.path(s.base, extLog), err)
}

// accept takes in batches that are in the file.
func (l *Log) accept(s *segment, batches []batch.Batch, size int64) {
	ix := s.index.Load()
	interval := l.config.Load().IndexIntervalBytes
	at := s.size.Load()
	list := l.epochList()
	tail := l.tailFor(s)
	for _, b := range batches {
		last := b.LastOffset()
		if ts := b.MaxTimestamp(); ts > kafka.WallMs(s.maxTs.Load()) {
			s.maxTs.Store(int64(ts))
			s.maxTsLast = last
		}
		if at == 0 {
			s.firstTs = b.MaxTimestamp()
		}
		if s.sinceIndex > interval {
			ix.addOffset(int32(last-s.base), at)
			ix.addTime(kafka.WallMs(s.maxTs.Load()), int32(s.maxTsLast-s.base))
			s.sinceIndex = 0
		}
		s.sinceIndex += int64(len(b))
		at += int64(len(b))
		tail.add(last+1, at)
		if e := b.LeaderEpoch(); e > list.latest() {
			var changed bool
			list, changed = list.assign(e, b.BaseOffset())
			l.setEpochs(list, changed)
		}
		l.replay(b)
	}
	s.saved, s.synced = false, false
	// The end first: readers load the size first, and so never see bytes of
	// offsets that they do not know of.
	l.end.Store(int64(batches[len(batches)-1].NextOffset()))
	s.size.Add(size)
}

// replay updates the producer state. A control record that cannot be read was
// not checked by whoever appended it; it marks the end of no transaction.
func (l *Log) replay(b batch.Batch) {
	if b.ProducerID() == kafka.NoProducerID {
		l.producers.SetEndOffset(b.NextOffset())
		return
	}
	done, ok, err := l.producers.Replay(b)
	if err != nil {
		l.producers.SetEndOffset(b.NextOffset())
		return
	}
	if ok && done.Aborted {
		l.addAborted(done)
	}
}

// loadActive makes the active segment ready to be appended to: its indexes in
// memory, its timestamps known.
func (l *Log) loadActive() error {
	s := l.active()
	if s.index.Load() != nil && s.maxTs.Load() != tsUnknown && (s.firstTs != tsUnknown || s.size.Load() == 0) {
		return nil
	}
	ix, err := l.indexOf(s)
	if err != nil {
		return err
	}
	if s.maxTs.Load() == tsUnknown {
		ts, last, err := l.lastTimestamp(s, ix)
		if err != nil {
			return err
		}
		s.maxTsLast = last
		s.maxTs.Store(int64(ts))
	}
	if s.firstTs == tsUnknown && s.size.Load() > 0 {
		h, err := l.env.Files.acquire(s, l.Dir())
		if err != nil {
			return err
		}
		defer h.unpin()
		w := newWalker(h.file, 0, s.size.Load(), make([]byte, headBytes))
		e, err := w.next()
		if err != nil {
			return fmt.Errorf("%s: %w", l.path(s.base, extLog), err)
		}
		s.firstTs = e.maxTs
	}
	return nil
}

// Roll begins a new segment at the end offset, if the active one holds
// anything. Owner only.
func (l *Log) Roll(now kafka.WallMs) error {
	if err := l.usable(); err != nil {
		return err
	}
	if l.active().size.Load() == 0 {
		return nil
	}
	if err := l.loadActive(); err != nil {
		return err
	}
	return l.roll(now, l.EndOffset())
}

// roll closes the active segment and begins one at base.
func (l *Log) roll(now kafka.WallMs, base kafka.Offset) error {
	old := l.active()
	if base <= old.base {
		return nil // empty already, and begins there
	}
	l.producers.SetEndOffset(base) // the snapshot is named after the new segment
	if err := l.takeSnapshot(); err != nil {
		return err
	}
	if err := l.saveActive(); err != nil {
		return err
	}
	if !old.named {
		// Two rolls without a flush in between. The names must become durable in
		// order, else a power loss could leave the later segment alone.
		if err := l.fs().SyncDir(l.Dir()); vfs.NoDescriptor(err) {
			return fmt.Errorf("%s: roll: %w", l.Dir(), err) // before anything has changed
		} else if err != nil {
			return l.fail(err)
		}
		old.named = true
	}
	s, err := l.createSegment(base, now)
	if err != nil {
		return err
	}
	segs := l.list()
	next := append(segs[:len(segs):len(segs)], s)
	l.segs.Store(&next)
	l.end.Store(int64(max(l.EndOffset(), base)))
	l.tail.Store(nil)
	l.env.Files.seal(old)
	return nil
}

// createSegment makes the empty .log file of an active segment. A file of that
// name can only be what a crash left.
func (l *Log) createSegment(base kafka.Offset, now kafka.WallMs) (*segment, error) {
	f, err := l.fs().Open(l.path(base, extLog), vfs.CreateTruncate)
	if err != nil {
		return nil, err
	}
	l.namesGen.Add(1)
	s := l.emptySegment(base, now)
	l.env.Files.adoptNew(s, f)
	return s, nil
}

// firstSegment is that of a log which has never had a record. Its file comes
// with the first append, so that a partition which is only created costs no
// more than its folder.
func (l *Log) firstSegment(now kafka.WallMs) *segment {
	s := l.emptySegment(0, now)
	s.unborn.Store(true)
	return s
}

func (l *Log) emptySegment(base kafka.Offset, now kafka.WallMs) *segment {
	s := newSegment(base, 0, now)
	s.maxTs.Store(int64(kafka.NoTimestamp))
	s.active.Store(true)
	s.index.Store(&indexes{})
	if c := l.config.Load(); l.env.Jitter != nil && min(c.SegmentJitterMs, c.SegmentMs) > 0 {
		s.jitterMs = l.env.Jitter(min(c.SegmentJitterMs, c.SegmentMs))
	}
	return s
}

// seal lets the indexes of a segment that is no longer active be evicted.
func (fs *Files) seal(s *segment) {
	s.active.Store(false)
	if ix := s.index.Load(); ix != nil {
		fs.keepIndex(s, ix)
	}
}

// activate keeps the indexes of a segment in memory until it is sealed.
func (fs *Files) activate(s *segment, ix *indexes) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i, x := range fs.indexed {
		if x == s {
			fs.unindex(i)
			break
		}
	}
	s.active.Store(true)
	s.index.Store(ix)
}

// takeSnapshot writes the producer snapshot for the state's end offset, unless
// it is there.
func (l *Log) takeSnapshot() error {
	o := l.producers.EndOffset()
	if n := len(l.snapshots); n > 0 && l.snapshots[n-1] >= o || o == 0 {
		return nil
	}
	data := producerstate.AppendSnapshot(nil, l.producers.Snapshot())
	name := l.path(o, extSnapshot)
	if err := l.writeFile(name, data, false); err != nil {
		return errors.Join(err, l.fs().Remove(name))
	}
	l.snapshots = append(l.snapshots, o)
	return nil
}
