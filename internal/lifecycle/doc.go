// Package lifecycle is the core of a broker's life in the cluster: it
// registers with the controller, keeps its session alive with heartbeats, asks
// to be unfenced once it has caught up with the metadata, and hands out
// producer ids from the blocks that the controller allots (KIP-631, KIP-730).
//
// A controller registers too (Controller), so that others know which features
// it supports (KIP-919).
//
// The state machines here are pure: no clock, goroutine, lock or I/O. The
// shell serialises the calls, sends what Effects say, feeds the answers back,
// and calls Step with DeadlineReached when Deadline has come.
package lifecycle
