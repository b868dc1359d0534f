package batch

import (
	"encoding/binary"
	"fmt"

	"moldau/internal/kafka"
)

// Header is one header of a record. A nil Value is Kafka's null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record, its byte slices pointing into the batch (or into the
// buffer it was decompressed to). Nil Key or Value is Kafka's null.
type Record struct {
	OffsetDelta    int32
	TimestampDelta int64
	Key, Value     []byte
	Headers        []Header
}

// Each calls f with every record of an uncompressed, whole records section,
// in order, and stops at f's first error. The Record is reused between calls;
// its slices are not. It returns ErrCorrupt, wrapped, for malformed records, a
// count that disagrees, or bytes left over.
func Each(records []byte, count int32, f func(*Record) error) error {
	var r Record
	for i := int32(0); i < count; i++ {
		rest, err := r.decode(records)
		if err != nil {
			return fmt.Errorf("record %d of %d: %w", i, count, err)
		}
		records = rest
		if err := f(&r); err != nil {
			return err
		}
	}
	if len(records) != 0 {
		return fmt.Errorf("%w: %d bytes after the last of %d records", ErrCorrupt, len(records), count)
	}
	return nil
}

// Records calls f with every record of an uncompressed batch; see Each.
func (b Batch) EachRecord(f func(*Record) error) error {
	if b.Codec() != None {
		return fmt.Errorf("%w: records are compressed with %s", ErrCorrupt, b.Codec())
	}
	return Each(b.Records(), b.Count(), f)
}

func (r *Record) decode(buf []byte) (rest []byte, err error) {
	size, buf, err := varint(buf)
	if err != nil || size < 0 || size > int64(len(buf)) {
		return nil, fmt.Errorf("%w: record length", ErrCorrupt)
	}
	body, rest := buf[:size], buf[size:]
	if len(body) < 1 {
		return nil, fmt.Errorf("%w: empty record", ErrCorrupt)
	}
	body = body[1:] // attributes, unused by Kafka
	if r.TimestampDelta, body, err = varint(body); err != nil {
		return nil, err
	}
	var delta int64
	if delta, body, err = varint(body); err != nil {
		return nil, err
	}
	if delta != int64(int32(delta)) {
		return nil, fmt.Errorf("%w: offset delta %d", ErrCorrupt, delta)
	}
	r.OffsetDelta = int32(delta)
	if r.Key, body, err = varbytes(body); err != nil {
		return nil, err
	}
	if r.Value, body, err = varbytes(body); err != nil {
		return nil, err
	}
	if body, err = r.decodeHeaders(body); err != nil {
		return nil, err
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("%w: %d bytes after the headers", ErrCorrupt, len(body))
	}
	return rest, nil
}

func (r *Record) decodeHeaders(body []byte) ([]byte, error) {
	r.Headers = nil
	n, body, err := varint(body)
	if err != nil || n < 0 || n > int64(len(body)/2) { // a header takes two bytes at least
		return nil, fmt.Errorf("%w: header count", ErrCorrupt)
	}
	for ; n > 0; n-- {
		var key, value []byte
		if key, body, err = varbytes(body); err != nil {
			return nil, err
		}
		if key == nil {
			return nil, fmt.Errorf("%w: null header key", ErrCorrupt)
		}
		if value, body, err = varbytes(body); err != nil {
			return nil, err
		}
		r.Headers = append(r.Headers, Header{Key: string(key), Value: value})
	}
	return body, nil
}

// appendTo appends the record's encoding to buf.
func (r *Record) appendTo(buf []byte) []byte {
	size := 1 + varintSize(r.TimestampDelta) + varintSize(int64(r.OffsetDelta)) +
		varbytesSize(r.Key) + varbytesSize(r.Value) + varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		size += varintSize(int64(len(h.Key))) + len(h.Key) + varbytesSize(h.Value)
	}
	buf = binary.AppendVarint(buf, int64(size))
	buf = append(buf, 0)
	buf = binary.AppendVarint(buf, r.TimestampDelta)
	buf = binary.AppendVarint(buf, int64(r.OffsetDelta))
	buf = appendVarbytes(buf, r.Key)
	buf = appendVarbytes(buf, r.Value)
	buf = binary.AppendVarint(buf, int64(len(r.Headers)))
	for _, h := range r.Headers {
		buf = binary.AppendVarint(buf, int64(len(h.Key)))
		buf = append(buf, h.Key...)
		buf = appendVarbytes(buf, h.Value)
	}
	return buf
}

func varint(buf []byte) (int64, []byte, error) {
	v, n := binary.Varint(buf)
	if n <= 0 {
		return 0, nil, fmt.Errorf("%w: varint", ErrCorrupt)
	}
	return v, buf[n:], nil
}

func varbytes(buf []byte) (b, rest []byte, err error) {
	n, buf, err := varint(buf)
	switch {
	case err != nil:
		return nil, nil, err
	case n == -1:
		return nil, buf, nil
	case n < 0 || n > int64(len(buf)):
		return nil, nil, fmt.Errorf("%w: %d bytes claimed, %d there", ErrCorrupt, n, len(buf))
	}
	return buf[:n:n], buf[n:], nil
}

func varintSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func varbytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

func appendVarbytes(buf, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(buf, -1)
	}
	return append(binary.AppendVarint(buf, int64(len(b))), b...)
}

// Builder makes one v2 batch, for logs that the server itself
// writes and for tests. The zero value plus BaseOffset is ready; set the header
// fields before Finish.
type Builder struct {
	BaseOffset    kafka.Offset
	LeaderEpoch   kafka.Epoch
	Control       bool
	Transactional bool
	ProducerID    kafka.ProducerID
	ProducerEpoch kafka.ProducerEpoch
	BaseSequence  kafka.Sequence
	// Codec compresses the records, unless they become longer by that.
	Codec Codec

	buf     []byte
	base    kafka.WallMs
	max     kafka.WallMs
	count   int32
	scratch Record
}

// NewBuilder makes a Builder for a batch without producer id that starts at
// base in the leader epoch. It appends to buf[:0].
func NewBuilder(buf []byte, base kafka.Offset, epoch kafka.Epoch) *Builder {
	return &Builder{
		BaseOffset: base, LeaderEpoch: epoch,
		ProducerID: kafka.NoProducerID, ProducerEpoch: kafka.NoProducerEpoch, BaseSequence: kafka.NoSequence,
		buf: append(buf[:0], make([]byte, HeaderSize)...),
	}
}

// Add appends a record at the next offset. Key, value and headers are copied.
func (bl *Builder) Add(ts kafka.WallMs, key, value []byte, headers ...Header) {
	if bl.count == 0 {
		bl.base, bl.max = ts, ts
	}
	bl.max = max(bl.max, ts)
	bl.scratch = Record{
		OffsetDelta: bl.count, TimestampDelta: int64(ts - bl.base),
		Key: key, Value: value, Headers: headers,
	}
	bl.buf = bl.scratch.appendTo(bl.buf)
	bl.count++
}

// Count is the number of records added.
func (bl *Builder) Count() int32 { return bl.count }

// Size is the number of bytes that Finish would return without a Codec.
func (bl *Builder) Size() int { return len(bl.buf) }

// Mark is a place in a Builder that Rewind goes back to.
type Mark struct {
	size      int
	count     int32
	base, max kafka.WallMs
}

// Mark notes what has been added up to now.
func (bl *Builder) Mark() Mark { return Mark{len(bl.buf), bl.count, bl.base, bl.max} }

// Rewind takes back what was added since the mark.
func (bl *Builder) Rewind(m Mark) {
	bl.buf, bl.count, bl.base, bl.max = bl.buf[:m.size], m.count, m.base, m.max
}

// Finish writes the header and returns the batch, which must hold at least one
// record. The Builder must not be used afterwards.
func (bl *Builder) Finish() Batch {
	if bl.count == 0 {
		panic("batch: Finish of an empty batch")
	}
	b, codec := bl.compressed()
	be := binary.BigEndian
	be.PutUint64(b[posBaseOffset:], uint64(bl.BaseOffset))
	be.PutUint32(b[posLength:], uint32(len(b)-PrefixSize))
	be.PutUint32(b[posLeaderEpoch:], uint32(bl.LeaderEpoch))
	b[posMagic] = 2
	attr := int16(codec)
	if bl.Control {
		attr |= attrControl
	}
	if bl.Transactional {
		attr |= attrTransactional
	}
	be.PutUint16(b[posAttributes:], uint16(attr))
	be.PutUint32(b[posLastDelta:], uint32(bl.count-1))
	be.PutUint64(b[posBaseTimestamp:], uint64(bl.base))
	be.PutUint64(b[posMaxTimestamp:], uint64(bl.max))
	be.PutUint64(b[posProducerID:], uint64(bl.ProducerID))
	be.PutUint16(b[posProducerEpoch:], uint16(bl.ProducerEpoch))
	be.PutUint32(b[posBaseSequence:], uint32(bl.BaseSequence))
	be.PutUint32(b[posCount:], uint32(bl.count))
	b.seal()
	return b
}

// compressed gives header room and records, compressed if that makes them shorter.
func (bl *Builder) compressed() (Batch, Codec) {
	if bl.Codec == None {
		return bl.buf, None
	}
	packed, err := Compress(make([]byte, HeaderSize), bl.Codec, defaultLevel(bl.Codec), bl.buf[HeaderSize:])
	if err != nil {
		panic("batch: compress: " + err.Error()) // no codec of ours fails in memory
	}
	if len(packed) >= len(bl.buf) {
		return bl.buf, None
	}
	return packed, bl.Codec
}
