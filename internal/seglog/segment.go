package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"sync/atomic"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// tsUnknown marks timestamps of a segment that were not looked up yet.
const tsUnknown = -1 << 63

// segment is one .log file and what belongs to it.
type segment struct {
	base     kafka.Offset
	size     atomic.Int64 // bytes that readers may see
	maxTs    atomic.Int64 // largest timestamp, or tsUnknown, or NoTimestamp
	handle   atomic.Pointer[handle]
	index    atomic.Pointer[indexes]
	active   atomic.Bool // its indexes may be ahead of the files: not evicted
	gone     atomic.Bool // deleted: a file that cannot be found is no surprise
	swapping atomic.Bool // its files may still end in .swap
	unborn   atomic.Bool // the first segment of a log that has never had a record: no file yet

	// Owner only.
	maxTsLast  kafka.Offset // last offset of the batch with the largest timestamp
	firstTs    kafka.WallMs // max timestamp of the first batch, or tsUnknown
	createdMs  kafka.WallMs
	jitterMs   int64
	sinceIndex int64 // bytes since the last index entry
	saved      bool  // index files are on the disk as they are in memory
	synced     bool  // index files and snapshot are durable
	named      bool  // the name of the .log file is durable
}

func newSegment(base kafka.Offset, size int64, now kafka.WallMs) *segment {
	s := &segment{base: base, createdMs: now, firstTs: tsUnknown, maxTsLast: base}
	s.size.Store(size)
	s.maxTs.Store(tsUnknown)
	return s
}

// floorSegment gives the index of the last segment with base ≤ o, or −1.
func floorSegment(segs []*segment, o kafka.Offset) int {
	return sort.Search(len(segs), func(i int) bool { return segs[i].base > o }) - 1
}

// indexOf gives a segment's indexes, loading them if need be. It never fails
// for a bad index file: the index is rebuilt from the segment.
func (l *Log) indexOf(s *segment) (*indexes, error) {
	if ix := s.index.Load(); ix != nil {
		return ix, nil
	}
	l.loading.Lock()
	defer l.loading.Unlock()
	if ix := s.index.Load(); ix != nil {
		return ix, nil
	}
	if s.gone.Load() {
		return nil, fs.ErrNotExist
	}
	ix, err := l.readIndex(s)
	if s.gone.Load() { // the file of its name may be another's by now
		return nil, fs.ErrNotExist
	}
	if errors.Is(err, errIndex) || errors.Is(err, fs.ErrNotExist) {
		ix, err = l.scanIndex(s) // kept in memory; Close writes it
	}
	if err != nil {
		return nil, err
	}
	if s.active.Load() {
		s.index.Store(ix)
	} else {
		l.env.Files.keepIndex(s, ix)
	}
	return ix, nil
}

func (l *Log) readIndex(s *segment) (*indexes, error) {
	size := s.size.Load()
	if size == 0 {
		return &indexes{}, nil
	}
	offsets, err := vfs.ReadFile(l.fs(), l.path(s.base, extIndex))
	if err != nil {
		return nil, err
	}
	times, err := vfs.ReadFile(l.fs(), l.path(s.base, extTime))
	if err != nil {
		return nil, err
	}
	return parseIndexes(offsets, times, size)
}

// scanIndex rebuilds the indexes from the heads of the segment's batches.
func (l *Log) scanIndex(s *segment) (*indexes, error) {
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return nil, err
	}
	defer h.unpin()
	b := newIndexer(s.base, l.config.Load().IndexIntervalBytes)
	w := newWalker(h.file, 0, s.size.Load(), make([]byte, scanChunk))
	for {
		e, err := w.next()
		if err == io.EOF {
			b.finish()
			return b.ix, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s at byte %d: %w", l.path(s.base, extLog), w.pos, err)
		}
		b.add(&e)
	}
}

// indexer builds indexes batch by batch, as LogSegment.append does.
type indexer struct {
	ix        *indexes
	base      kafka.Offset
	interval  int64
	since     int64
	maxTs     kafka.WallMs
	maxTsLast kafka.Offset
}

func newIndexer(base kafka.Offset, interval int64) *indexer {
	return &indexer{ix: &indexes{}, base: base, interval: interval, maxTs: kafka.NoTimestamp, maxTsLast: base}
}

func (b *indexer) add(e *entry) {
	if e.maxTs > b.maxTs {
		b.maxTs, b.maxTsLast = e.maxTs, e.last
	}
	if b.since > b.interval {
		b.ix.addOffset(int32(e.last-b.base), e.pos)
		b.ix.addTime(b.maxTs, int32(b.maxTsLast-b.base))
		b.since = 0
	}
	b.since += e.size
}

// finish adds the largest timestamp, which closed segments end with.
func (b *indexer) finish() { b.ix.addTime(b.maxTs, int32(b.maxTsLast-b.base)) }

// writeIndex writes both index files in full.
func (l *Log) writeIndex(s *segment, ix *indexes, sync bool) error {
	if err := l.writeFile(l.path(s.base, extIndex), ix.offsets.view(), sync); err != nil {
		return err
	}
	return l.writeFile(l.path(s.base, extTime), ix.times.view(), sync)
}

// writeFile replaces a side file's content in place; recovery does without it
// if it is torn.
func (l *Log) writeFile(name string, data []byte, sync bool) error {
	f, err := l.fs().Open(name, vfs.CreateTruncate)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil && sync {
		err = f.Datasync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	l.namesGen.Add(1)
	return err
}

// syncFile makes a file durable that somebody else wrote; one that is gone has
// been deleted meanwhile.
func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.Open(name, vfs.ReadWrite)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.Datasync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
