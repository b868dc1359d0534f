package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// Range is a run of whole batches in one segment file. It pins the file until
// Release. The zero value is an empty range.
type Range struct {
	h *handle
	// SegmentBase is the base offset of the segment and Position the byte at
	// which the range begins in it.
	SegmentBase kafka.Offset
	Position    int64
	// Len is the length in bytes.
	Len int
}

// ReadAt reads at off bytes into the range; io.EOF at its end.
func (r Range) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(r.Len) {
		return 0, io.EOF
	}
	short := int64(len(p)) > int64(r.Len)-off
	if short {
		p = p[:int64(r.Len)-off]
	}
	n, err := r.h.file.ReadAt(p, r.Position+off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Fd gives the descriptor for sendfile, with the position in the file. ok is
// false if the file system has none. It is valid until Release.
func (r Range) Fd() (fd uintptr, position int64, ok bool) {
	if r.h == nil {
		return 0, 0, false
	}
	d, ok := r.h.file.(vfs.Descriptor)
	if !ok {
		return 0, 0, false
	}
	return d.Fd(), r.Position, true
}

// Release lets go of the file. It must be called once, on one copy.
func (r Range) Release() {
	if r.h != nil {
		r.h.unpin()
	}
}

// maxReadAttempts bounds how often a read starts over because retention or
// truncation took its segment away.
const maxReadAttempts = 8

// Read finds the batches from the one that contains from (or, in a gap, the next
// one) up to upper, exclusive: whole batches, all of whose offsets are below
// upper, of one segment, at most maxBytes; but the first batch even if it is
// larger, if minOne. An empty Range is an answer: nothing below upper, or the
// first batch is too large. It fails with ErrOffsetOutOfRange if from is below
// the log start or beyond the end.
func (l *Log) Read(from, upper kafka.Offset, maxBytes int, minOne bool) (Range, error) {
	for attempt := 1; ; attempt++ {
		segs := l.segs.Load()
		r, found, err := l.read(*segs, from, upper, int64(maxBytes), minOne)
		gone := errors.Is(err, fs.ErrNotExist) || err == nil && !found
		if gone && attempt < maxReadAttempts && l.segs.Load() != segs {
			continue
		}
		return r, err
	}
}

func (l *Log) read(segs []*segment, from, upper kafka.Offset, maxBytes int64, minOne bool) (Range, bool, error) {
	if start, end := l.StartOffset(), l.EndOffset(); from < start || from > end {
		return Range{}, true, fmt.Errorf("%w: %d, the log of %s holds %d to %d", ErrOffsetOutOfRange, from, l.Dir(), start, end)
	}
	if from >= upper {
		return Range{}, true, nil
	}
	for i := max(floorSegment(segs, from), 0); i < len(segs); i++ {
		if segs[i].base >= upper {
			break
		}
		r, found, err := l.readSegment(segs[i], i == len(segs)-1, from, upper, maxBytes, minOne)
		if found || err != nil {
			return r, true, err
		}
	}
	return Range{}, false, nil
}

// readSegment is Read within one segment; found is false if the segment ends
// before from.
func (l *Log) readSegment(s *segment, last bool, from, upper kafka.Offset, maxBytes int64, minOne bool) (Range, bool, error) {
	size := s.size.Load()
	end := l.EndOffset() // after the size: all bytes below size have offsets below end
	if size == 0 {
		return Range{}, false, nil
	}
	if t := l.tail.Load(); last && t != nil && t.seg == s {
		if pos, n, ok := t.find(from, min(upper, end), maxBytes, minOne); ok {
			return l.pinned(s, pos, n)
		}
	}
	ix, err := l.indexOf(s)
	if err != nil {
		return Range{}, false, err
	}
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return Range{}, false, err
	}
	pos, n, found, err := l.locate(s, ix, h, size, from, upper, maxBytes, minOne, upper >= end)
	if err != nil || n == 0 {
		h.unpin()
		return Range{}, found, err
	}
	return Range{h: h, SegmentBase: s.base, Position: pos, Len: int(n)}, true, nil
}

func (l *Log) pinned(s *segment, pos, n int64) (Range, bool, error) {
	if n == 0 {
		return Range{}, true, nil
	}
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return Range{}, false, err
	}
	return Range{h: h, SegmentBase: s.base, Position: pos, Len: int(n)}, true, nil
}

// locate finds the bytes by the index and by reading a few headers.
func (l *Log) locate(s *segment, ix *indexes, h *handle, size int64, from, upper kafka.Offset, maxBytes int64, minOne, toEnd bool) (pos, n int64, found bool, err error) {
	buf := l.env.Files.buffer()
	defer l.env.Files.release(buf)
	w := newWalker(h.file, ix.floorOffset(int64(from-s.base)), size, *buf)
	var first entry
	for {
		first, err = w.next()
		if err == io.EOF {
			return 0, 0, false, nil
		}
		if err != nil {
			return 0, 0, true, l.corrupt(s, w.pos, from, err)
		}
		if first.last >= from {
			break
		}
	}
	if first.last >= upper || first.size > maxBytes && !minOne {
		return 0, 0, true, nil
	}
	limit := first.pos + max(first.size, maxBytes)
	if toEnd && size <= limit {
		return first.pos, size - first.pos, true, nil
	}
	// Jump to the last indexed batch that surely belongs to the range.
	to := first.pos + first.size
	if q := min(ix.floorPosition(limit), ix.floorOffset(int64(upper-1-s.base))); q > to {
		to = q
	}
	if to != w.pos {
		w.pos = to
	}
	for {
		e, err := w.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, true, l.corrupt(s, w.pos, from, err)
		}
		if e.last >= upper || e.pos+e.size > limit {
			break
		}
		to = e.pos + e.size
	}
	return first.pos, to - first.pos, true, nil
}

// corrupt turns a bad entry within the published part of a segment into a
// CorruptError.
func (l *Log) corrupt(s *segment, pos int64, o kafka.Offset, err error) error {
	if !bad(err) {
		return err
	}
	return &CorruptError{File: l.path(s.base, extLog), Position: pos, Offset: o, Reason: err.Error()}
}
