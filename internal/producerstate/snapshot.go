package producerstate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"moldau/internal/kafka"
)

// Entry is one producer in a snapshot file: Kafka's ProducerSnapshot schema,
// version 1. Only the last batch of the window is kept.
type Entry struct {
	ProducerID       kafka.ProducerID
	Epoch            kafka.ProducerEpoch
	LastSequence     kafka.Sequence
	LastOffset       kafka.Offset // of the last data batch, or NoOffset
	OffsetDelta      int32
	Timestamp        kafka.WallMs
	CoordinatorEpoch kafka.Epoch
	TxnFirstOffset   kafka.Offset // of the open transaction, or NoOffset
}

const (
	snapshotVersion = 1
	snapshotHeader  = 2 + 4 + 4 // version, CRC-32C of what follows it, count
	snapshotEntry   = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
	snapshotCRCFrom = 6
)

// ErrSnapshot says that a snapshot file is not usable. Producer state can be
// rebuilt from the log, so the file is to be deleted and an older one tried.
var ErrSnapshot = errors.New("producer snapshot is corrupt")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSnapshot appends the file content for entries, in their order.
func AppendSnapshot(buf []byte, entries []Entry) []byte {
	start := len(buf)
	buf = slices.Grow(buf, snapshotHeader+len(entries)*snapshotEntry)
	be := binary.BigEndian
	buf = be.AppendUint16(buf, snapshotVersion)
	buf = be.AppendUint32(buf, 0)
	buf = be.AppendUint32(buf, uint32(len(entries)))
	for _, e := range entries {
		buf = be.AppendUint64(buf, uint64(e.ProducerID))
		buf = be.AppendUint16(buf, uint16(e.Epoch))
		buf = be.AppendUint32(buf, uint32(e.LastSequence))
		buf = be.AppendUint64(buf, uint64(e.LastOffset))
		buf = be.AppendUint32(buf, uint32(e.OffsetDelta))
		buf = be.AppendUint64(buf, uint64(e.Timestamp))
		buf = be.AppendUint32(buf, uint32(e.CoordinatorEpoch))
		buf = be.AppendUint64(buf, uint64(e.TxnFirstOffset))
	}
	file := buf[start:]
	be.PutUint32(file[2:], crc32.Checksum(file[snapshotCRCFrom:], castagnoli))
	return buf
}

// DecodeSnapshot reads a snapshot file. Errors wrap ErrSnapshot.
func DecodeSnapshot(file []byte) ([]Entry, error) {
	be := binary.BigEndian
	if len(file) < snapshotHeader {
		return nil, fmt.Errorf("%w: %d bytes", ErrSnapshot, len(file))
	}
	if v := be.Uint16(file); v != snapshotVersion {
		return nil, fmt.Errorf("%w: version %d", ErrSnapshot, int16(v))
	}
	if stored, got := be.Uint32(file[2:]), crc32.Checksum(file[snapshotCRCFrom:], castagnoli); stored != got {
		return nil, fmt.Errorf("%w: CRC %08x, computed %08x", ErrSnapshot, stored, got)
	}
	n, body := int64(int32(be.Uint32(file[6:]))), file[snapshotHeader:]
	if n < 0 || n*snapshotEntry > int64(len(body)) {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", ErrSnapshot, n, len(body))
	}
	entries := make([]Entry, n)
	for i := range entries {
		b := body[i*snapshotEntry:]
		entries[i] = Entry{
			ProducerID:       kafka.ProducerID(be.Uint64(b)),
			Epoch:            kafka.ProducerEpoch(be.Uint16(b[8:])),
			LastSequence:     kafka.Sequence(be.Uint32(b[10:])),
			LastOffset:       kafka.Offset(be.Uint64(b[14:])),
			OffsetDelta:      int32(be.Uint32(b[22:])),
			Timestamp:        kafka.WallMs(be.Uint64(b[26:])),
			CoordinatorEpoch: kafka.Epoch(be.Uint32(b[34:])),
			TxnFirstOffset:   kafka.Offset(be.Uint64(b[38:])),
		}
	}
	return entries, nil
}

// Snapshot lists the producers for a snapshot file, sorted by id.
func (t *Table) Snapshot() []Entry {
	out := make([]Entry, len(t.entries))
	for i := range t.entries {
		e := &t.entries[i]
		out[i] = Entry{
			ProducerID: e.id, Epoch: e.epoch, LastSequence: kafka.NoSequence, LastOffset: kafka.NoOffset,
			Timestamp: e.lastTimestamp, CoordinatorEpoch: e.coordEpoch, TxnFirstOffset: e.txnFirst,
		}
		if b := e.last(); b != nil {
			out[i].LastSequence, out[i].LastOffset, out[i].OffsetDelta = b.lastSeq, b.lastOffset, b.offsetDelta
		}
	}
	slices.SortFunc(out, func(a, b Entry) int {
		if a.ProducerID < b.ProducerID {
			return -1
		}
		return 1
	})
	return out
}

// Load replaces the state by that of a snapshot file which ends at end, without
// the producers that have expired since. An id that occurs twice counts once,
// as the last one says.
func (t *Table) Load(entries []Entry, end kafka.Offset, now kafka.WallMs, expirationMs int64) {
	t.Reset(end)
	for _, s := range entries {
		if expired(s.TxnFirstOffset, s.Timestamp, now, expirationMs) {
			continue
		}
		e := t.findOrAdd(s.ProducerID)
		*e = newEntry(s.ProducerID)
		e.epoch, e.coordEpoch, e.lastTimestamp = s.Epoch, s.CoordinatorEpoch, s.Timestamp
		if s.LastOffset >= 0 {
			e.add(batchMeta{lastOffset: s.LastOffset, timestamp: s.Timestamp, lastSeq: s.LastSequence, offsetDelta: s.OffsetDelta})
		}
		if s.TxnFirstOffset >= 0 {
			e.txnFirst = s.TxnFirstOffset
			t.txns.ongoing = insert(t.txns.ongoing, openTxn{s.TxnFirstOffset, kafka.NoOffset, s.ProducerID})
		}
	}
}
