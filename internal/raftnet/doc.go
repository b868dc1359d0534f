// Package raftnet is the network of a replica of the metadata log: it carries
// the core's requests to other nodes over package peer, and the requests that
// come in through the listeners to the core and its replies back.
//
// Nothing here may block the loop that drives the core: Request and Reply hand
// over and return. What fails comes back as an event. Requests from outside are
// known by tokens; the token of a connection that has died is dropped, and its
// reply finds nobody. The number of tokens is bounded.
//
// Concurrency: all methods may be called from any goroutine.
package raftnet
