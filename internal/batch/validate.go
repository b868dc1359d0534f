package batch

import (
	"errors"
	"fmt"

	"moldau/internal/kafka"
)

// Rules are the settings of a topic that decide about a produced batch.
type Rules struct {
	// MaxBatchBytes is max.message.bytes: the stored size, header included.
	MaxBatchBytes int
	// MaxRecordBytes is max.decompressed.message.bytes: the size of a single
	// record of a compressed batch after decompression.
	MaxRecordBytes int64
	// Recompress asks for Codec and Level whatever the producer chose;
	// otherwise the batch stays as it came (compression.type=producer).
	Recompress bool
	Codec      Codec
	Level      int
	// Compacted demands a key of every record (cleanup.policy has compact).
	Compacted bool
	// LogAppendTime stamps the batch with the broker's clock
	// (message.timestamp.type); otherwise timestamps may lie at most
	// BeforeMaxMs behind and AfterMaxMs ahead of it (KIP-937).
	LogAppendTime           bool
	BeforeMaxMs, AfterMaxMs int64
}

// Rejection says why a batch was not taken, in Kafka's code and words for the
// producer. Its zero value means that the batch is good.
type Rejection struct {
	Code    kafka.ErrorCode
	Message string
	// Records names the records at fault (Produce v8+); nil if it is the batch.
	Records []RecordError
	// Appending: the log refused it, not the request; the answer then tells the
	// log's start.
	Appending bool
}

// RecordError is one record at fault, by its index in the batch.
type RecordError struct {
	Index   int32
	Message string
}

// maxRecordErrors bounds how many faulty records an answer lists.
const maxRecordErrors = 100

func reject(code kafka.ErrorCode, format string, args ...any) Rejection {
	return Rejection{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Produced checks what a client of Produce version (≥ 3) sent for one
// partition, as Kafka's ProduceRequest.validateRecords, UnifiedLog and
// LogValidator do: exactly one v2 batch, its size, checksum, header, codec and
// every record. It returns the batch to append, which is a slice of records
// with timestamp type and max timestamp patched, or new memory when the topic
// asks for another codec or the record offsets must be put right. The caller
// sets base offset and leader epoch. now is the append time.
func (w *Workspace) Produced(records []byte, version int16, rules *Rules, now kafka.WallMs) (Batch, Rejection) {
	if len(records) == 0 {
		return nil, reject(kafka.ErrInvalidRecord, "Produce requests with version %d must have at least one record batch per partition", version)
	}
	b, rest, err := Next(records)
	if err != nil {
		return nil, rejectPrefix(records, version, err)
	}
	if b.Codec() == Zstd && version < 7 {
		return nil, reject(kafka.ErrUnsupportedCompressionType, "Produce requests with version %d are not allowed to use ZStandard compression", version)
	}
	if len(rest) != 0 && !torn(rest) {
		return nil, reject(kafka.ErrInvalidRecord, "Produce requests with version %d are only allowed to contain exactly one record batch per partition", version)
	}
	r := b.checkHeader(rules)
	if r.Code == 0 {
		b, r = w.checkRecords(b, rules, now)
	}
	if r.Code != 0 {
		b, r.Appending = nil, r.Code != kafka.ErrCorruptMessage && r.Code != kafka.ErrMessageTooLarge
	}
	return b, r
}

// torn tells whether bytes are less than the batch that they begin. Behind the
// first batch Kafka cuts them off without a word.
func torn(rest []byte) bool {
	_, _, err := Next(rest)
	return errors.Is(err, ErrTruncated)
}

// rejectPrefix answers for bytes that do not even begin with a whole batch.
func rejectPrefix(records []byte, version int16, err error) Rejection {
	if len(records) >= MagicEnd && records[posMagic] > 2 {
		return reject(kafka.ErrCorruptMessage, "Invalid magic found in record: %d", records[posMagic])
	}
	if errors.Is(err, ErrMagic) || (len(records) >= MagicEnd && records[posMagic] != 2) {
		return reject(kafka.ErrInvalidRecord, "Produce requests with version %d are only allowed to contain record batches with magic version 2", version)
	}
	if errors.Is(err, ErrTruncated) {
		// Kafka's iterator finds no whole batch and counts none.
		return reject(kafka.ErrInvalidRecord, "Produce requests with version %d must have at least one record batch per partition", version)
	}
	return reject(kafka.ErrCorruptMessage, "%v", err)
}

func (b Batch) checkHeader(rules *Rules) Rejection {
	count, last := b.Count(), b.LastOffsetDelta()
	switch {
	case b.BaseOffset() != 0:
		return reject(kafka.ErrInvalidRecord, "The baseOffset of the record batch should be 0, but it is %d", b.BaseOffset())
	case len(b) > rules.MaxBatchBytes:
		return reject(kafka.ErrMessageTooLarge, "The record batch size is %d bytes which exceeds the maximum configured value of %d", len(b), rules.MaxBatchBytes)
	case !b.Valid():
		return reject(kafka.ErrCorruptMessage, "Record is corrupt (stored crc = %d, computed crc = %d)", b.CRC(), b.ComputeCRC())
	case b.Codec() > Zstd:
		return reject(kafka.ErrInvalidRecord, "Unknown compression type %d", b.Codec())
	case last < 0:
		return reject(kafka.ErrInvalidRecord, "Batch has an invalid offset range: [0, %d]", last)
	case count <= 0:
		return reject(kafka.ErrInvalidRecord, "Invalid reported count for record batch: %d", count)
	case last != count-1:
		return reject(kafka.ErrInvalidRecord, "Inconsistent batch offset range [0, %d] and count of records %d", last, count)
	case b.Control():
		return reject(kafka.ErrInvalidRecord, "Clients are not allowed to write control records")
	case b.ProducerID() > kafka.NoProducerID && b.BaseSequence() < 0:
		return reject(kafka.ErrInvalidRecord, "Invalid sequence number %d in record batch with producerId %d", b.BaseSequence(), b.ProducerID())
	case b.Transactional() && b.ProducerID() < 0:
		return reject(kafka.ErrInvalidRecord, "Transactional batch without a producer id")
	case b.HasDeleteHorizon():
		// Only the cleaner sets it; with it the base timestamp means something else.
		return reject(kafka.ErrInvalidRecord, "Clients are not allowed to set a delete horizon")
	}
	return Rejection{}
}

func (w *Workspace) checkRecords(b Batch, rules *Rules, now kafka.WallMs) (Batch, Rejection) {
	c, err := w.cursorOver(b.Codec(), b.Records())
	if err != nil {
		return nil, reject(kafka.ErrInvalidRecord, "%v", err)
	}
	s := &w.scan
	*s = scanner{rules: rules, now: now, base: b.BaseTimestamp(), forced: kafka.NoTimestamp, maxTimestamp: kafka.NoTimestamp}
	if b.LogAppendTime() {
		s.isForced, s.forced = true, b.MaxTimestamp()
	}
	if b.Codec() != None {
		s.maxRecordBytes = rules.MaxRecordBytes
	}
	if err := s.run(c, b.Count()); err != nil {
		return nil, reject(kafka.ErrInvalidRecord, "%v", err)
	}
	if len(s.errs) > 0 {
		return nil, s.rejection()
	}
	stamp := s.maxTimestamp
	if rules.LogAppendTime {
		stamp = now
	}
	if rules.Recompress && rules.Codec != b.Codec() || b.Codec() != None && s.unordered {
		return w.rebuild(b, rules, stamp)
	}
	b.SetMaxTimestamp(rules.LogAppendTime, stamp)
	return b, Rejection{}
}

// scanner is the walk over the records of one batch.
type scanner struct {
	rules          *Rules
	now            kafka.WallMs
	base           kafka.WallMs
	isForced       bool         // every record has the timestamp…
	forced         kafka.WallMs // …of a batch that says LogAppendTime
	maxRecordBytes int64        // 0: no limit

	maxTimestamp kafka.WallMs
	unordered    bool // offset deltas are not 0, 1, 2, …
	badTimestamp bool
	errs         []RecordError
}

func (s *scanner) run(c *cursor, count int32) error {
	for i := int32(0); i < count; i++ {
		if c.r == nil && s.plain(c, i) {
			continue
		}
		if err := s.record(c, i); err != nil {
			return fmt.Errorf("record %d of %d: %w", i, count, err)
		}
	}
	end, err := c.atEnd()
	if err == nil && !end {
		err = fmt.Errorf("%w: Incorrect declared batch size, records still remaining", ErrCorrupt)
	}
	return err
}

// plain is record for the usual case, which it must keep cheap: records in
// memory, lengths that fit, no headers. It reports false, with nothing
// consumed, for anything else; record then finds out what it is.
func (s *scanner) plain(c *cursor, i int32) bool {
	b := c.buf[c.pos:c.end]
	size, n := shortVarint(b)
	if n == 0 || size < 6 || size > len(b)-n {
		return false
	}
	next := n + size
	b = b[n:next]
	at := 1 // attributes
	ts, n := shortVarint(b[at:])
	if n == 0 {
		return false
	}
	at += n
	delta, n := shortVarint(b[at:])
	if n == 0 {
		return false
	}
	at += n
	key, n := shortVarint(b[at:])
	if n == 0 || key < -1 || key > len(b)-at-n {
		return false
	}
	at += n + max(key, 0)
	value, n := shortVarint(b[at:])
	if n == 0 || value < -1 || value > len(b)-at-n {
		return false
	}
	at += n + max(value, 0)
	if at != len(b)-1 || b[at] != 0 { // one byte: no headers
		return false
	}
	if delta != int(i) {
		s.unordered = true
	}
	c.pos += next
	s.judge(i, key >= 0, s.base+kafka.WallMs(ts))
	return true
}

// shortVarint reads a zigzag varint of up to three bytes; n is 0 for longer or
// incomplete ones.
func shortVarint(b []byte) (v, n int) {
	if len(b) < 1 {
		return 0, 0
	}
	u := uint(b[0])
	if u < 0x80 {
		return int(u>>1) ^ -int(u&1), 1
	}
	if len(b) < 3 {
		return 0, 0
	}
	u = u&0x7f | uint(b[1]&0x7f)<<7
	if b[1] < 0x80 {
		return int(u>>1) ^ -int(u&1), 2
	}
	if b[2] >= 0x80 {
		return 0, 0
	}
	u |= uint(b[2]) << 14
	return int(u>>1) ^ -int(u&1), 3
}

func (s *scanner) record(c *cursor, i int32) error {
	size, err := c.varint(5)
	if err != nil {
		return err
	}
	start := c.offset()
	if size < 0 || c.r == nil && size > int64(c.end-c.pos) {
		return fmt.Errorf("%w: record of %d bytes", ErrCorrupt, size)
	}
	if s.maxRecordBytes > 0 && size > s.maxRecordBytes {
		return fmt.Errorf("record of %d bytes exceeds max.decompressed.message.bytes of %d", size, s.maxRecordBytes)
	}
	if _, err = c.byte(); err != nil { // attributes, unused
		return err
	}
	ts, err := c.varint(10)
	if err != nil {
		return err
	}
	delta, err := c.varint(5)
	if err != nil {
		return err
	}
	if delta != int64(i) {
		s.unordered = true
	}
	hasKey, err := skipBytes(c)
	if err != nil {
		return err
	}
	if _, err = skipBytes(c); err != nil {
		return err
	}
	if err = skipHeaders(c, size); err != nil {
		return err
	}
	if got := c.offset() - start; got != size {
		return fmt.Errorf("%w: record of %d bytes uses %d", ErrCorrupt, size, got)
	}
	s.judge(i, hasKey, s.base+kafka.WallMs(ts))
	return nil
}

// skipBytes passes over a nullable byte string; it reports whether there was one.
func skipBytes(c *cursor) (bool, error) {
	n, err := c.varint(5)
	if err != nil || n < 0 {
		if err == nil && n != -1 {
			err = fmt.Errorf("%w: length %d", ErrCorrupt, n)
		}
		return false, err
	}
	return true, c.skip(n)
}

func skipHeaders(c *cursor, recordSize int64) error {
	n, err := c.varint(5)
	if err != nil {
		return err
	}
	if n < 0 || n > recordSize {
		return fmt.Errorf("%w: %d headers in a record of %d bytes", ErrCorrupt, n, recordSize)
	}
	for ; n > 0; n-- {
		hasKey, err := skipBytes(c)
		if err != nil {
			return err
		}
		if !hasKey {
			return fmt.Errorf("%w: null header key", ErrCorrupt)
		}
		if _, err = skipBytes(c); err != nil {
			return err
		}
	}
	return nil
}

// judge applies the rules about keys and timestamps, as LogValidator's
// validateKey and validateTimestamp.
func (s *scanner) judge(i int32, hasKey bool, ts kafka.WallMs) {
	if s.isForced {
		ts = s.forced
	}
	s.maxTimestamp = max(s.maxTimestamp, ts)
	switch {
	case s.rules.Compacted && !hasKey:
		s.fault(i, false, "Compacted topic cannot accept message without key")
	case !s.rules.LogAppendTime && ts != kafka.NoTimestamp:
		if age := int64(s.now) - int64(ts); age > s.rules.BeforeMaxMs || -age > s.rules.AfterMaxMs {
			s.fault(i, true, fmt.Sprintf("Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
				ts, i, int64(s.now)-s.rules.BeforeMaxMs, int64(s.now)+s.rules.AfterMaxMs))
		}
	case s.isForced:
		s.fault(i, true, "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime.")
	}
}

func (s *scanner) fault(i int32, timestamp bool, message string) {
	s.badTimestamp = s.badTimestamp || timestamp
	if len(s.errs) < maxRecordErrors {
		s.errs = append(s.errs, RecordError{Index: i, Message: message})
	}
}

func (s *scanner) rejection() Rejection {
	r := Rejection{Records: s.errs}
	if s.badTimestamp {
		r.Code, r.Message = kafka.ErrInvalidTimestamp, "One or more records have been rejected due to invalid timestamp"
	} else {
		r.Code = kafka.ErrInvalidRecord
		r.Message = fmt.Sprintf("One or more records have been rejected due to %d record errors in total, the first: %s", len(s.errs), s.errs[0].Message)
	}
	return r
}
