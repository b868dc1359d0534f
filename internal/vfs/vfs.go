package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// Mode says how Open opens a file.
type Mode uint8

// The modes of Open. All but ReadOnly allow reading and writing.
const (
	ReadOnly       Mode = iota // the file must exist
	ReadWrite                  // the file must exist
	Create                     // made if missing, left as it is if there
	CreateTruncate             // made if missing, emptied if there
	CreateNew                  // must not exist: fs.ErrExist
)

// FS is a file system.
type FS interface {
	// Open opens a file. The folder must exist.
	Open(name string, mode Mode) (File, error)
	// Rename moves a file or folder, replacing a file that has the new name.
	Rename(from, to string) error
	// Remove removes a file or an empty folder.
	Remove(name string) error
	// RemoveAll removes a file, or a folder with everything in it. A name that
	// does not exist is no error.
	RemoveAll(name string) error
	// MkdirAll makes a folder and its parents; one that exists is no error.
	MkdirAll(name string) error
	// ReadDir lists a folder, sorted by name.
	ReadDir(name string) ([]DirEntry, error)
	// Stat tells about a file or folder.
	Stat(name string) (Info, error)
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
	// SyncAll makes everything durable that the file system which holds name
	// has been given, content and names, ours and that of others (syncfs). It
	// replaces very many single syncs.
	SyncAll(name string) error
	// Lock takes an exclusive lock on the file, which is made if missing, and
	// writes our process id into it. If anybody else holds it, including a JVM
	// or another node in this process, the error is a *LockedError. Close
	// releases the lock and leaves the file.
	Lock(name string) (io.Closer, error)
	// Space tells how much room the file system that holds name has.
	Space(name string) (Space, error)
}

// File is an open file.
type File interface {
	// ReadAt is io.ReaderAt: io.EOF with fewer bytes than asked at the end.
	io.ReaderAt
	// WriteAt writes all of p at off. On an error n bytes were written, and
	// what follows them is undefined.
	io.WriterAt
	// WriteVecAt writes the buffers one after the other, in one system call if
	// the system agrees. It does not keep or change bufs.
	WriteVecAt(bufs [][]byte, off int64) (n int, err error)
	// Truncate cuts the file or extends it with zeros.
	Truncate(size int64) error
	// Sync makes content and attributes durable (fsync).
	Sync() error
	// Datasync makes content and size durable (fdatasync).
	Datasync() error
	// Size is the length in bytes.
	Size() (int64, error)
	// Close releases the handle; it makes nothing durable.
	Close() error
}

// Descriptor is implemented by files that have a descriptor to give to
// sendfile. It is valid until Close.
type Descriptor interface{ Fd() uintptr }

// Reserver is implemented by files that can have room set aside for them. The
// file's size does not change; ENOSPC if there is no room.
type Reserver interface{ Reserve(upToBytes int64) error }

// Dated is implemented by files whose time of the last change can be set, in ms
// since 1970.
type Dated interface{ SetModTime(ms int64) error }

// DirEntry is one name in a folder.
type DirEntry struct {
	Name  string
	IsDir bool
}

// Info tells about a file or folder.
type Info struct {
	SizeBytes int64
	IsDir     bool
	// ModTimeMs is the time of the last change in ms since 1970, 0 if unknown.
	ModTimeMs int64
}

// Space is the room on a file system, in bytes.
type Space struct {
	TotalBytes int64
	FreeBytes  int64 // for unprivileged users
}

// LockedError says that a lock file is held by somebody else.
type LockedError struct {
	Name string
	// PID is the holder's process id, as the system or the lock file tells it;
	// 0 if neither does (a JVM leaves the file empty).
	PID int
}

// Error says who holds what.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("lock %s: held by another server", e.Name)
	}
	return fmt.Sprintf("lock %s: held by another server, process %d", e.Name, e.PID)
}

// ErrClosed is returned by operations on a closed file, and by those of an
// incarnation of Mem that has crashed.
var ErrClosed = fs.ErrClosed

// MaxReadFileBytes bounds what ReadFile takes in.
const MaxReadFileBytes = 1 << 30

// ReadFile reads a whole file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, ReadOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > MaxReadFileBytes {
		return nil, fmt.Errorf("read %s: %d bytes are more than %d", name, size, MaxReadFileBytes)
	}
	buf := make([]byte, size)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:n], nil
}

// WriteFileAtomic replaces a file's content so that after a crash of any kind
// either the old or the new content is there: it writes name + ".tmp", syncs
// it, renames it, and syncs the folder (Kafka's CheckpointFile.write).
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := writeSynced(fsys, tmp, data); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.Open(name, CreateTruncate)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
