package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"moldau/internal/kafka"
)

// Positions of the fields; see the package comment.
const (
	posBaseOffset    = 0
	posLength        = 8
	posLeaderEpoch   = 12
	posMagic         = 16
	posCRC           = 17
	posAttributes    = 21
	posLastDelta     = 23
	posBaseTimestamp = 27
	posMaxTimestamp  = 35
	posProducerID    = 43
	posProducerEpoch = 51
	posBaseSequence  = 53
	posCount         = 57

	// PrefixSize is the length of base offset and length field, which every
	// format shares (Kafka's LOG_OVERHEAD).
	PrefixSize = 12
	// HeaderSize is the length of a v2 batch without records.
	HeaderSize = 61
	// MagicEnd is how many bytes of an entry must be read to know its format.
	MagicEnd = 17
)

// Bits of the attributes.
const (
	attrCodecMask     = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// Codec is the compression of a batch, with Kafka's numbers.
type Codec int8

// The codecs of Kafka.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// String gives the name that compression.type uses ("none" for None).
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of reading. They are wrapped with positions and values.
var (
	// ErrTruncated: the bytes end before the entry does.
	ErrTruncated = errors.New("batch is cut short")
	// ErrCorrupt: a length, count or checksum is wrong.
	ErrCorrupt = errors.New("batch is corrupt")
	// ErrMagic: the format is not the one asked for.
	ErrMagic = errors.New("batch has another format version")
)

// Batch is one whole v2 batch, header and records. Its accessors assume that
// Next or Parse has accepted it.
type Batch []byte

// Next splits the first v2 batch off buf. It checks the length field, the
// magic and that the batch is whole, but not the CRC.
func Next(buf []byte) (b Batch, rest []byte, err error) {
	size, err := EntrySize(buf)
	if err != nil {
		return nil, nil, err
	}
	if size > len(buf) {
		return nil, nil, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, len(buf), size)
	}
	if size < MagicEnd || buf[posMagic] != 2 {
		return nil, nil, fmt.Errorf("%w: want 2", ErrMagic)
	}
	if size < HeaderSize {
		return nil, nil, fmt.Errorf("%w: size %d below the header's %d", ErrCorrupt, size, HeaderSize)
	}
	return Batch(buf[:size:size]), buf[size:], nil
}

// EntrySize reads how long the entry at the start of buf is, in bytes, prefix
// included; any format. buf need hold only the prefix.
func EntrySize(buf []byte) (int, error) {
	if len(buf) < PrefixSize {
		return 0, fmt.Errorf("%w: %d bytes of a prefix of %d", ErrTruncated, len(buf), PrefixSize)
	}
	n := int32(binary.BigEndian.Uint32(buf[posLength:]))
	if n < 14 { // the smallest message of format v0
		return 0, fmt.Errorf("%w: length field %d", ErrCorrupt, n)
	}
	return PrefixSize + int(n), nil
}

func (b Batch) i16(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }
func (b Batch) i32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) i64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// Magic is the format version: 2, or that of an old entry read by its header.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// BaseOffset is the offset of the first record the batch ever had.
func (b Batch) BaseOffset() kafka.Offset { return kafka.Offset(b.i64(posBaseOffset)) }

// LastOffset is the offset of the last record the batch ever had; compaction
// may have removed that record.
func (b Batch) LastOffset() kafka.Offset { return b.BaseOffset() + kafka.Offset(b.LastOffsetDelta()) }

// NextOffset is the offset after the batch.
func (b Batch) NextOffset() kafka.Offset { return b.LastOffset() + 1 }

// Size is the length of the batch in bytes, prefix included.
func (b Batch) Size() int { return PrefixSize + int(b.i32(posLength)) }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() kafka.Epoch { return kafka.Epoch(b.i32(posLeaderEpoch)) }

// CRC is the checksum stored in the batch.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// ComputeCRC computes the checksum that the batch should carry.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

// Valid tells whether the checksum is right.
func (b Batch) Valid() bool { return b.CRC() == b.ComputeCRC() }

// Attributes are the flag bits as stored.
func (b Batch) Attributes() int16 { return b.i16(posAttributes) }

// Codec is the compression of the records; values above Zstd are not known.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodecMask) }

// LogAppendTime tells whether MaxTimestamp, set by the broker, is the
// timestamp of every record.
func (b Batch) LogAppendTime() bool { return b.Attributes()&attrLogAppendTime != 0 }

// Transactional tells whether the batch belongs to a transaction.
func (b Batch) Transactional() bool { return b.Attributes()&attrTransactional != 0 }

// Control tells whether the records are markers rather than data.
func (b Batch) Control() bool { return b.Attributes()&attrControl != 0 }

// HasDeleteHorizon tells whether the base timestamp is the time after which
// tombstones may go (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&attrDeleteHorizon != 0 }

// LastOffsetDelta is LastOffset − BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return b.i32(posLastDelta) }

// BaseTimestamp is what the records' timestamp deltas count from.
func (b Batch) BaseTimestamp() kafka.WallMs { return kafka.WallMs(b.i64(posBaseTimestamp)) }

// MaxTimestamp is the largest timestamp of the records, or the append time.
func (b Batch) MaxTimestamp() kafka.WallMs { return kafka.WallMs(b.i64(posMaxTimestamp)) }

// ProducerID is that of an idempotent producer, or NoProducerID.
func (b Batch) ProducerID() kafka.ProducerID { return kafka.ProducerID(b.i64(posProducerID)) }

// ProducerEpoch goes with ProducerID.
func (b Batch) ProducerEpoch() kafka.ProducerEpoch {
	return kafka.ProducerEpoch(b.i16(posProducerEpoch))
}

// BaseSequence is the sequence of the first record, or NoSequence.
func (b Batch) BaseSequence() kafka.Sequence { return kafka.Sequence(b.i32(posBaseSequence)) }

// LastSequence is the sequence of the last record, or NoSequence.
func (b Batch) LastSequence() kafka.Sequence {
	if s := b.BaseSequence(); s != kafka.NoSequence {
		return s.Add(b.LastOffsetDelta())
	}
	return kafka.NoSequence
}

// Count is the number of records as the header claims it.
func (b Batch) Count() int32 { return b.i32(posCount) }

// Records are the bytes after the header, compressed if Codec says so.
func (b Batch) Records() []byte { return b[HeaderSize:] }

// SetBaseOffset patches the base offset, which the CRC does not cover.
func (b Batch) SetBaseOffset(o kafka.Offset) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(o))
}

// SetLeaderEpoch patches the leader epoch, which the CRC does not cover.
func (b Batch) SetLeaderEpoch(e kafka.Epoch) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(e))
}

// SetMaxTimestamp patches the timestamp type and the max timestamp and
// computes the CRC anew, as Kafka's DefaultRecordBatch.setMaxTimestamp.
func (b Batch) SetMaxTimestamp(logAppendTime bool, ts kafka.WallMs) {
	attr := b.Attributes() &^ attrLogAppendTime
	if logAppendTime {
		attr |= attrLogAppendTime
	}
	if attr == b.Attributes() && ts == b.MaxTimestamp() {
		return
	}
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attr))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ts))
	b.seal()
}

func (b Batch) seal() { binary.BigEndian.PutUint32(b[posCRC:], b.ComputeCRC()) }
