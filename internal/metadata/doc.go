// Package metadata keeps the state that the records of __cluster_metadata
// describe: brokers, controllers, features, topics, configs, quotas, SCRAM
// credentials, ACLs, delegation tokens and the next producer id.
//
// An Image is that state at one offset. It never changes, and any number of
// goroutines may read it without a lock. A Delta takes records and gives the
// next Image, which shares with the old one all that did not change. Two deltas
// may start from the same image; that is how a controller reverts.
//
// Invariants:
//   - An image depends only on the records, not on how they were grouped into
//     deltas, nor on whether they came from the log or from a snapshot.
//   - A record that cannot be applied is an error, never skipped. The delta is
//     useless afterwards, the image it started from is not.
//   - Records between BeginTransaction and EndTransaction are kept aside and
//     show all at once or, after AbortTransaction, never. An image in a
//     transaction says so and refuses to be written as a snapshot.
//
// Layout: a vector of topic slots in copied-on-write chunks, maps from id and
// name to slot, and one dense slice of 40-byte partitions without pointers per
// topic. Up to four replicas stand inside these 40 bytes, with the in-sync and
// eligible sets as bit maps over them; a partition that does not fit (more
// replicas, a reassignment, a set that is not part of the replicas) is kept as
// a plain struct beside. Directory ids are interned: there are few. Replica
// lists are not, because with hundreds of brokers nearly every list is unique.
// The index from a broker to its partitions is a persistent B-tree of integers
// that each delta brings up to date.
package metadata
