// Package compare runs Apache Kafka and moldau in turn on the same work on the
// same machine and reports medians and ratios.
//
// Every server gets a fresh folder and is driven by the same client code of
// package bench. A run has two parts per server: load (start, idle, produce,
// consume, latency, stop) and many partitions (create, idle, stop, restart,
// SIGKILL, restart). Runs repeat, and the order of the servers alternates, so that
// neither always goes first. Dirty pages are flushed before each test, so that no
// test pays for the one before.
//
// Client and servers share the cores of this machine. That favours neither side
// as far as CPU per gigabyte goes, but throughput is that of client and broker
// together.
//
// Concurrency: Run is one measurement at a time; it starts and ends its own
// processes.
package compare
