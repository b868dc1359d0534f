// Package controller is the brain of the active controller: it turns a request,
// a heartbeat or a passed deadline into records for the metadata log and a
// reply.
//
// A Core never changes the metadata itself. It reads the tip image, which the
// caller brings up to date by replaying the records that the Core returned, and
// keeps beside it only soft state: broker sessions and what it read off the log
// since it became active. Resigned forgets all of that, so nothing that was
// never committed survives a loss of leadership (KAFKA-20839).
//
// Invariants:
//   - A batch in Effects is atomic and a point to which a failed append reverts.
//   - A user operation writes at most MaxRecordsPerOperation records, in one
//     batch, or none at all and answers POLICY_VIOLATION (KAFKA-14996).
//   - validate-only requests write nothing.
//   - A reply rests on the tip; the caller holds it back until everything that
//     the log held at that moment is committed.
//
// The package is pure: time, randomness and offsets come in as arguments. A
// Core belongs to one goroutine.
package controller
