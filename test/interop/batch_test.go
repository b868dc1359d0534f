package interop

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// testRecord is a record of a hand-made batch.
type testRecord struct {
	key, value []byte
	delta      int32
	timeDelta  int64
}

// testBatch is a record batch of version 2 whose every field can be wrong.
type testBatch struct {
	base       int64
	magic      int8
	attributes int16
	first, max int64 // timestamps
	producer   int64
	epoch      int16
	sequence   int32
	codec      kgo.CompressionCodec
	records    []testRecord
	count      int32 // of records, if not 0; −1 means none
	lastDelta  int32 // if not 0
	lengthBy   int32 // added to the length field
	crcBy      uint32
	cutBytes   int
}

func plain(values ...string) testBatch {
	b := testBatch{magic: 2, first: 1_700_000_000_000, max: 1_700_000_000_000, producer: -1, epoch: -1, sequence: -1, codec: kgo.NoCompression()}
	for i, v := range values {
		b.records = append(b.records, testRecord{value: []byte(v), delta: int32(i)})
	}
	return b
}

func (b testBatch) with(change func(*testBatch)) testBatch {
	change(&b)
	return b
}

func (b testBatch) bytes() []byte {
	var records []byte
	for _, r := range b.records {
		rec := kmsg.Record{Key: r.key, Value: r.value, OffsetDelta: r.delta, TimestampDelta64: r.timeDelta}
		body := rec.AppendTo(nil)[1:] // without the length, which is 0 in one byte
		records = binary.AppendVarint(records, int64(len(body)))
		records = append(records, body...)
	}
	if c, err := kgo.DefaultCompressor(b.codec); err == nil && c != nil {
		var kind kgo.CompressionCodecType
		buf := new(bytes.Buffer)
		records, kind = c.Compress(buf, records)
		b.attributes |= int16(kind)
	}
	last := int32(len(b.records)) - 1
	if b.lastDelta != 0 {
		last = b.lastDelta
	}
	count := int32(len(b.records))
	switch {
	case b.count == -1:
		count = 0
	case b.count != 0:
		count = b.count
	}
	body := binary.BigEndian.AppendUint16(nil, uint16(b.attributes))
	body = binary.BigEndian.AppendUint32(body, uint32(last))
	body = binary.BigEndian.AppendUint64(body, uint64(b.first))
	body = binary.BigEndian.AppendUint64(body, uint64(b.max))
	body = binary.BigEndian.AppendUint64(body, uint64(b.producer))
	body = binary.BigEndian.AppendUint16(body, uint16(b.epoch))
	body = binary.BigEndian.AppendUint32(body, uint32(b.sequence))
	body = binary.BigEndian.AppendUint32(body, uint32(count))
	body = append(body, records...)
	crc := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) + b.crcBy
	out := binary.BigEndian.AppendUint64(nil, uint64(b.base))
	out = binary.BigEndian.AppendUint32(out, uint32(int32(len(body))+9+b.lengthBy))
	out = binary.BigEndian.AppendUint32(out, ^uint32(0)) // leader epoch
	out = append(out, byte(b.magic))
	out = binary.BigEndian.AppendUint32(out, crc)
	out = append(out, body...)
	return out[:len(out)-b.cutBytes]
}
