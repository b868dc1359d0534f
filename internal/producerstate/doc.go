// Package producerstate keeps what one partition knows about idempotent and
// transactional producers: epoch, the last five batches, the open transaction.
// From it follows whether a batch is new, a repeat, or must be refused. The
// rules are those of Kafka's ProducerStateManager, ProducerAppendInfo and
// ProducerStateEntry; the state can be written as Kafka's .snapshot file.
//
// The package is pure: no I/O, no clock. A Table is not safe for concurrent
// use; its owner serialises all calls.
//
// Invariants:
//
//   - Check changes nothing; only Update and UpdateMarker do, after the append
//     has succeeded. So an append that fails leaves no trace.
//   - The state is a function of the batches in the log (and of expiry), never
//     of requests: a follower that replays the same log has the same Table.
//   - Entries hold no pointers, so that a million of them cost the garbage
//     collector nothing.
package producerstate
