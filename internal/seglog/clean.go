package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// ErrUncleanable says that a pass will fail again until settings change: not one
// batch of keys fits into the memory, a segment would grow too large, a message
// of format v0 or v1 cannot be read.
var ErrUncleanable = errors.New("log cannot be cleaned")

// ErrChanged says that the log was truncated, or lost segments, under a pass.
// Nothing is wrong; the pass is void.
var ErrChanged = errors.New("the log changed while it was cleaned")

// maxExpandedBytes is what a compressed batch may expand to in memory.
const maxExpandedBytes = 256 << 20

// CleanLimits bound the memory and the pace of a pass.
type CleanLimits struct {
	MapBytes    int64   // for the keys
	LoadFactor  float64 // how full their table may be
	BufferBytes int     // for reading, and again for writing
	// Pace is called for every piece that was read or is to be written, with its
	// size. It may wait; an error ends the pass.
	Pace func(bytes int) error
}

// CleanStats tells what a pass has done.
type CleanStats struct {
	MapBytes, ReadBytes, WrittenBytes int64
	Keys                              int
	MapMemory                         int64
	RecordsRead, RecordsKept          int64
	KeylessRecords                    int64 // dropped: no key
}

// lastRecord is the last thing that an active producer did.
type lastRecord struct {
	offset kafka.Offset // of its last data, or NoOffset
	epoch  kafka.ProducerEpoch
}

// Cleaning is one pass of compaction over the cleanable part of a log: Map, then
// Next and Log.Swap until there are no more groups, then Log.CleaningDone. It
// may run beside appends and reads, on any goroutine, but only one pass of a log
// at a time. A truncation beside it, or a Retain that takes a segment which is
// being cleaned, makes it void: ErrChanged. Its methods need no lock of the owner.
type Cleaning struct {
	log   *Log
	dir   string
	conf  *Config
	dirt  Dirt
	segs  []*segment // that may be cleaned
	now   kafka.WallMs
	last  map[kafka.ProducerID]lastRecord
	truns uint32

	limits   CleanLimits
	work     batch.Workspace
	upgraded []byte // the last one
	keys     *keyMap
	txns     *cleanedTxns
	groups   [][]*segment
	horizon  kafka.WallMs // latest of the tombstones and markers that stay
	Stats    CleanStats
}

// PrepareCleaning begins a pass over what d allows, after a swap under way was
// resumed. Owner only.
func (l *Log) PrepareCleaning(d Dirt, now kafka.WallMs) (*Cleaning, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	if l.swapping != nil {
		return nil, fmt.Errorf("%s: %w: a swap is under way", l.Dir(), ErrChanged)
	}
	if err := l.sweep(); err != nil {
		return nil, err
	}
	c := &Cleaning{log: l, dir: l.Dir(), conf: l.config.Load(), dirt: d, now: now, truns: l.truncations, last: map[kafka.ProducerID]lastRecord{}}
	segs := l.list()
	for _, s := range segs[:len(segs)-1] {
		if s.base < d.Upper {
			c.segs = append(c.segs, s)
		}
	}
	for _, e := range l.producers.Snapshot() {
		c.last[e.ProducerID] = lastRecord{e.LastOffset, e.Epoch}
	}
	return c, nil
}

// next is the offset at which what follows a segment begins.
func (c *Cleaning) next(s *segment) kafka.Offset {
	if i := floorSegment(c.segs, s.base) + 1; i < len(c.segs) {
		return c.segs[i].base
	}
	return c.dirt.Upper
}

// Map reads the dirty part and remembers the last offset of each key, as far as
// the memory goes; the pass then ends there.
func (c *Cleaning) Map(limits CleanLimits) error {
	limits.BufferBytes = max(limits.BufferBytes, 16<<10)
	c.limits = limits
	c.keys = newKeyMap(limits.MapBytes, limits.LoadFactor, max(int64(c.dirt.Upper-c.dirt.First), 0))
	c.keys.latest = c.dirt.First - 1
	c.Stats.MapMemory = int64(len(c.keys.slots)) * keySlotBytes
	c.txns = newCleanedTxns()
	aborted, err := c.log.AbortedTxns(c.dirt.First, c.dirt.Upper)
	if err != nil {
		return err
	}
	c.txns.add(aborted)
	for _, s := range c.segs {
		if c.next(s) <= c.dirt.First {
			continue
		}
		full, err := c.mapSegment(s)
		if err != nil {
			return err
		}
		if full {
			break
		}
		c.keys.latest = max(c.keys.latest, c.next(s)-1)
	}
	c.Stats.Keys = c.keys.n
	if c.End() <= c.dirt.First && !c.dirt.Expired {
		return fmt.Errorf("%s: %w: log.cleaner.dedupe.buffer.size allows %d bytes of memory, too little for the keys of the batch at offset %d",
			c.dir, ErrUncleanable, limits.MapBytes, c.dirt.First)
	}
	c.txns = newCleanedTxns()
	return c.group()
}

// End is the first offset that the pass does not clean.
func (c *Cleaning) End() kafka.Offset { return c.keys.latest + 1 }

// walk gives every batch of a segment from an offset on, checked; messages of
// format v0 and v1 as batches of format v2, as which they are written again.
func (c *Cleaning) walk(s *segment, from kafka.Offset, f func(b batch.Batch) (goOn bool, err error)) error {
	ix, err := c.log.indexOf(s)
	if err != nil {
		return void(s, err)
	}
	h, err := c.log.env.Files.acquire(s, c.log.Dir())
	if err != nil {
		return void(s, err)
	}
	defer h.unpin()
	r := newReaderOf(h.file, ix.floorOffset(int64(max(from-s.base, 0))), s.size.Load(), c.limits.BufferBytes)
	for next := s.base; ; {
		e, buf, err := r.nextWhole()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = checkCRC(&e, buf)
		}
		if err == nil {
			err = c.limits.Pace(len(buf))
		}
		if err == nil && e.magic < 2 {
			if buf, err = c.upgrade(buf, next); err != nil {
				return fmt.Errorf("%s: %w: the message of format v%d at offset %d: %v", c.log.path(s.base, extLog), ErrUncleanable, e.magic, e.base, err)
			}
		}
		goOn := false
		if err == nil {
			goOn, err = f(batch.Batch(buf))
		}
		if err != nil {
			return c.log.corrupt(s, e.pos, e.base, err)
		}
		if !goOn {
			return nil
		}
		next = e.next()
	}
}

// upgrade gives an entry of format v0 or v1 as a batch, valid until the next call.
// What cannot be read was taken from a client in a time when brokers did not look
// into it; nobody knows that the disk has damaged it, so it stays. So does a set
// that begins below next, where the one before it ends: as a batch it would say so,
// and recovery would cut the log there.
func (c *Cleaning) upgrade(entry []byte, next kafka.Offset) ([]byte, error) {
	o, _, err := batch.NextOld(entry)
	if err == nil {
		c.upgraded, err = c.work.Upgrade(c.upgraded[:0], o, maxExpandedBytes)
	}
	if err != nil {
		return nil, err
	}
	if base := batch.Batch(c.upgraded).BaseOffset(); base < next {
		return nil, fmt.Errorf("%w: the set begins at offset %d, the one before it ends at %d", batch.ErrCorrupt, base, next-1)
	}
	return c.upgraded, nil
}

// void tells a segment that was deleted meanwhile from one that has been lost.
func void(s *segment, err error) error {
	if errors.Is(err, fs.ErrNotExist) && s.gone.Load() {
		return ErrChanged
	}
	return err
}

func (c *Cleaning) mapSegment(s *segment) (full bool, err error) {
	err = c.walk(s, c.dirt.First, func(b batch.Batch) (bool, error) {
		c.Stats.MapBytes += int64(len(b))
		if b.Control() {
			if _, err := c.txns.control(b); err != nil {
				return false, err
			}
		} else if !c.txns.data(b) {
			err := c.work.EachKeyed(b, maxExpandedBytes, func(k batch.Keyed) bool {
				full = k.Key != nil && k.Offset >= c.dirt.First && !c.keys.put(k.Key, k.Offset)
				return !full
			})
			if err != nil || full {
				return false, err
			}
		}
		c.keys.latest = max(c.keys.latest, b.LastOffset())
		return true, nil
	})
	return full, err
}

// group puts neighbouring segments together as far as the results will fit into
// one segment (Cleaner.groupSegmentsBySize).
func (c *Cleaning) group() error {
	var size, offsets, times int64
	for _, s := range c.segs {
		if s.base >= c.End() {
			break
		}
		ix, err := c.log.indexOf(s)
		if err != nil {
			return void(s, err)
		}
		size += s.size.Load()
		offsets += ix.offsets.n.Load()
		times += ix.times.n.Load()
		if n := len(c.groups); n > 0 && size <= min(c.conf.SegmentBytes, maxSegmentBytes) &&
			offsets <= c.conf.SegmentIndexBytes && times <= c.conf.SegmentIndexBytes &&
			c.next(s)-1-c.groups[n-1][0].base <= math.MaxInt32 {
			c.groups[n-1] = append(c.groups[n-1], s)
			continue
		}
		c.groups = append(c.groups, []*segment{s})
		size, offsets, times = s.size.Load(), ix.offsets.n.Load(), ix.times.n.Load()
	}
	return nil
}

// Next cleans the next group of segments into new files. Nil: there are no more.
// A segment of which nothing would go is left alone.
func (c *Cleaning) Next() (*Cleaned, error) {
	for len(c.groups) > 0 {
		group := c.groups[0]
		c.groups = c.groups[1:]
		w, err := newCleanedFile(c, group[0].base)
		if err != nil {
			return nil, err
		}
		for i, s := range group {
			if err = c.cleanSegment(s, w, i == len(group)-1); err != nil {
				break
			}
		}
		var out *Cleaned
		if err == nil && (w.changed || len(group) > 1) {
			out, err = w.finish(group)
		} else {
			err = errors.Join(err, w.drop())
		}
		if err != nil || out != nil {
			return out, err
		}
	}
	return nil, nil
}

// cleanSegment copies what stays of one segment. The last batch of a group stays
// even without records, so that the new segment ends where the next one begins:
// recovery takes a hole between segments beyond the recovery point for a loss.
func (c *Cleaning) cleanSegment(s *segment, w *cleanedFile, lastOfGroup bool) error {
	aborted, err := c.log.AbortedTxns(s.base, c.next(s))
	if err != nil {
		return err
	}
	c.txns.add(aborted)
	err = c.walk(s, s.base, func(b batch.Batch) (bool, error) {
		return true, c.cleanBatch(b, w, lastOfGroup && b.NextOffset() == c.next(s))
	})
	w.aborted = append(w.aborted, c.txns.kept...)
	c.txns.kept = c.txns.kept[:0]
	return err
}

// cleanBatch decides on one batch (Cleaner.cleanInto). Records of aborted
// transactions go. A marker goes one pass after the last batch of its
// transaction has gone, and not before its delete horizon. The last batch of an
// active producer stays, if need be without records: it holds its sequence, or
// its epoch.
func (c *Cleaning) cleanBatch(b batch.Batch, w *cleanedFile, edge bool) error {
	c.Stats.ReadBytes += int64(len(b))
	c.Stats.RecordsRead += int64(b.Count())
	var idle bool
	var err error
	if b.Control() {
		if idle, err = c.txns.control(b); err != nil {
			return err
		}
	} else {
		idle = c.txns.data(b)
	}
	at := len(w.out)
	var kept int32
	if w.out, kept, err = c.appendKept(w.out, b, idle); err != nil {
		return err
	}
	if kept == 0 {
		if !edge && !c.lastOfProducer(b) {
			w.changed = true
			return nil
		}
		w.out = batch.AppendEmpty(w.out, b)
	}
	c.Stats.RecordsKept += int64(kept)
	out := batch.Batch(w.out[at:])
	if out.HasDeleteHorizon() && kept > 0 && out.BaseTimestamp() > c.now {
		c.horizon = max(c.horizon, out.BaseTimestamp())
	}
	return w.add(out, b)
}

// appendKept appends what stays of a batch, if any record does.
func (c *Cleaning) appendKept(dst []byte, b batch.Batch, idle bool) (out []byte, kept int32, err error) {
	gone := idle
	if b.Control() {
		gone = idle && b.HasDeleteHorizon() && b.BaseTimestamp() <= c.now
	}
	switch {
	case gone:
		return dst, 0, nil
	case !b.Control() && b.Count() > 0 && b.BaseOffset() > c.keys.latest:
		// Its keys are for the next pass, which will remove what its tombstones
		// hide: their time must not begin to run before.
		return append(dst, b...), b.Count(), nil
	}
	f := batch.Filter{
		Keep: func(k batch.Keyed) bool { return b.Control() || c.keeps(b, k) },
		Mark: idle && b.Control(), LimitBytes: maxExpandedBytes, HorizonMs: kafka.NoTimestamp,
	}
	if wait := kafka.WallMs(c.conf.DeleteRetentionMs); wait <= math.MaxInt64-c.now { // else they stay for ever
		f.HorizonMs = c.now + wait
	}
	return c.work.Append(dst, b, &f)
}

// keeps tells whether a record is the last one of its key, and, if it is a
// tombstone, still needed by slow readers.
func (c *Cleaning) keeps(b batch.Batch, k batch.Keyed) bool {
	if k.Offset > c.keys.latest {
		return true
	}
	if k.Key == nil {
		c.Stats.KeylessRecords++
		return false
	}
	return k.Offset >= c.keys.last(k.Key) && (k.HasValue || !b.HasDeleteHorizon() || c.now < b.BaseTimestamp())
}

func (c *Cleaning) lastOfProducer(b batch.Batch) bool {
	last, ok := c.last[b.ProducerID()]
	switch {
	case !ok || b.ProducerID() == kafka.NoProducerID:
		return false
	case last.offset >= 0:
		return b.LastOffset() == last.offset
	}
	return b.Control() && b.ProducerEpoch() == last.epoch
}

// CleaningDone takes in a pass all of whose groups are swapped in. Owner only.
func (l *Log) CleaningDone(c *Cleaning) error {
	if l.truncations != c.truns {
		return ErrChanged
	}
	l.cleanedTo = max(l.cleanedTo, c.End())
	l.horizonMs = c.horizon
	return nil
}
