// Package session is the core of incremental fetch sessions (KIP-227): which
// partitions a client follows, what it has been told of them, and which
// sessions the bounded cache keeps.
//
// A Cache is a deterministic state machine without clock or lock: its owner
// serialises the calls and passes the time. A fetch is Begin, then reading the
// Targets without the cache, then Finish. Targets are copies, so that two
// fetches on one session cannot disturb each other's reading.
package session
