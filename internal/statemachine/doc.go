// Package statemachine drives the cores of coordinators: it is the shell that
// makes one partition of an internal topic a replicated state machine.
//
// A Machine lives for one leader epoch of its partition. It loads the core from
// the log, then takes events: each is decided at the tip, its records are
// replayed at reserved offsets and collected; all that came in while the last
// append was running is appended by one write, and a reply goes out when
// everything that was decided before it is committed (Trap 1). If the append
// fails, the core goes back to what the log has, and everything decided since
// fails with the log's code (Trap 2).
//
// Concurrency: a Machine has no goroutine of its own. Whoever brings an event to
// an idle Machine becomes its runner; who finds a runner leaves the event in the
// queue. A runner works for a few turns and then hands over to a fresh
// goroutine, so that no connection serves others for ever. Core, pending batch
// and held replies belong to the runner; the queue has a mutex.
//
// Everything outside, log, timer, goroutines, clock, comes in by Options. With
// fakes of these in one goroutine a Machine is deterministic.
//
// Failures: a log that cannot be read leaves the Machine failed, and is read again
// in some time; a log that holds what the Machine did not write is loaded again.
package statemachine
