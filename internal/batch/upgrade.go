package batch

import (
	"encoding/binary"
	"fmt"
	"math"

	"moldau/internal/kafka"
)

// Upgrade appends an entry of format v0 or v1 to dst as a batch of format v2, as
// Kafka's cleaner writes what it keeps of one (MemoryRecords.filterTo, KIP-724):
// the same messages at the same offsets, with its codec, without epoch and
// producer. Where format v0 has no timestamps there are none. A set expands to
// limitBytes at most.
func (w *Workspace) Upgrade(dst []byte, o Old, limitBytes int64) ([]byte, error) {
	c := &w.cleaning
	c.payload = c.payload[:0]
	var first, last kafka.Offset
	base, newest, count := kafka.NoTimestamp, kafka.NoTimestamp, int32(0)
	err := o.Each(w, limitBytes, func(m Message) error {
		if count == 0 {
			first, base = m.Offset, m.Timestamp
		} else if m.Offset <= last {
			return fmt.Errorf("%w: offset %d after %d in a set", ErrCorrupt, m.Offset, last)
		}
		last, newest = m.Offset, max(newest, m.Timestamp)
		count++
		if last-first > math.MaxInt32 {
			return fmt.Errorf("%w: offsets %d to %d in a set", ErrCorrupt, first, last)
		}
		r := Record{OffsetDelta: int32(last - first), TimestampDelta: int64(m.Timestamp - base), Key: m.Key, Value: m.Value}
		c.payload = r.appendTo(c.payload)
		return nil
	})
	if err == nil && (first < 0 || last != o.Offset()) {
		err = fmt.Errorf("%w: a set at %d holds offsets %d to %d", ErrCorrupt, o.Offset(), first, last)
	}
	if err != nil {
		return dst, err
	}
	start := len(dst)
	out, err := w.pack(append(dst, make([]byte, HeaderSize)...), o.codec(), c.payload)
	if err != nil {
		return dst, err
	}
	b := Batch(out[start:])
	attr := int16(o.codec())
	if o.logAppendTime() {
		attr |= attrLogAppendTime
	}
	be := binary.BigEndian
	none := kafka.NoEpoch
	be.PutUint64(b[posBaseOffset:], uint64(first))
	be.PutUint32(b[posLength:], uint32(len(b)-PrefixSize))
	be.PutUint32(b[posLeaderEpoch:], uint32(none))
	b[posMagic] = 2
	be.PutUint16(b[posAttributes:], uint16(attr))
	be.PutUint32(b[posLastDelta:], uint32(last-first))
	be.PutUint64(b[posBaseTimestamp:], uint64(base))
	be.PutUint64(b[posMaxTimestamp:], uint64(newest))
	for i := posProducerID; i < posCount; i++ {
		b[i] = 0xff // no producer id, epoch, sequence: −1 each
	}
	be.PutUint32(b[posCount:], uint32(count))
	b.seal()
	return out, nil
}
