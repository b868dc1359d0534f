// Package sim runs several replicas of the metadata log in one goroutine, on
// virtual time, from one seed: the real raft core, the real quorum.Perform and
// quorum.Store on an in-memory disk with crash models, and a network that
// delays, drops, duplicates, reorders and partitions. Checkers watch every
// step; the same seed gives the same trace.
//
// An event is a delivered message, a completed disk operation or a fired
// deadline. Idle polls do not count.
//
// Only tests and the command in cmd import it. Nothing here is safe for
// concurrent use, except that several Worlds may run side by side.
package sim
