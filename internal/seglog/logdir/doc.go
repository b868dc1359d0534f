// Package logdir reads and writes the files that a log directory holds beside
// the partitions' logs, byte for byte as Apache Kafka 4.4: the offset checkpoint
// files, meta.properties, the clean-shutdown marker, partition.metadata; and it
// tells which of a directory's folders are what.
//
// Files are replaced atomically and durably (vfs.WriteFileAtomic). Functions
// keep no state and are safe for concurrent use on different files.
package logdir
