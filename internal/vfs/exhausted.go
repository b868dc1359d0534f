package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Exhausted tells whether an operation failed because the disk is full, a quota is
// used up, or the process or the system has no file descriptor left. The disk is
// well, and the same operation may succeed later.
func Exhausted(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || NoDescriptor(err)
}

// NoDescriptor tells whether an operation failed before it began, because no file
// could be opened. Unlike a full disk it cannot mean that something is lost that
// was written before.
func NoDescriptor(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
