// Package quorum is the shell around this node's replica of the metadata log:
// it drives the raft core and the controller core, keeps their files, and
// publishes the committed image.
//
// Write path: the controller decides at the tip, with the base offset reserved
// → records → replay at the tip → append → committed → image published →
// replies released. Only replay changes an image. A proposal that is refused,
// or lost leadership, sets the tip back to the committed image.
//
// Invariants:
//
//   - Perform does what the raft core asks in its order, so that nothing leaves
//     the node before it is on disk.
//   - A reply waits until everything is committed that was appended when it was
//     decided, its own records included (Trap 1).
//   - The first error of a disk operation is fatal for the process: Options.Fatal
//     (HC-007).
//   - A snapshot ends at a batch boundary, outside metadata transactions, below
//     the high watermark; its name is its exclusive end offset (HC-032, HC-033).
//
// Replica is all of this without goroutines; the simulator drives it in virtual
// time. Quorum drives one in real time.
//
// Concurrency: one loop goroutine owns the Replica: cores, tip and log's end.
// One goroutine flushes; since an append needs no flush to finish, all appends
// that arrive during one flush share the next. One goroutine writes snapshots.
// Submit, Image, Describe and Deliver may be called from any goroutine.
//
// The folder __cluster_metadata-0 is Apache Kafka's, byte for byte: segments,
// quorum-state, partition.metadata, leader-epoch-checkpoint, checkpoints.
package quorum
