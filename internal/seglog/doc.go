// Package seglog is one partition's log: segments with indexes, leader epochs
// and producer state in a folder that Apache Kafka 4.4 can read and that may
// have been written by it.
//
// # Concurrency
//
// The owner serialises every call that changes the log (Append, Roll, TruncateTo,
// AdvanceStart, Retain, PrepareFlush, FlushDone, Close, the Producers table …),
// usually by the partition's mutex. Reads (Read, StartOffset, EndOffset,
// EndOffsetForEpoch, OffsetForTimestamp …) take no lock and may run beside one
// mutator. A Range pins its file, so that deletion, truncation of other segments
// and the eviction of descriptors cannot hurt it; after TruncateTo a Range that
// reaches beyond the new end reads whatever is there, so owners let readers see
// only what cannot be truncated any more (below the high watermark), as in Kafka.
//
// # Durability
//
// A batch is in the page cache when Append returns: it survives the death of the
// process. It survives the loss of power when a FlushJob that was prepared after
// the Append has run. FlushJob.Run syncs, in this order: the .log of every segment
// beyond the recovery point, the indexes and producer snapshots of rolled ones,
// the leader epochs if they changed, the folder if names changed. FlushDone then
// moves the recovery point, which the owner writes to the checkpoint file of the
// log directory. So whatever lies below the recovery point is durable with all
// its side files, and what lies beyond can be rebuilt by scanning it.
//
// Indexes of the active segment are kept in memory and written at roll and Close.
// Leader epochs are written at flush and Close: those of unflushed batches come
// back from the batches. Truncations are durable when they return.
//
// The owner writes the checkpoint files: the recovery point after FlushDone, and
// before TruncateTo if that falls below it; the log start after AdvanceStart.
//
// # Compaction
//
// A Cleaning runs beside appends and reads and writes .cleaned files only; Swap,
// by the owner, puts one in the place of a group of segments, in steps of which
// each is durable before the next; if the disk is full, ResumeSwap goes on. A segment that was replaced is gone: whoever
// still has it in an old list gets fs.ErrNotExist when its file is not open, and
// starts over with the new list.
//
// # Invariants
//
//   - Offsets only grow along the log; segments are sorted by base offset and do
//     not overlap; the last one is active and may be empty.
//   - A failed write leaves the log as it was, or, if that cannot be had, offline:
//     every later mutation fails with ErrOffline.
//   - Corruption below the recovery point, or before other valid data there, is
//     reported (CorruptError) and never cut away.
//   - An idle log has no open file, goroutine or timer.
package seglog
