// Package vfs is the file system as the storage packages see it: an interface
// small enough to fake, the operating system's implementation (OS), one in
// memory (Mem) that can lose power, and a wrapper that injects faults (Fault).
//
// Names are slash-separated paths. Errors satisfy errors.Is with fs.ErrNotExist,
// fs.ErrExist and the errno values of x/sys/unix, and name the operation and
// the file.
//
// Durability contract, which Mem enforces and OS inherits from POSIX:
//
//   - A completed write survives the death of the process.
//   - It survives the loss of power only after Sync or Datasync of the file.
//   - A name that was created, renamed or removed survives the loss of power
//     only after SyncDir of the folder that holds it. Syncing the file itself is
//     not enough.
//
// Concurrency: every implementation is safe for concurrent use. Concurrent
// writes to overlapping ranges of one file have no defined order.
package vfs
