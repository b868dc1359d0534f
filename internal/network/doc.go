// Package network accepts connections, cuts their bytes into frames, hands
// each frame to a handler and sends the answers in order.
//
// One goroutine per connection reads and also runs the handler, so that
// requests of a connection take effect in the order in which they came. A
// Produce may start while earlier Produces of its connection still wait; every
// other request waits for all its predecessors, as in Kafka (HC-156). Whoever
// completes the oldest waiting answer becomes the flusher and writes all
// answers that are ready, with one writev and with sendfile for file ranges.
//
// Everything is bounded: frame size, bytes of all frames in memory (Budget),
// requests in flight per connection, connections in all and per address, the
// time a frame may take to arrive and a connection may be idle. Frames that
// wait behind others when their connection dies are dropped unstarted
// (Trap 13).
//
// Listeners come and go while the Server runs; one that is closed takes its
// connections with it, and others go on undisturbed.
//
// Server and its connections are safe for concurrent use.
package network
