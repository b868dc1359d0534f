package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	// windowBytes is the read window over a decompressor.
	windowBytes = 32 << 10
	// maxZstdWindowBytes is the largest window that Java's zstd accepts by
	// default; level 22 asks for it.
	maxZstdWindowBytes = 128 << 20
	// maxSnappyRatio bounds what a snappy block can expand to: three bytes
	// copy at most 64.
	maxSnappyRatio = 22
	// snappyBlockBytes is the block size of Java's SnappyOutputStream.
	snappyBlockBytes = 32 << 10
)

// xerialHeader begins the stream format of Java's snappy library; two int32
// versions follow.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// Workspace holds decompressors and compressors between uses, since they are
// costly to make. The zero value is ready. It is for one goroutine at a time;
// keep few, and none for idle connections: one that has seen every codec owns
// some hundred KiB.
type Workspace struct {
	in     bytes.Reader
	window []byte
	gzip   *gzip.Reader
	lz4    *lz4.Reader
	zstd   *zstd.Decoder
	snappy snappyReader
	cursor cursor
	scan   scanner

	cleaning cleaning
}

// Decompress returns a reader over the records of a batch compressed with
// codec. It is valid until the next call. The whole stream is decoded: every
// gzip member, LZ4 and zstd frame, snappy framed by Java or raw.
func (w *Workspace) Decompress(codec Codec, records []byte) (io.Reader, error) {
	w.in.Reset(records)
	var err error
	switch codec {
	case None:
		return &w.in, nil
	case Gzip:
		if w.gzip == nil {
			w.gzip, err = gzip.NewReader(&w.in)
		} else {
			err = w.gzip.Reset(&w.in)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: gzip: %v", ErrCorrupt, err)
		}
		return w.gzip, nil
	case Snappy:
		w.snappy.reset(records)
		return &w.snappy, nil
	case LZ4:
		if w.lz4 == nil {
			w.lz4 = lz4.NewReader(&w.in)
		} else {
			w.lz4.Reset(&w.in)
		}
		return w.lz4, nil
	case Zstd:
		if w.zstd == nil {
			w.zstd, err = zstd.NewReader(&w.in, zstd.WithDecoderConcurrency(1),
				zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindowBytes))
		} else {
			err = w.zstd.Reset(&w.in)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: zstd: %v", ErrCorrupt, err)
		}
		return w.zstd, nil
	}
	return nil, fmt.Errorf("%w: %s is not known", ErrCorrupt, codec)
}

// DecompressAll returns the whole records section, at most limitBytes of it;
// more is ErrCorrupt. The result does not point into the Workspace.
func (w *Workspace) DecompressAll(codec Codec, records []byte, limitBytes int64) ([]byte, error) {
	if codec == None {
		return records, nil
	}
	r, err := w.Decompress(codec, records)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, limitBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, codec, err)
	}
	if int64(len(out)) > limitBytes {
		return nil, fmt.Errorf("%w: %s expands beyond %d bytes", ErrCorrupt, codec, limitBytes)
	}
	return out, nil
}

func (w *Workspace) cursorOver(codec Codec, records []byte) (*cursor, error) {
	if codec == None {
		w.cursor = cursor{buf: records, end: len(records)}
		return &w.cursor, nil
	}
	r, err := w.Decompress(codec, records)
	if err != nil {
		return nil, err
	}
	if w.window == nil {
		w.window = make([]byte, windowBytes)
	}
	w.cursor = cursor{r: r, buf: w.window}
	return &w.cursor, nil
}

// snappyReader decodes both framings of snappy that Kafka's clients use: the
// xerial stream of Java's library and a single raw block.
type snappyReader struct {
	src    []byte
	xerial bool
	raw    bool
	block  []byte
	pos    int
}

func (s *snappyReader) reset(src []byte) {
	s.src, s.pos, s.block = src, 0, s.block[:0]
	s.xerial = len(src) >= 16 && bytes.Equal(src[:8], xerialHeader)
	s.raw = !s.xerial && len(src) > 0
	if s.xerial {
		s.src = src[16:]
	}
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for s.pos == len(s.block) {
		var next []byte
		switch {
		case s.raw:
			next, s.src, s.raw = s.src, nil, false
		case s.xerial && len(s.src) >= 4:
			// A second stream header may follow where streams were joined.
			if len(s.src) >= 16 && bytes.Equal(s.src[:8], xerialHeader) {
				s.src = s.src[16:]
				continue
			}
			n := int64(int32(binary.BigEndian.Uint32(s.src)))
			if n < 0 || n > int64(len(s.src)-4) {
				return 0, fmt.Errorf("snappy block of %d bytes, %d there", n, len(s.src)-4)
			}
			next, s.src = s.src[4:4+n], s.src[4+n:]
		case len(s.src) > 0:
			return 0, io.ErrUnexpectedEOF
		default:
			return 0, io.EOF
		}
		if err := s.decode(next); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.block[s.pos:])
	s.pos += n
	return n, nil
}

func (s *snappyReader) decode(src []byte) error {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return err
	}
	if n > maxSnappyRatio*len(src) {
		return fmt.Errorf("snappy block of %d bytes claims %d", len(src), n)
	}
	if cap(s.block) < n {
		s.block = make([]byte, n)
	}
	s.block, err = snappy.Decode(s.block[:cap(s.block)], src)
	s.pos = 0
	return err
}

// Compress appends the compressed form of src to dst, framed as Java's
// clients frame it. level is Kafka's compression.*.level; its default value
// (−1 gzip, 9 lz4, 3 zstd) gives the library's default.
func Compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w, err := compressor(out, codec, level)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(src); err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

func compressor(out io.Writer, codec Codec, level int) (io.WriteCloser, error) {
	switch codec {
	case None:
		return nopCloser{out}, nil
	case Gzip:
		return gzip.NewWriterLevel(out, level)
	case Snappy:
		return &snappyWriter{out: out}, nil
	case LZ4:
		w := lz4.NewWriter(out)
		return w, w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.CompressionLevelOption(lz4Level(level)))
	case Zstd:
		return zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)))
	}
	return nil, fmt.Errorf("batch: cannot compress with %s", codec)
}

// lz4Level maps Kafka's 1…17 (default 9) onto the library's: its fast mode is
// what Java's default does, and levels above 9 do not exist there.
func lz4Level(level int) lz4.CompressionLevel {
	if level <= 9 {
		return lz4.Fast
	}
	return lz4.CompressionLevel(1 << (8 + min(level-9, 9)))
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// snappyWriter writes the xerial stream format.
type snappyWriter struct {
	out     io.Writer
	pending []byte
	scratch []byte
	begun   bool
}

func (s *snappyWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), snappyBlockBytes-len(s.pending))
		s.pending = append(s.pending, p[:k]...)
		p = p[k:]
		if len(s.pending) == snappyBlockBytes {
			if err := s.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (s *snappyWriter) flush() error {
	if !s.begun {
		s.begun = true
		header := append(append([]byte{}, xerialHeader...), 0, 0, 0, 1, 0, 0, 0, 1)
		if _, err := s.out.Write(header); err != nil {
			return err
		}
	}
	if len(s.pending) == 0 {
		return nil
	}
	s.scratch = snappy.Encode(s.scratch[:cap(s.scratch)], s.pending)
	s.pending = s.pending[:0]
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(s.scratch)))
	if _, err := s.out.Write(size[:]); err != nil {
		return err
	}
	_, err := s.out.Write(s.scratch)
	return err
}

func (s *snappyWriter) Close() error { return s.flush() }
