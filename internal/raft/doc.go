// Package raft is the KRaft consensus core: one replica of the metadata log as
// a deterministic state machine (KIP-595, 630, 853, 996, 1166).
//
// Step takes one event and appends what must happen to Effects; Deadline tells
// when the core wants to be woken next. The core sees offsets, epochs and
// control records (voters, kraft.version), never application records: a batch
// is its offsets, its epoch and opaque bytes.
//
// Invariants:
//
//   - Nothing is revealed before it is on disk. Effects are performed in the
//     order of the fields of Effects: the election state is stored before any
//     message leaves; a fetch position is sent, and the leader's own position is
//     counted, only up to what a completed flush covers.
//   - A node votes for one candidate per epoch, over every change of role and
//     every restart.
//   - The high watermark moves past old records only together with a record of
//     the leader's own epoch, never falls while the node lives, and is unknown
//     after a restart until an own-epoch commit or the leader tells it.
//   - The log is cut only where the current leader's epochs diverge from ours,
//     and never below a known high watermark: that is fatal.
//   - An answer counts only for the one outstanding request to that node, which
//     every change of role forgets.
//
// Concurrency: none. One goroutine calls Step; the accessors are to be called
// from the same goroutine. The core reads no clock and draws its random numbers
// from a generator seeded by Options.Seed.
package raft
