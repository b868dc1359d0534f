package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// entry is what the head of a batch, or of a v0/v1 message, tells.
type entry struct {
	pos   int64
	size  int64
	base  kafka.Offset // of an old message: its own, which is the last one
	last  kafka.Offset
	maxTs kafka.WallMs
	epoch kafka.Epoch // NoEpoch for old formats
	magic int8
	empty bool // of a batch: compaction left no record in it
}

func (e *entry) next() kafka.Offset { return e.last + 1 }

// headBytes is how much of an entry parseHead looks at: a v2 header.
const headBytes = batch.HeaderSize

// parseHead reads the head of an entry at pos in a file of size bytes; buf
// holds its first bytes, headBytes or all there are.
func parseHead(buf []byte, pos, size int64) (entry, error) {
	var e entry
	n, err := batch.EntrySize(buf)
	if err != nil {
		return e, err
	}
	if int64(n) > size-pos {
		return e, fmt.Errorf("%w: %d bytes of %d", batch.ErrTruncated, size-pos, n)
	}
	if len(buf) < batch.MagicEnd {
		return e, fmt.Errorf("%w: %d bytes of a header", batch.ErrTruncated, len(buf))
	}
	be := binary.BigEndian
	e = entry{pos: pos, size: int64(n), base: kafka.Offset(be.Uint64(buf)), magic: int8(buf[16]), epoch: kafka.NoEpoch, maxTs: kafka.NoTimestamp}
	switch e.magic {
	case 0, 1:
		e.last = e.base
		if e.magic == 1 {
			if n < 34 || len(buf) < 26 {
				return e, fmt.Errorf("%w: v1 message of %d bytes", batch.ErrCorrupt, n)
			}
			e.maxTs = kafka.WallMs(be.Uint64(buf[18:]))
		}
	case 2:
		if n < batch.HeaderSize || len(buf) < batch.HeaderSize {
			return e, fmt.Errorf("%w: v2 batch of %d bytes", batch.ErrCorrupt, n)
		}
		b := batch.Batch(buf)
		if b.LastOffsetDelta() < 0 {
			return e, fmt.Errorf("%w: last offset delta %d", batch.ErrCorrupt, b.LastOffsetDelta())
		}
		e.last, e.maxTs, e.epoch, e.empty = b.LastOffset(), b.MaxTimestamp(), b.LeaderEpoch(), b.Count() == 0
	default:
		return e, fmt.Errorf("%w: magic %d", batch.ErrMagic, e.magic)
	}
	if e.base < 0 || e.last < e.base || e.last == 1<<63-1 {
		return e, fmt.Errorf("%w: offsets %d to %d", batch.ErrCorrupt, e.base, e.last)
	}
	return e, nil
}

// checkCRC verifies a whole entry: CRC-32C for v2, CRC-32 for older ones.
func checkCRC(e *entry, buf []byte) error {
	ok := false
	if e.magic == 2 {
		ok = batch.Batch(buf).Valid()
	} else {
		ok = binary.BigEndian.Uint32(buf[12:]) == crc32.ChecksumIEEE(buf[16:])
	}
	if !ok {
		return fmt.Errorf("%w: checksum", batch.ErrCorrupt)
	}
	return nil
}

// walker steps over the heads of a file's entries from a batch boundary up to
// size, reading in chunks. Its buffer is borrowed.
type walker struct {
	file     io.ReaderAt
	pos      int64 // of the next entry
	size     int64
	buf      []byte // the chunk
	from, to int64  // what of the file is in buf
}

func newWalker(f io.ReaderAt, pos, size int64, buf []byte) walker {
	return walker{file: f, pos: pos, size: size, buf: buf}
}

// head gives up to headBytes at pos.
func (w *walker) head() ([]byte, error) {
	want := min(int64(headBytes), w.size-w.pos)
	if w.pos < w.from || w.pos+want > w.to {
		n, err := w.file.ReadAt(w.buf[:min(int64(len(w.buf)), w.size-w.pos)], w.pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		w.from, w.to = w.pos, w.pos+int64(n)
		want = min(want, int64(n))
	}
	return w.buf[w.pos-w.from:][:want], nil
}

// next gives the next entry; io.EOF at the end. After an error that wraps one
// of batch's, pos is where the bad entry begins.
func (w *walker) next() (entry, error) {
	if w.pos >= w.size {
		return entry{}, io.EOF
	}
	head, err := w.head()
	if err != nil {
		return entry{}, err
	}
	e, err := parseHead(head, w.pos, w.size)
	if err != nil {
		return entry{}, err
	}
	w.pos += e.size
	return e, nil
}

// bad tells whether an error is about the bytes rather than the disk.
func bad(err error) bool {
	return errors.Is(err, batch.ErrCorrupt) || errors.Is(err, batch.ErrTruncated) || errors.Is(err, batch.ErrMagic)
}

// reader gives whole entries in order through one growing buffer.
type reader struct {
	walker
	limit int64 // bytes of one entry that are taken in
}

// maxEntryBytes bounds the memory that one entry may ask for; Kafka's batches
// are bounded by segment size.
const maxEntryBytes = 1 << 30

func newReader(f io.ReaderAt, pos, size int64) *reader { return newReaderOf(f, pos, size, readChunk) }

func newReaderOf(f io.ReaderAt, pos, size int64, chunk int) *reader {
	return &reader{walker: newWalker(f, pos, size, make([]byte, chunk)), limit: maxEntryBytes}
}

// readChunk is how much a reader takes at once.
const readChunk = 256 << 10

// nextWhole gives the next entry with its bytes, which are valid until the next
// call.
func (r *reader) nextWhole() (entry, []byte, error) {
	at := r.pos
	e, err := r.next()
	if err != nil {
		return e, nil, err
	}
	if at >= r.from && at+e.size <= r.to {
		return e, r.buf[at-r.from:][:e.size:e.size], nil
	}
	if e.size > r.limit {
		return e, nil, fmt.Errorf("%w: entry of %d bytes", batch.ErrCorrupt, e.size)
	}
	if e.size > int64(len(r.buf)) {
		r.buf = make([]byte, e.size)
	}
	n, err := r.file.ReadAt(r.buf[:min(int64(len(r.buf)), r.size-at)], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return e, nil, err
	}
	r.from, r.to = at, at+int64(n)
	if int64(n) < e.size {
		return e, nil, fmt.Errorf("%w: %d bytes of %d", batch.ErrTruncated, n, e.size)
	}
	return e, r.buf[:e.size:e.size], nil
}
