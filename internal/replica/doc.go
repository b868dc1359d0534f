// Package replica is the core of one partition on one broker: whether it leads
// or follows, its in-sync replicas, and the high watermark that follows from
// how far each of them has got.
//
// A State is a deterministic state machine without clock, lock or I/O; the
// partition's mutex serialises it. Copying data between brokers and changing
// the in-sync set are not here yet: a leader of several replicas has only
// itself in sync.
package replica
