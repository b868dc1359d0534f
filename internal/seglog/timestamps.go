package seglog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// TimestampOffset is a record found by its timestamp.
type TimestampOffset struct {
	Timestamp kafka.WallMs
	Offset    kafka.Offset
	Epoch     kafka.Epoch // of the record's batch; NoEpoch for old formats
}

// lastTimestamp finds the largest timestamp of a segment, and the last offset of
// the batch that has it: the last time index entry, or a later batch.
func (l *Log) lastTimestamp(s *segment, ix *indexes) (kafka.WallMs, kafka.Offset, error) {
	ts, rel := ix.lastTime()
	last := s.base + kafka.Offset(rel)
	size := s.size.Load()
	if size == 0 {
		return ts, last, nil
	}
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return 0, 0, err
	}
	defer h.unpin()
	buf := l.env.Files.buffer()
	defer l.env.Files.release(buf)
	w := newWalker(h.file, ix.lastPosition(), size, *buf)
	for {
		e, err := w.next()
		if err == io.EOF {
			return ts, last, nil
		}
		if err != nil {
			return 0, 0, l.corrupt(s, w.pos, last, err)
		}
		if e.maxTs > ts {
			ts, last = e.maxTs, e.last
		}
	}
}

// largestTimestamp is the cached form of lastTimestamp, for any caller.
func (l *Log) largestTimestamp(s *segment) (kafka.WallMs, error) {
	if ts := s.maxTs.Load(); ts != tsUnknown {
		return kafka.WallMs(ts), nil
	}
	ix, err := l.indexOf(s)
	if err != nil {
		return 0, err
	}
	ts, _, err := l.lastTimestamp(s, ix)
	if err == nil && !s.active.Load() {
		s.maxTs.Store(int64(ts))
	}
	return ts, err
}

// OffsetForTimestamp finds the first record at or beyond the log start whose
// timestamp is ≥ ts and whose offset is below upper. ok is false if there is
// none. (UnifiedLog.fetchOffsetByTimestamp.)
func (l *Log) OffsetForTimestamp(ts kafka.WallMs, upper kafka.Offset) (TimestampOffset, bool, error) {
	return l.steadily(func(segs []*segment) (TimestampOffset, bool, error) { return l.offsetForTimestamp(segs, ts, upper) })
}

// steadily starts a search over when segments were replaced or deleted under it.
func (l *Log) steadily(search func([]*segment) (TimestampOffset, bool, error)) (TimestampOffset, bool, error) {
	for attempt := 1; ; attempt++ {
		segs := l.segs.Load()
		found, ok, err := search(*segs)
		if errors.Is(err, fs.ErrNotExist) && attempt < maxReadAttempts && l.segs.Load() != segs {
			continue
		}
		return found, ok, err
	}
}

func (l *Log) offsetForTimestamp(segs []*segment, ts kafka.WallMs, upper kafka.Offset) (TimestampOffset, bool, error) {
	from := l.StartOffset()
	for _, s := range segs {
		if s.base >= upper {
			break
		}
		largest, err := l.largestTimestamp(s)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if largest < ts {
			continue
		}
		found, ok, err := l.searchTimestamp(s, ts, from)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if ok {
			return found, found.Offset < upper, nil
		}
	}
	return TimestampOffset{}, false, nil
}

// MaxTimestamp finds the first record with the largest timestamp of the log,
// ListOffsets' −3 (KIP-734). ok is false if the log holds no record.
func (l *Log) MaxTimestamp() (TimestampOffset, bool, error) { return l.steadily(l.maxTimestampIn) }

func (l *Log) maxTimestampIn(segs []*segment) (best TimestampOffset, ok bool, err error) {
	type candidate struct {
		s       *segment
		largest kafka.WallMs
	}
	var list []candidate
	for _, s := range segs {
		ts, err := l.largestTimestamp(s)
		if err != nil {
			return best, false, err
		}
		list = append(list, candidate{s, ts})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.largest, a.largest) })
	best.Timestamp = kafka.NoTimestamp
	for _, c := range list {
		if c.largest <= best.Timestamp {
			break
		}
		found, there, err := l.largestRecord(c.s, c.largest)
		if err != nil {
			return best, false, err
		}
		if there && found.Timestamp > best.Timestamp {
			best, ok = found, true
		}
	}
	return best, ok, nil
}

// largestRecord finds the first record with the largest timestamp of a segment.
// That may be less than ts, the largest that a batch claims: compaction keeps
// batches without their records, and the log start may lie behind the record.
// (Kafka then finds none.)
func (l *Log) largestRecord(s *segment, ts kafka.WallMs) (TimestampOffset, bool, error) {
	from := l.StartOffset()
	for ts > kafka.NoTimestamp {
		found, ok, err := l.searchTimestamp(s, ts, from)
		if ok || err != nil {
			return found, ok, err
		}
		if ts, err = l.largestBelow(s, ts, from); err != nil {
			return found, false, err
		}
	}
	return TimestampOffset{}, false, nil
}

// largestBelow is the largest timestamp less than ts of a batch that has records
// at or beyond from; else NoTimestamp.
func (l *Log) largestBelow(s *segment, ts kafka.WallMs, from kafka.Offset) (kafka.WallMs, error) {
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return 0, err
	}
	defer h.unpin()
	largest := kafka.NoTimestamp
	w := newWalker(h.file, 0, s.size.Load(), make([]byte, scanChunk))
	for {
		e, err := w.next()
		if err == io.EOF {
			return largest, nil
		}
		if err != nil {
			return 0, l.corrupt(s, w.pos, from, err)
		}
		if !e.empty && e.last >= from && e.maxTs < ts {
			largest = max(largest, e.maxTs)
		}
	}
}

func (l *Log) searchTimestamp(s *segment, ts kafka.WallMs, from kafka.Offset) (TimestampOffset, bool, error) {
	ix, err := l.indexOf(s)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	rel := max(int64(ix.floorTime(ts-1)), int64(from-s.base))
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return TimestampOffset{}, false, err
	}
	defer h.unpin()
	size, end := s.size.Load(), l.EndOffset()
	w := newWalker(h.file, ix.floorOffset(rel), size, make([]byte, scanChunk))
	for {
		e, err := w.next()
		if err == io.EOF {
			return TimestampOffset{}, false, nil
		}
		if err != nil {
			return TimestampOffset{}, false, l.corrupt(s, w.pos, from, err)
		}
		if e.empty || e.maxTs < ts || e.last < from || e.last >= end {
			continue
		}
		found, ok, err := l.searchBatch(h, &e, ts, from)
		if err != nil || ok {
			return found, ok, err
		}
	}
}

// searchBatch finds the first record of one batch. ErrCorrupt says that its records
// cannot be read, which a codec may find that is not the one that wrote them.
func (l *Log) searchBatch(h *handle, e *entry, ts kafka.WallMs, from kafka.Offset) (found TimestampOffset, ok bool, err error) {
	if e.size > maxEntryBytes {
		return found, false, fmt.Errorf("%w: batch of %d bytes", batch.ErrCorrupt, e.size)
	}
	b := make(batch.Batch, e.size)
	if _, err := h.file.ReadAt(b, e.pos); err != nil {
		return found, false, err
	}
	if e.magic < 2 {
		found, ok := searchOld(batch.Old(b), e, ts, from)
		return found, ok, nil
	}
	var w batch.Workspace
	err = w.EachStamp(b, func(at kafka.Offset, stamp kafka.WallMs) bool {
		if ok = stamp >= ts && at >= from; ok {
			found = TimestampOffset{Timestamp: stamp, Offset: at, Epoch: e.epoch}
		}
		return !ok
	})
	if err != nil {
		return found, false, fmt.Errorf("%s at offset %d: %w", l.Dir(), e.base, err)
	}
	return found, ok, nil
}

// maxOldLookupBytes bounds what a set of format v1 may expand to when a timestamp is
// looked for in it.
const maxOldLookupBytes = 64 << 20

var errFound = errors.New("found")

// searchOld finds the first message of an entry of format v0 or v1. Of a set that
// cannot be read, or is too large to look into, it gives the last one, with the
// timestamp that the set has.
func searchOld(o batch.Old, e *entry, ts kafka.WallMs, from kafka.Offset) (found TimestampOffset, ok bool) {
	var w batch.Workspace
	err := o.Each(&w, maxOldLookupBytes, func(m batch.Message) error {
		if m.Timestamp >= ts && m.Offset >= from {
			found = TimestampOffset{Timestamp: m.Timestamp, Offset: m.Offset, Epoch: kafka.NoEpoch}
			return errFound
		}
		return nil
	})
	switch err {
	case nil:
		return TimestampOffset{}, false
	case errFound:
		return found, true
	}
	return TimestampOffset{Timestamp: e.maxTs, Offset: e.last, Epoch: kafka.NoEpoch}, true
}
