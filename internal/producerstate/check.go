package producerstate

import (
	"fmt"

	"moldau/internal/kafka"
)

// Origin says where a batch comes from, which decides how much is checked
// (Kafka's AppendOrigin).
type Origin uint8

// The origins.
const (
	Client      Origin = iota // a Produce request: everything is checked
	Coordinator               // written by a coordinator: epochs are checked, there are no sequences
	Replication               // fetched from the leader, or read back: nothing is checked
)

// Context is what Check must know besides the batch.
type Context struct {
	Origin Origin
	// LogHeldRecords tells whether the log has ever held a record, that is, its
	// end offset is above 0. A log that never has takes only sequence 0 from a
	// producer it does not know (KAFKA-15591); one that lost its records to
	// retention takes any (KIP-360).
	LogHeldRecords bool
	// EpochBump: the producer uses transaction version 2, under which a first
	// sequence other than 0 is refused whenever there is no state (KAFKA-18202).
	EpochBump bool
	// Verifying: the partition is being verified with the coordinator, and
	// LowestSequence is the lowest one seen since (VerificationStateEntry).
	Verifying      bool
	LowestSequence kafka.Sequence
	// TransactionVersion is that of the request that writes a marker; from 2 on
	// a marker's epoch must be above the producer's.
	TransactionVersion int16
}

// Kind is what to do with a batch.
type Kind uint8

// The kinds of a Verdict.
const (
	Append    Kind = iota // it is new
	Duplicate             // it is in the log already: answer success, with its place
	Reject                // answer Code
)

// Verdict is the answer of Check.
type Verdict struct {
	Kind Kind
	// Code and Reason are set for Reject. The reason is for the log, not for
	// the client.
	Code   kafka.ErrorCode
	Reason string
	// BaseOffset, LastOffset and Timestamp are set for Duplicate: where the
	// first copy is, and its max timestamp.
	BaseOffset, LastOffset kafka.Offset
	Timestamp              kafka.WallMs
}

func reject(code kafka.ErrorCode, format string, args ...any) Verdict {
	return Verdict{Kind: Reject, Code: code, Reason: fmt.Sprintf(format, args...)}
}

// Check decides about a data batch before it is appended. One request may hold
// only one batch per partition of a producer with an id, as Kafka demands;
// so Check need not know of batches that are not yet in the log.
func (t *Table) Check(h Header, ctx Context) Verdict {
	if h.ProducerID == kafka.NoProducerID || ctx.Origin == Replication {
		return Verdict{}
	}
	e := t.find(h.ProducerID)
	if ctx.Origin == Client {
		if h.BaseSequence < 0 || h.ProducerEpoch < 0 {
			return reject(kafka.ErrInvalidRecord, "producer %d: epoch %d, sequence %d", h.ProducerID, h.ProducerEpoch, h.BaseSequence)
		}
		if e != nil {
			if b := e.duplicate(h); b != nil {
				return Verdict{Kind: Duplicate, BaseOffset: b.lastOffset - kafka.Offset(b.offsetDelta), LastOffset: b.lastOffset, Timestamp: b.timestamp}
			}
		}
	}
	unknown := newEntry(h.ProducerID)
	if e == nil {
		e = &unknown
	}
	if h.ProducerEpoch < e.epoch {
		return reject(kafka.ErrInvalidProducerEpoch, "producer %d: epoch %d is older than %d", h.ProducerID, h.ProducerEpoch, e.epoch)
	}
	if ctx.Origin == Client {
		if v := e.checkSequence(h, ctx); v.Kind == Reject {
			return v
		}
	}
	if e.txnFirst >= 0 && !h.Transactional {
		return reject(kafka.ErrInvalidTxnState, "producer %d: batch outside of the transaction open since offset %d", h.ProducerID, e.txnFirst)
	}
	return Verdict{}
}

// duplicate finds the remembered batch with exactly these sequences.
func (e *entry) duplicate(h Header) *batchMeta {
	if e.epoch != h.ProducerEpoch {
		return nil
	}
	for i := range int(e.count) {
		if b := e.at(i); b.firstSeq() == h.BaseSequence && b.lastSeq == h.LastSequence {
			return b
		}
	}
	return nil
}

// checkSequence is ProducerAppendInfo.checkSequence, with the rule of
// KAFKA-15591 added.
func (e *entry) checkSequence(h Header, ctx Context) Verdict {
	const code = kafka.ErrOutOfOrderSequenceNumber
	first, known := h.BaseSequence, e.epoch != kafka.NoProducerEpoch
	switch {
	case first != 0 && ctx.Verifying && ctx.EpochBump && e.count == 0:
		return reject(code, "producer %d: sequence %d without state, transaction version 2 wants 0", h.ProducerID, first)
	case ctx.Verifying && first > ctx.LowestSequence:
		return reject(code, "producer %d: sequence %d after %d was refused", h.ProducerID, first, ctx.LowestSequence)
	case first != 0 && !known && !ctx.LogHeldRecords:
		return reject(code, "producer %d: sequence %d is the first ever in this log, want 0", h.ProducerID, first)
	case !known:
		return Verdict{} // its records are gone: any sequence will do
	case h.ProducerEpoch != e.epoch && first != 0:
		return reject(code, "producer %d: sequence %d in new epoch %d, want 0", h.ProducerID, first, h.ProducerEpoch)
	case h.ProducerEpoch == e.epoch && first != e.lastSeq().Add(1):
		return reject(code, "producer %d: sequence %d after %d", h.ProducerID, first, e.lastSeq())
	}
	return Verdict{}
}

// CheckMarker decides about a transaction marker before it is appended.
func (t *Table) CheckMarker(h Header, m Marker, ctx Context) Verdict {
	e := t.find(h.ProducerID)
	if e == nil || ctx.Origin == Replication {
		return Verdict{}
	}
	if h.ProducerEpoch < e.epoch || h.ProducerEpoch == e.epoch && ctx.TransactionVersion >= 2 {
		return reject(kafka.ErrInvalidProducerEpoch, "producer %d: marker with epoch %d, have %d (transaction version %d)",
			h.ProducerID, h.ProducerEpoch, e.epoch, ctx.TransactionVersion)
	}
	if m.CoordinatorEpoch < e.coordEpoch {
		return reject(kafka.ErrTransactionCoordinatorFenced, "producer %d: marker of coordinator epoch %d, have %d",
			h.ProducerID, m.CoordinatorEpoch, e.coordEpoch)
	}
	return Verdict{}
}
