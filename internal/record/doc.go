// Package record has the records that Kafka writes into its own logs: the
// metadata log (__cluster_metadata), control records, the logs of groups,
// transactions and share groups, and a few small values in files and in the
// group protocol.
//
// The structs and their codecs are generated from schema.txt by the program in
// gen; run go generate after a change of either. One struct serves every
// version of a record; a field that a version lacks stays at its default.
//
// Invariants: encoding what was decoded gives the same bytes in the same
// version, tagged fields of later Kafka versions included. A decoder never
// panics, never allocates more than a small multiple of its input, and its
// result shares no memory with the input. An encoder panics when it is given a
// version outside the schema, or a field with a value that the version cannot
// carry: losing it silently would make replicas differ.
//
// The package is pure. Records are plain values: concurrent readers are fine,
// writers need a lock of their own.
package record

//go:generate go run ./gen
