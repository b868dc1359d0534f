package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"moldau/internal/kafka"
)

// Keyed is what compaction looks at in a record. Key is nil for Kafka's null; it
// is valid during the call that shows it.
type Keyed struct {
	Offset   kafka.Offset
	Key      []byte
	HasValue bool
}

// Filter says which records of a batch stay, and what becomes of tombstones.
type Filter struct {
	// Keep decides on one record.
	Keep func(Keyed) bool
	// HorizonMs is the time after which tombstones that stay may go; less than 0 is
	// never. A batch that has a horizon already keeps it.
	HorizonMs kafka.WallMs
	// Mark gives the batch a horizon even without a tombstone: the marker of a
	// transaction of which nothing is left.
	Mark bool
	// LimitBytes bounds what a compressed batch may expand to; more is ErrCorrupt.
	LimitBytes int64
}

// span is a run of records that stay, by position in the plain records section.
type span struct{ from, to int }

// cleaning is the part of a Workspace that filters batches.
type cleaning struct {
	plain   bytes.Buffer
	spans   []span
	payload []byte
	packed  bytes.Buffer
	gzip    *gzip.Writer
	lz4     *lz4.Writer
	zstd    *zstd.Encoder
}

// EachKeyed calls f with every record until f says stop.
func (w *Workspace) EachKeyed(b Batch, limitBytes int64, f func(Keyed) (goOn bool)) error {
	records, err := w.plainRecords(b, limitBytes)
	if err != nil {
		return err
	}
	pos := 0
	for i := int32(0); i < b.Count(); i++ {
		k, n, err := keyedAt(records[pos:], b)
		if err != nil {
			return fmt.Errorf("record %d of %d: %w", i, b.Count(), err)
		}
		if !f(k) {
			return nil
		}
		pos += n
	}
	return leftOver(records, pos)
}

func leftOver(records []byte, pos int) error {
	if pos != len(records) {
		return fmt.Errorf("%w: %d bytes after the last record", ErrCorrupt, len(records)-pos)
	}
	return nil
}

// Append appends to dst what f leaves of b and returns how many records that is:
// the batch byte for byte if all stay, nothing if none does, else the batch made
// anew, with its codec and its offsets, sequences and timestamps unchanged. A
// horizon takes the place of the base timestamp, from which the records then
// count (KIP-534, MemoryRecords.filterTo).
func (w *Workspace) Append(dst []byte, b Batch, f *Filter) (out []byte, kept int32, err error) {
	records, err := w.plainRecords(b, f.LimitBytes)
	if err != nil {
		return dst, 0, err
	}
	c := &w.cleaning
	c.spans = c.spans[:0]
	tombstones, pos := false, 0
	for i := int32(0); i < b.Count(); i++ {
		k, n, err := keyedAt(records[pos:], b)
		if err != nil {
			return dst, 0, fmt.Errorf("record %d of %d: %w", i, b.Count(), err)
		}
		if f.Keep(k) {
			kept++
			tombstones = tombstones || !k.HasValue
			if last := len(c.spans) - 1; last >= 0 && c.spans[last].to == pos {
				c.spans[last].to += n
			} else {
				c.spans = append(c.spans, span{pos, pos + n})
			}
		}
		pos += n
	}
	if err := leftOver(records, pos); err != nil {
		return dst, 0, err
	}
	mark := (tombstones || f.Mark) && f.HorizonMs >= 0 && !b.HasDeleteHorizon()
	switch {
	case kept == 0:
		return dst, 0, nil
	case kept == b.Count() && !mark:
		return append(dst, b...), kept, nil
	}
	base := b.BaseTimestamp()
	if mark {
		base = f.HorizonMs
	}
	out, err = w.remake(dst, b, records, base, kept, mark)
	return out, kept, err
}

// remake writes the spans as a batch whose timestamps count from base.
func (w *Workspace) remake(dst []byte, b Batch, records []byte, base kafka.WallMs, kept int32, mark bool) ([]byte, error) {
	c := &w.cleaning
	shift := int64(b.BaseTimestamp() - base)
	newest := kafka.NoTimestamp
	c.payload = c.payload[:0]
	for _, s := range c.spans {
		for pos := s.from; pos < s.to; {
			size, n := binary.Varint(records[pos:])
			end := pos + n + int(size)
			delta, m := binary.Varint(records[pos+n+1:])
			newest = max(newest, b.BaseTimestamp()+kafka.WallMs(delta))
			if shift == 0 {
				c.payload = append(c.payload, records[pos:end]...)
			} else {
				rest := records[pos+n+1+m : end]
				c.payload = binary.AppendVarint(c.payload, int64(1+varintSize(delta+shift)+len(rest)))
				c.payload = append(c.payload, records[pos+n])
				c.payload = binary.AppendVarint(c.payload, delta+shift)
				c.payload = append(c.payload, rest...)
			}
			pos = end
		}
	}
	start := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	dst, err := w.pack(dst, b.Codec(), c.payload)
	if err != nil {
		return dst[:start], err
	}
	n := Batch(dst[start:])
	binary.BigEndian.PutUint32(n[posLength:], uint32(len(n)-PrefixSize))
	if mark {
		binary.BigEndian.PutUint16(n[posAttributes:], uint16(n.Attributes()|attrDeleteHorizon))
	}
	binary.BigEndian.PutUint64(n[posBaseTimestamp:], uint64(base))
	if !b.LogAppendTime() {
		binary.BigEndian.PutUint64(n[posMaxTimestamp:], uint64(newest))
	}
	binary.BigEndian.PutUint32(n[posCount:], uint32(kept))
	n.seal()
	return dst, nil
}

// AppendEmpty appends the batch without its records: it still says up to which
// offset and sequence the log has gone (DefaultRecordBatch.writeEmptyHeader).
func AppendEmpty(dst []byte, b Batch) []byte {
	start := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	n := Batch(dst[start:])
	binary.BigEndian.PutUint32(n[posLength:], HeaderSize-PrefixSize)
	binary.BigEndian.PutUint16(n[posAttributes:], uint16(n.Attributes()&^(attrCodecMask|attrDeleteHorizon)))
	none := kafka.NoTimestamp
	binary.BigEndian.PutUint64(n[posBaseTimestamp:], uint64(none))
	binary.BigEndian.PutUint32(n[posCount:], 0)
	n.seal()
	return dst
}

// keyedAt reads the record at the start of buf and its length.
func keyedAt(buf []byte, b Batch) (k Keyed, length int, err error) {
	size, n := binary.Varint(buf)
	if n <= 0 || size < 1 || size > int64(len(buf)-n) {
		return k, 0, fmt.Errorf("%w: record length", ErrCorrupt)
	}
	length = n + int(size)
	body := buf[n+1 : length]
	_, body, err = varint(body) // timestamp
	if err != nil {
		return k, 0, err
	}
	delta, body, err := varint(body)
	if err != nil {
		return k, 0, err
	}
	if delta < 0 || delta > int64(b.LastOffsetDelta()) {
		return k, 0, fmt.Errorf("%w: offset delta %d in a batch of %d", ErrCorrupt, delta, b.LastOffsetDelta())
	}
	k.Offset = b.BaseOffset() + kafka.Offset(delta)
	if k.Key, body, err = varbytes(body); err != nil {
		return k, 0, err
	}
	if k.Key == nil && len(body) == 0 {
		return k, 0, fmt.Errorf("%w: record without a value field", ErrCorrupt)
	}
	value, _, err := varbytes(body)
	k.HasValue = value != nil
	return k, length, err
}

// plainRecords gives the records section in plain, valid until the next call.
func (w *Workspace) plainRecords(b Batch, limitBytes int64) ([]byte, error) {
	if b.Codec() == None || b.Count() == 0 {
		return b.Records(), nil
	}
	src, err := w.Decompress(b.Codec(), b.Records())
	if err != nil {
		return nil, err
	}
	buf := &w.cleaning.plain
	if buf.Cap() > maxKeptBytes {
		*buf = bytes.Buffer{}
	}
	buf.Reset()
	if _, err := buf.ReadFrom(io.LimitReader(src, limitBytes+1)); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, b.Codec(), err)
	}
	if int64(buf.Len()) > limitBytes {
		return nil, fmt.Errorf("%w: %s expands beyond %d bytes", ErrCorrupt, b.Codec(), limitBytes)
	}
	return buf.Bytes(), nil
}

// maxKeptBytes is the largest buffer that is kept for the next batch.
const maxKeptBytes = 8 << 20

// pack appends the records, compressed with the codec's default level.
func (w *Workspace) pack(dst []byte, codec Codec, records []byte) ([]byte, error) {
	if codec == None {
		return append(dst, records...), nil
	}
	c := &w.cleaning
	c.packed.Reset()
	to, err := c.compressor(codec)
	if err != nil {
		return dst, err
	}
	if _, err := to.Write(records); err != nil {
		return dst, err
	}
	if err := to.Close(); err != nil {
		return dst, err
	}
	return append(dst, c.packed.Bytes()...), nil
}

// compressor gives a compressor that is used again for the next batch.
func (c *cleaning) compressor(codec Codec) (io.WriteCloser, error) {
	fresh := func() (io.WriteCloser, error) { return compressor(&c.packed, codec, defaultLevel(codec)) }
	switch codec {
	case Gzip:
		if c.gzip == nil {
			w, err := fresh()
			c.gzip, _ = w.(*gzip.Writer)
			return w, err
		}
		c.gzip.Reset(&c.packed)
		return c.gzip, nil
	case LZ4:
		if c.lz4 == nil {
			w, err := fresh()
			c.lz4, _ = w.(*lz4.Writer)
			return w, err
		}
		c.lz4.Reset(&c.packed)
		return c.lz4, nil
	case Zstd:
		if c.zstd == nil {
			w, err := fresh()
			c.zstd, _ = w.(*zstd.Encoder)
			return w, err
		}
		c.zstd.Reset(&c.packed)
		return c.zstd, nil
	}
	return fresh()
}
