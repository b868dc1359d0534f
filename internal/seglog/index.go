package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"sync/atomic"

	"moldau/internal/kafka"
)

// Widths of index entries, as in Kafka's files:
// .index: relative offset int32, position int32; the offset is the last one of
// the batch that begins at the position.
// .timeindex: timestamp int64, relative offset int32; no record up to that
// offset, and none in a later entry's span, has a larger timestamp.
const (
	offsetEntry = 8
	timeEntry   = 12
)

// column is a list of fixed-size entries in file format. One writer appends;
// readers see a prefix that never changes.
type column struct {
	buf atomic.Pointer[[]byte]
	n   atomic.Int64 // bytes in use
}

func (c *column) view() []byte {
	n := c.n.Load() // before the buffer: a later buffer holds at least as much
	if n == 0 {
		return nil
	}
	return (*c.buf.Load())[:n]
}

func (c *column) append(entry []byte) {
	n := c.n.Load()
	p := c.buf.Load()
	if p == nil || int64(len(*p))-n < int64(len(entry)) {
		grown := make([]byte, max(64, 2*n+int64(len(entry))))
		if p != nil {
			copy(grown, (*p)[:n])
		}
		p = &grown
		c.buf.Store(p)
	}
	copy((*p)[n:], entry)
	c.n.Store(n + int64(len(entry)))
}

func (c *column) set(b []byte) {
	c.buf.Store(&b)
	c.n.Store(int64(len(b)))
}

// indexes are the two indexes of a segment in memory. Truncation replaces the
// whole value, so that readers keep a consistent one.
type indexes struct {
	offsets, times column
}

func (ix *indexes) bytes() int64 { return ix.offsets.n.Load() + ix.times.n.Load() }

func (ix *indexes) addOffset(rel int32, pos int64) {
	var e [offsetEntry]byte
	binary.BigEndian.PutUint32(e[:], uint32(rel))
	binary.BigEndian.PutUint32(e[4:], uint32(pos))
	ix.offsets.append(e[:])
}

// addTime appends unless the entry would not grow in both columns (Kafka's
// TimeIndex.maybeAppend; HC-132: an entry that does not fit is left out, it
// never fails an append).
func (ix *indexes) addTime(ts kafka.WallMs, rel int32) {
	lastTs, lastRel := ix.lastTime()
	if ts <= lastTs || rel < lastRel {
		return
	}
	var e [timeEntry]byte
	binary.BigEndian.PutUint64(e[:], uint64(ts))
	binary.BigEndian.PutUint32(e[8:], uint32(rel))
	ix.times.append(e[:])
}

func (ix *indexes) lastTime() (ts kafka.WallMs, rel int32) {
	v := ix.times.view()
	if len(v) == 0 {
		return kafka.NoTimestamp, 0
	}
	return timeAt(v, len(v)/timeEntry-1)
}

func offsetAt(v []byte, i int) (rel int32, pos int64) {
	e := v[i*offsetEntry:]
	return int32(binary.BigEndian.Uint32(e)), int64(binary.BigEndian.Uint32(e[4:]))
}

func timeAt(v []byte, i int) (ts kafka.WallMs, rel int32) {
	e := v[i*timeEntry:]
	return kafka.WallMs(binary.BigEndian.Uint64(e)), int32(binary.BigEndian.Uint32(e[8:]))
}

// floorOffset gives the position of the last indexed batch whose last offset is
// ≤ rel, or 0.
func (ix *indexes) floorOffset(rel int64) int64 {
	v := ix.offsets.view()
	i := sort.Search(len(v)/offsetEntry, func(i int) bool {
		r, _ := offsetAt(v, i)
		return int64(r) > rel
	})
	if i == 0 {
		return 0
	}
	_, pos := offsetAt(v, i-1)
	return pos
}

// floorPosition gives the largest indexed position ≤ pos, or 0.
func (ix *indexes) floorPosition(pos int64) int64 {
	v := ix.offsets.view()
	i := sort.Search(len(v)/offsetEntry, func(i int) bool {
		_, p := offsetAt(v, i)
		return p > pos
	})
	if i == 0 {
		return 0
	}
	_, p := offsetAt(v, i-1)
	return p
}

// floorTime gives the relative offset of the last entry with a timestamp ≤ ts,
// or 0 (TimeIndex.lookup).
func (ix *indexes) floorTime(ts kafka.WallMs) int32 {
	v := ix.times.view()
	i := sort.Search(len(v)/timeEntry, func(i int) bool {
		t, _ := timeAt(v, i)
		return t > ts
	})
	if i == 0 {
		return 0
	}
	_, rel := timeAt(v, i-1)
	return rel
}

// lastPosition is the position of the last indexed batch, or 0.
func (ix *indexes) lastPosition() int64 {
	v := ix.offsets.view()
	if len(v) == 0 {
		return 0
	}
	_, pos := offsetAt(v, len(v)/offsetEntry-1)
	return pos
}

// truncated gives a copy without the entries at or beyond rel.
func (ix *indexes) truncated(rel int64) *indexes {
	out := &indexes{}
	v := ix.offsets.view()
	n := sort.Search(len(v)/offsetEntry, func(i int) bool { r, _ := offsetAt(v, i); return int64(r) >= rel })
	out.offsets.set(append([]byte(nil), v[:n*offsetEntry]...))
	v = ix.times.view()
	n = sort.Search(len(v)/timeEntry, func(i int) bool { _, r := timeAt(v, i); return int64(r) >= rel })
	out.times.set(append([]byte(nil), v[:n*timeEntry]...))
	return out
}

var errIndex = errors.New("index is corrupt")

// parseIndexes checks the content of .index and .timeindex of a segment of size
// bytes. Zeros behind the entries, which a killed JVM leaves because it maps
// 10 MB (trap 12), are not entries.
func parseIndexes(offsets, times []byte, size int64) (*indexes, error) {
	ix := &indexes{}
	n, err := checkOffsets(offsets, size)
	if err != nil {
		return nil, err
	}
	ix.offsets.set(offsets[:n:n])
	if n, err = checkTimes(times); err != nil {
		return nil, err
	}
	ix.times.set(times[:n:n])
	return ix, nil
}

func checkOffsets(b []byte, size int64) (n int, err error) {
	lastRel, lastPos := int32(-1), int64(-1)
	for i := range len(b) / offsetEntry {
		rel, pos := offsetAt(b, i)
		if rel == 0 && pos == 0 {
			return i * offsetEntry, checkZeros(b[i*offsetEntry:])
		}
		if rel <= lastRel || pos <= lastPos || pos >= size {
			return 0, fmt.Errorf("%w: entry %d (%d at %d) in a segment of %d bytes", errIndex, i, rel, pos, size)
		}
		lastRel, lastPos = rel, pos
	}
	if len(b)%offsetEntry != 0 {
		return 0, fmt.Errorf("%w: %d bytes", errIndex, len(b))
	}
	return len(b), nil
}

func checkTimes(b []byte) (n int, err error) {
	lastTs, lastRel := kafka.NoTimestamp-1, int32(-1)
	for i := range len(b) / timeEntry {
		ts, rel := timeAt(b, i)
		if ts == 0 && rel == 0 {
			return i * timeEntry, checkZeros(b[i*timeEntry:])
		}
		if ts <= lastTs || rel < lastRel {
			return 0, fmt.Errorf("%w: time entry %d (%d at %d)", errIndex, i, ts, rel)
		}
		lastTs, lastRel = ts, rel
	}
	if len(b)%timeEntry != 0 {
		return 0, fmt.Errorf("%w: %d bytes", errIndex, len(b))
	}
	return len(b), nil
}

func checkZeros(b []byte) error {
	for _, c := range b {
		if c != 0 {
			return fmt.Errorf("%w: entry after zeros", errIndex)
		}
	}
	return nil
}
