// Package groups simulates the coordinator of one partition of
// __consumer_offsets and the consumers of its groups: the real core
// (internal/group) under its real shell (internal/statemachine), with the log,
// the network, the clocks and the goroutines replaced.
//
// Consumers join, sync, send heartbeats, commit and fetch offsets; they pause,
// crash, come back, leave, and some share a group.instance.id. Requests and
// answers are delayed, lost and duplicated. The coordinator loses its
// leadership, or dies between append and reply and leaves a log of which only
// what was committed is certain; appends fail with each of the log's codes, and
// sometimes after the bytes are written.
//
// Checkers: one assignment for each generation of a group; in it a partition has
// one owner; an acknowledged commit is in the committed log, and what a fetch
// gives is no older than what was committed when it was asked; what a
// coordinator keeps is what another loads from its log. When the faults end,
// each group settles with all its consumers.
//
// A run is determined by its seed. Test only.
package groups
