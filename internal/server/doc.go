// Package server joins all parts into one node: it checks and locks the log
// directories, starts the metadata quorum, registers the broker, loads the
// partitions, and opens the listeners, in that order; and it stops them in the
// reverse order. It is the one place that sees everything, and holds no logic
// of its own beyond the order of things.
//
// Clients are let in only when the broker is unfenced and its partitions are
// loaded (HC-148). Several Servers can run in one process.
package server
