package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// OS is the operating system's file system.
type OS struct{}

var _ FS = OS{}

const (
	filePerm = 0o644
	dirPerm  = 0o755
	// maxIovecs is IOV_MAX of Linux.
	maxIovecs = 1024
)

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open opens with O_CLOEXEC; see FS.
func (OS) Open(name string, mode Mode) (File, error) {
	flags := unix.O_RDWR
	switch mode {
	case ReadOnly:
		flags = unix.O_RDONLY
	case Create:
		flags |= unix.O_CREAT
	case CreateTruncate:
		flags |= unix.O_CREAT | unix.O_TRUNC
	case CreateNew:
		flags |= unix.O_CREAT | unix.O_EXCL
	}
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Open(name, flags|unix.O_CLOEXEC, filePerm)
		return err
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &osFile{fd: fd, name: name}, nil
}

// Rename is rename(2).
func (OS) Rename(from, to string) error {
	if err := unix.Rename(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// Remove removes a file or an empty folder.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll removes recursively.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// MkdirAll makes folders with mode 0755.
func (OS) MkdirAll(name string) error { return os.MkdirAll(name, dirPerm) }

// ReadDir lists a folder.
func (OS) ReadDir(name string) ([]DirEntry, error) {
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	out := make([]DirEntry, len(list))
	for i, e := range list {
		out[i] = DirEntry{Name: e.Name(), IsDir: e.IsDir()}
		if e.Type()&fs.ModeSymlink != 0 { // log.dirs may hold links to folders
			if st, err := os.Stat(name + "/" + e.Name()); err == nil {
				out[i].IsDir = st.IsDir()
			}
		}
	}
	return out, nil
}

// Stat is stat(2).
func (OS) Stat(name string) (Info, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Stat(name, &st) }); err != nil {
		return Info{}, pathError("stat", name, err)
	}
	return Info{
		SizeBytes: st.Size,
		IsDir:     st.Mode&unix.S_IFMT == unix.S_IFDIR,
		ModTimeMs: int64(st.Mtim.Sec)*1000 + int64(st.Mtim.Nsec)/1e6,
	}, nil
}

// SyncDir is fsync of the folder.
func (OS) SyncDir(name string) error {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return pathError("open", name, err)
	}
	err = retry(func() error { return unix.Fsync(fd) })
	unix.Close(fd)
	return pathError("fsync", name, err)
}

// SyncAll is syncfs(2), which reports what was lost since Linux 5.8.
func (OS) SyncAll(name string) error {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return pathError("open", name, err)
	}
	err = retry(func() error { return unix.Syncfs(fd) })
	unix.Close(fd)
	return pathError("syncfs", name, err)
}

// Space is statfs(2).
func (OS) Space(name string) (Space, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(name, &st) }); err != nil {
		return Space{}, pathError("statfs", name, err)
	}
	return Space{
		TotalBytes: int64(st.Blocks) * int64(st.Bsize),
		FreeBytes:  int64(st.Bavail) * int64(st.Bsize),
	}, nil
}

// Lock takes an open-file-description lock. Unlike flock it conflicts with the
// record lock that a JVM takes, and unlike that one it also conflicts with
// another node in this process.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := OS{}.Open(name, Create)
	if err != nil {
		return nil, err
	}
	file := f.(*osFile)
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = retry(func() error { return unix.FcntlFlock(uintptr(file.fd), unix.F_OFD_SETLK, &lk) })
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		pid := lockHolder(file)
		file.Close()
		return nil, &LockedError{Name: name, PID: pid}
	}
	if err == nil {
		err = writePID(file)
	}
	if err != nil {
		file.Close()
		return nil, pathError("lock", name, err)
	}
	return file, nil
}

func writePID(f *osFile) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return err
}

// lockHolder asks the system first, which knows the holder of a record lock,
// then the file, into which the holder of an OFD lock has written itself.
func lockHolder(f *osFile) int {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(uintptr(f.fd), unix.F_OFD_GETLK, &lk); err == nil && lk.Type != unix.F_UNLCK && lk.Pid > 0 {
		return int(lk.Pid)
	}
	return readPID(f)
}

func readPID(f io.ReaderAt) int {
	var buf [20]byte
	n, _ := f.ReadAt(buf[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// osFile is a descriptor. Close may race with the other methods only as far as
// the caller's own reference counting allows; mu makes a second Close harmless.
type osFile struct {
	fd   int
	name string

	mu     sync.Mutex
	closed bool
}

var _ Descriptor = (*osFile)(nil)

func (f *osFile) Fd() uintptr { return uintptr(f.fd) }

var _ Reserver = (*osFile)(nil)

var _ Dated = (*osFile)(nil)

// SetModTime sets the time of the last access as well.
func (f *osFile) SetModTime(ms int64) error {
	tv := unix.NsecToTimeval(ms * 1e6)
	return pathError("futimes", f.name, unix.Futimes(f.fd, []unix.Timeval{tv, tv}))
}

// Reserve does nothing on file systems that know no such thing.
func (f *osFile) Reserve(upToBytes int64) error {
	err := unix.Fallocate(f.fd, unix.FALLOC_FL_KEEP_SIZE, 0, upToBytes)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == nil {
		return nil
	}
	return pathError("fallocate", f.name, err)
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pread(f.fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, pathError("pread", f.name, err)
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pwrite(f.fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, pathError("pwrite", f.name, err)
		}
		if m == 0 {
			return n, pathError("pwrite", f.name, io.ErrShortWrite)
		}
		n += m
	}
	return n, nil
}

func (f *osFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	n := 0
	for len(bufs) > 0 {
		if len(bufs[0]) == 0 {
			bufs = bufs[1:]
			continue
		}
		if len(bufs) == 1 {
			m, err := f.WriteAt(bufs[0], off+int64(n))
			return n + m, err
		}
		m, err := unix.Pwritev(f.fd, bufs[:min(len(bufs), maxIovecs)], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, pathError("pwritev", f.name, err)
		}
		n += m
		for len(bufs) > 0 && m >= len(bufs[0]) {
			m -= len(bufs[0])
			bufs = bufs[1:]
		}
		if m > 0 { // stopped inside a buffer
			k, err := f.WriteAt(bufs[0][m:], off+int64(n))
			n += k
			if err != nil {
				return n, err
			}
			bufs = bufs[1:]
		}
	}
	return n, nil
}

func (f *osFile) Truncate(size int64) error {
	return pathError("truncate", f.name, retry(func() error { return unix.Ftruncate(f.fd, size) }))
}

func (f *osFile) Sync() error {
	return pathError("fsync", f.name, retry(func() error { return unix.Fsync(f.fd) }))
}

func (f *osFile) Datasync() error {
	return pathError("fdatasync", f.name, retry(func() error { return unix.Fdatasync(f.fd) }))
}

func (f *osFile) Size() (int64, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
		return 0, pathError("fstat", f.name, err)
	}
	return st.Size, nil
}

func (f *osFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, ErrClosed)
	}
	f.closed = true
	fd := f.fd
	f.fd = -1 // a use after Close gives EBADF, not somebody else's file
	if err := unix.Close(fd); err != nil {
		return pathError("close", f.name, fmt.Errorf("%w", err))
	}
	return nil
}
