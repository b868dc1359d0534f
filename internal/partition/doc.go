// Package partition is the data plane of one broker: every partition that has a
// replica here, its log and its replica state, the fetches that wait for it,
// and the work that goes on behind (retention, compaction, flushing, checkpoints, deletion).
//
// Concurrency: a Partition's mutex serialises everything that changes its log;
// appends run on the goroutine of the connection that brought them. Reads take
// no lock: leadership, high watermark and last stable offset are published
// atomically, and the log allows readers beside one writer. There is no
// goroutine and no timer per partition: one Store has one keeper goroutine, one
// for flushes, one for deadlines, and log.cleaner.threads that compact logs.
//
// Store.Apply is called with the deltas of the metadata in order, from one
// goroutine; everything else from any.
//
// Failures: a full disk fails the append and nothing else. Any other error of
// a log takes its whole log directory offline, as in Kafka; damage found by
// recovery takes one partition offline. Offline partitions answer
// KAFKA_STORAGE_ERROR.
package partition
