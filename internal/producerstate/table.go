package producerstate

import (
	"moldau/internal/kafka"
)

// WindowBatches is how many batches per producer are remembered
// (ProducerStateEntry.NUM_BATCHES_TO_RETAIN). Clients have at most that many
// requests in flight.
const WindowBatches = 5

// Header is what the rules need of a batch.
type Header struct {
	ProducerID    kafka.ProducerID
	ProducerEpoch kafka.ProducerEpoch
	BaseSequence  kafka.Sequence
	LastSequence  kafka.Sequence
	BaseOffset    kafka.Offset // as assigned by the leader; not used by Check
	LastOffset    kafka.Offset
	MaxTimestamp  kafka.WallMs
	Transactional bool
}

// batchMeta is one remembered batch.
type batchMeta struct {
	lastOffset  kafka.Offset
	timestamp   kafka.WallMs
	lastSeq     kafka.Sequence
	offsetDelta int32
}

// firstSeq is the sequence that the batch began with; it wraps backwards
// (DefaultRecordBatch.decrementSequence).
func (b *batchMeta) firstSeq() kafka.Sequence {
	if b.lastSeq == kafka.NoSequence {
		return kafka.NoSequence
	}
	const limit = int64(1) << 31
	return kafka.Sequence((int64(b.lastSeq) - int64(b.offsetDelta) + limit) % limit)
}

// entry is the state of one producer, without pointers.
type entry struct {
	id            kafka.ProducerID
	lastTimestamp kafka.WallMs
	txnFirst      kafka.Offset // of the open transaction, or NoOffset
	coordEpoch    kafka.Epoch
	epoch         kafka.ProducerEpoch
	count         uint8 // batches remembered
	head          uint8 // index of the oldest
	batches       [WindowBatches]batchMeta
}

func newEntry(id kafka.ProducerID) entry {
	return entry{
		id: id, epoch: kafka.NoProducerEpoch, coordEpoch: kafka.NoEpoch,
		lastTimestamp: kafka.NoTimestamp, txnFirst: kafka.NoOffset,
	}
}

// at gives the i-th oldest batch.
func (e *entry) at(i int) *batchMeta { return &e.batches[(int(e.head)+i)%WindowBatches] }

func (e *entry) last() *batchMeta {
	if e.count == 0 {
		return nil
	}
	return e.at(int(e.count) - 1)
}

func (e *entry) lastSeq() kafka.Sequence {
	if b := e.last(); b != nil {
		return b.lastSeq
	}
	return kafka.NoSequence
}

// setEpoch forgets the batches of another epoch.
func (e *entry) setEpoch(epoch kafka.ProducerEpoch) {
	if e.epoch != epoch {
		e.epoch, e.count, e.head = epoch, 0, 0
	}
}

func (e *entry) add(b batchMeta) {
	if e.count == WindowBatches {
		e.head = (e.head + 1) % WindowBatches
		e.count--
	}
	e.count++
	*e.last() = b
}

// scanLimit is up to which size a Table searches without an index: most
// partitions have few producers, and an empty Table should cost nothing.
const scanLimit = 8

// Table is the producer state of one partition. The zero value is an empty
// table whose end offset is 0.
type Table struct {
	entries []entry
	index   map[kafka.ProducerID]int32 // nil while len(entries) ≤ scanLimit
	txns    transactions
	end     kafka.Offset
}

// Len is the number of producers.
func (t *Table) Len() int { return len(t.entries) }

// EndOffset is the offset after the last batch the state contains.
func (t *Table) EndOffset() kafka.Offset { return t.end }

// SetEndOffset says that the state contains everything below end; batches
// without producer id move it too.
func (t *Table) SetEndOffset(end kafka.Offset) { t.end = end }

// Reset forgets everything; the state then ends at end.
func (t *Table) Reset(end kafka.Offset) { *t = Table{end: end} }

func (t *Table) find(id kafka.ProducerID) *entry {
	if t.index != nil {
		if i, ok := t.index[id]; ok {
			return &t.entries[i]
		}
		return nil
	}
	for i := range t.entries {
		if t.entries[i].id == id {
			return &t.entries[i]
		}
	}
	return nil
}

func (t *Table) findOrAdd(id kafka.ProducerID) *entry {
	if e := t.find(id); e != nil {
		return e
	}
	t.entries = append(t.entries, newEntry(id))
	n := len(t.entries)
	switch {
	case t.index != nil:
		t.index[id] = int32(n - 1)
	case n > scanLimit:
		t.reindex()
	}
	return &t.entries[n-1]
}

func (t *Table) reindex() {
	t.index = nil
	if len(t.entries) <= scanLimit {
		return
	}
	t.index = make(map[kafka.ProducerID]int32, len(t.entries))
	for i := range t.entries {
		t.index[t.entries[i].id] = int32(i)
	}
}

// Update takes in a data batch that has been appended. Batches without producer
// id only move the end offset.
func (t *Table) Update(h Header) {
	t.end = h.LastOffset + 1
	if h.ProducerID == kafka.NoProducerID {
		return
	}
	e := t.findOrAdd(h.ProducerID)
	e.setEpoch(h.ProducerEpoch)
	e.add(batchMeta{
		lastOffset: h.LastOffset, timestamp: h.MaxTimestamp,
		lastSeq: h.LastSequence, offsetDelta: int32(h.LastOffset - h.BaseOffset),
	})
	e.lastTimestamp = h.MaxTimestamp
	if h.Transactional && e.txnFirst < 0 {
		e.txnFirst = h.BaseOffset
		t.txns.begin(h.BaseOffset, h.ProducerID)
	}
}

// UpdateMarker takes in a transaction marker that has been appended at
// h.BaseOffset. If the producer had data in the transaction, it is returned as
// completed; an empty transaction completes nothing.
func (t *Table) UpdateMarker(h Header, m Marker) (done CompletedTxn, ok bool) {
	t.end = h.LastOffset + 1
	e := t.findOrAdd(h.ProducerID)
	if e.txnFirst >= 0 {
		done = CompletedTxn{ProducerID: h.ProducerID, FirstOffset: e.txnFirst, LastOffset: h.BaseOffset, Aborted: !m.Commit}
		done.LastStableOffset = t.txns.stableWithout(h.ProducerID, h.BaseOffset+1)
		t.txns.complete(done)
		ok = true
	}
	e.setEpoch(h.ProducerEpoch)
	e.coordEpoch = m.CoordinatorEpoch
	e.lastTimestamp = m.Timestamp
	e.txnFirst = kafka.NoOffset
	return done, ok
}

// Expire forgets the producers whose last batch is expiration or more older
// than now (producer.id.expiration.ms), by the timestamps of the records as in
// Kafka. A producer with an open transaction stays. It returns how many went.
func (t *Table) Expire(now kafka.WallMs, expirationMs int64) int {
	kept := t.entries[:0]
	for i := range t.entries {
		if e := &t.entries[i]; !expired(e.txnFirst, e.lastTimestamp, now, expirationMs) {
			kept = append(kept, *e)
		}
	}
	gone := len(t.entries) - len(kept)
	if gone == 0 {
		return 0
	}
	if len(kept) == 0 {
		kept = nil
	} else if cap(kept) > 4*len(kept) {
		kept = append([]entry(nil), kept...) // give the room back
	}
	t.entries = kept
	t.reindex()
	return gone
}

func expired(txnFirst kafka.Offset, last, now kafka.WallMs, expirationMs int64) bool {
	return txnFirst < 0 && int64(now-last) >= expirationMs
}
