package coordinator

import (
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// Core is the brain of one coordinator: a deterministic state machine whose
// state is one partition of an internal topic. It has no clock, lock or
// goroutine; a statemachine.Machine calls it from one goroutine at a time.
//
// What the log holds is changed by Replay and EndTransaction only, so that a
// coordinator that decides and one that loads go the same way. What the log
// does not hold (sessions, members that wait) is the core's own.
type Core interface {
	// Replay applies a record: of the log while it is loaded, or one of its own
	// that is about to be appended at that offset. A nil value is a tombstone.
	// producer is NoProducerID for what is not part of a transaction. An error
	// ends loading. The same key may come again, the value belongs to the core.
	Replay(at kafka.Offset, producer kafka.ProducerID, key, value record.Message) error
	// EndTransaction applies a marker of the log.
	EndTransaction(producer kafka.ProducerID, commit bool)
	// Loaded ends loading: the state is that of the log's end, and the core is
	// active from now on. Effects as in Step.
	Loaded(now kafka.Now, out *Effects)
	// Step decides about an event. Records that it emits are replayed before the
	// next event is decided.
	Step(now kafka.Now, event any, out *Effects)
	// Deadline is when the core wants to see DeadlineReached; kafka.Never if it
	// need not.
	Deadline() kafka.Mono
	// Appended says that everything emitted up to now is in the log.
	Appended()
	// Revert takes back all that was replayed since Appended was called last
	// (Trap 2): the append failed with code. Replies that were emitted since then
	// are not sent; their requests fail with code. Effects as in Step.
	Revert(now kafka.Now, code kafka.ErrorCode, out *Effects)
	// Refuse takes back only what was last, a Step as a rule: its records are too
	// many for one batch, and none was replayed. Its replies are not sent; their
	// requests fail with code. What came before it stands. Effects as in Step.
	Refuse(now kafka.Now, code kafka.ErrorCode, out *Effects)
}

// Request is the event of a client's request. It is answered once, at once or
// later, by a Reply with its token; the Machine chooses tokens.
type Request struct {
	Token    uint64
	Body     any
	ClientID string
	Host     string // address of the client, as Kafka shows it: "/127.0.0.1"
}

// DeadlineReached is the event of the deadline that the core named.
type DeadlineReached struct{}

// Record is a record to be written. A nil Value is a tombstone.
type Record struct {
	Key     record.Message
	Value   record.Message
	Version int16 // of the value
}

// Reply answers a request.
type Reply struct {
	Token uint64
	Body  any
}

// Effects are what a core wants done. The records of one event are written
// together or not at all; a reply is sent when everything that the core has
// emitted before it is committed.
type Effects struct {
	Records []Record
	Replies []Reply
}

// Reset empties the effects and keeps their memory.
func (e *Effects) Reset() {
	clear(e.Records)
	clear(e.Replies)
	e.Records, e.Replies = e.Records[:0], e.Replies[:0]
}
