package seglog

import (
	"cmp"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/producerstate"
)

// cleanedTxns follows transactions through a pass over the log: which batches
// belong to aborted ones, and which markers have nothing left to decide
// (Kafka's CleanedTransactionMetadata). Everything it sees is decided.
type cleanedTxns struct {
	waiting   []AbortedTxn // not begun yet, by first offset
	aborted   map[kafka.ProducerID]*abortedSoFar
	committed map[kafka.ProducerID]struct{} // with batches since the last marker
	// kept are the aborted transactions of which a batch was seen and whose marker
	// therefore stays: the new transaction index.
	kept []AbortedTxn
}

type abortedSoFar struct {
	txn  AbortedTxn
	seen bool // a batch of it
}

func newCleanedTxns() *cleanedTxns {
	return &cleanedTxns{aborted: map[kafka.ProducerID]*abortedSoFar{}, committed: map[kafka.ProducerID]struct{}{}}
}

// add tells of aborted transactions that overlap what comes next. One may be
// told of several times.
func (x *cleanedTxns) add(list []AbortedTxn) {
	x.waiting = append(x.waiting, list...)
	slices.SortFunc(x.waiting, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
}

func (x *cleanedTxns) begin(upTo kafka.Offset) {
	n := 0
	for ; n < len(x.waiting) && x.waiting[n].FirstOffset <= upTo; n++ {
		t := x.waiting[n]
		if x.aborted[t.ProducerID] == nil {
			x.aborted[t.ProducerID] = &abortedSoFar{txn: t}
		}
	}
	x.waiting = x.waiting[n:]
}

// data tells whether a batch of records was aborted.
func (x *cleanedTxns) data(b batch.Batch) (aborted bool) {
	x.begin(b.LastOffset())
	if !b.Transactional() {
		return false
	}
	if t := x.aborted[b.ProducerID()]; t != nil {
		t.seen = true
		return true
	}
	x.committed[b.ProducerID()] = struct{}{}
	return false
}

// control tells whether a control batch has nothing left to decide.
func (x *cleanedTxns) control(b batch.Batch) (idle bool, err error) {
	x.begin(b.LastOffset())
	m, ok, err := producerstate.ParseMarker(b)
	if err != nil || !ok {
		return b.Count() == 0, err // the marker was removed before, or is none
	}
	id := b.ProducerID()
	if m.Commit {
		_, any := x.committed[id]
		delete(x.committed, id)
		return !any, nil
	}
	t := x.aborted[id]
	delete(x.aborted, id)
	if t == nil || !t.seen {
		return true, nil
	}
	x.kept = append(x.kept, t.txn)
	return false, nil
}
