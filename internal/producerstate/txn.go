package producerstate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// Marker is the end of a transaction, as a control record says it.
type Marker struct {
	Commit           bool
	CoordinatorEpoch kafka.Epoch
	Timestamp        kafka.WallMs
}

// CompletedTxn is a transaction whose marker has been appended.
type CompletedTxn struct {
	ProducerID  kafka.ProducerID
	FirstOffset kafka.Offset
	LastOffset  kafka.Offset // of the marker
	Aborted     bool
	// LastStableOffset is the LSO that the marker leaves; the transaction index
	// keeps it.
	LastStableOffset kafka.Offset
}

// HeaderOf reads what the rules need of a v2 batch.
func HeaderOf(b batch.Batch) Header {
	return Header{
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(),
		BaseSequence: b.BaseSequence(), LastSequence: b.LastSequence(),
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(),
		MaxTimestamp: b.MaxTimestamp(), Transactional: b.Transactional(),
	}
}

var errFirstOnly = errors.New("first record only")

// ParseMarker reads the transaction marker of a control batch. ok is false if
// the batch holds no marker: another kind of control record, or none because
// the cleaner has removed it.
func ParseMarker(b batch.Batch) (m Marker, ok bool, err error) {
	if !b.Control() || b.ProducerID() == kafka.NoProducerID || b.Count() == 0 {
		return m, false, nil
	}
	err = b.EachRecord(func(r *batch.Record) error {
		if len(r.Key) < 4 {
			return fmt.Errorf("%w: control record key of %d bytes", batch.ErrCorrupt, len(r.Key))
		}
		switch kind := int16(binary.BigEndian.Uint16(r.Key[2:])); kind {
		case 0, 1:
			if len(r.Value) < 6 {
				return fmt.Errorf("%w: transaction marker of %d bytes", batch.ErrCorrupt, len(r.Value))
			}
			ok = true
			m.Commit = kind == 1
			m.CoordinatorEpoch = kafka.Epoch(binary.BigEndian.Uint32(r.Value[2:]))
			m.Timestamp = b.BaseTimestamp() + kafka.WallMs(r.TimestampDelta)
			if b.LogAppendTime() {
				m.Timestamp = b.MaxTimestamp()
			}
		}
		return errFirstOnly
	})
	if errors.Is(err, errFirstOnly) {
		err = nil
	}
	return m, ok, err
}

// Replay takes in any v2 batch that is in the log: data, marker, or other. It
// is what followers and recovery use; done is set as by UpdateMarker.
func (t *Table) Replay(b batch.Batch) (done CompletedTxn, completed bool, err error) {
	if !b.Control() {
		t.Update(HeaderOf(b))
		return done, false, nil
	}
	m, ok, err := ParseMarker(b)
	if err != nil {
		return done, false, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	if !ok {
		t.end = b.NextOffset()
		return done, false, nil
	}
	done, completed = t.UpdateMarker(HeaderOf(b), m)
	return done, completed, nil
}

// openTxn is a transaction that is undecided, or decided but perhaps not yet
// replicated.
type openTxn struct {
	first, last kafka.Offset // last is that of the marker, or NoOffset
	id          kafka.ProducerID
}

// transactions holds them sorted by first offset.
type transactions struct {
	ongoing      []openTxn
	unreplicated []openTxn
}

func insert(list []openTxn, x openTxn) []openTxn {
	i, _ := slices.BinarySearchFunc(list, x.first, func(o openTxn, first kafka.Offset) int { return int(min(max(o.first-first, -1), 1)) })
	return slices.Insert(list, i, x)
}

func (x *transactions) begin(first kafka.Offset, id kafka.ProducerID) {
	x.ongoing = insert(x.ongoing, openTxn{first, kafka.NoOffset, id})
}

func (x *transactions) complete(done CompletedTxn) {
	x.ongoing = slices.DeleteFunc(x.ongoing, func(o openTxn) bool { return o.first == done.FirstOffset })
	x.unreplicated = insert(x.unreplicated, openTxn{done.FirstOffset, done.LastOffset, done.ProducerID})
}

// stableWithout is the LSO if the producer's transaction were complete.
func (x *transactions) stableWithout(id kafka.ProducerID, end kafka.Offset) kafka.Offset {
	for _, o := range x.ongoing {
		if o.id != id {
			return o.first
		}
	}
	return end
}

// FirstUnstableOffset is the first offset of the oldest transaction that is
// undecided, or whose marker HighWatermark has not yet passed; NoOffset if
// there is none. Below it (and the high watermark) read_committed may read.
func (t *Table) FirstUnstableOffset() kafka.Offset {
	first := kafka.NoOffset
	for _, list := range [][]openTxn{t.txns.ongoing, t.txns.unreplicated} {
		if len(list) > 0 && (first < 0 || list[0].first < first) {
			first = list[0].first
		}
	}
	return first
}

// HighWatermark says that everything below hw is replicated, so that markers
// there count.
func (t *Table) HighWatermark(hw kafka.Offset) {
	t.txns.unreplicated = slices.DeleteFunc(t.txns.unreplicated, func(o openTxn) bool { return o.last < hw })
}

// LogStart says that the records below start are gone. Producers stay: only
// expiry forgets them (KIP-360).
func (t *Table) LogStart(start kafka.Offset) {
	t.HighWatermark(start)
	t.end = max(t.end, start)
}
