// Package sim runs a cluster in one goroutine, on virtual time, from one seed:
// controllers with the real quorum.Replica (raft core, controller core, write
// path, segmented log, snapshots) on an in-memory disk with crash models, brokers
// with the real lifecycle core, clients, an operator, and a network that delays,
// drops, duplicates, reorders and partitions. Checkers, one to a file, watch
// every step; the same seed gives the same trace.
//
// An event is a delivered message, a completed disk operation or a fired
// deadline. Idle polls do not count.
//
// Only tests and the command in cmd import it. Nothing here is safe for
// concurrent use, except that several Worlds may run side by side.
package sim
