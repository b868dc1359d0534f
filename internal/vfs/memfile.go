package vfs

import (
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// memContent is the bytes of a file: as processes see them, and as the disk
// has them.
type memContent struct {
	data    []byte
	durable []byte
	// ranges are the parts that may differ, as written, the last one extended by
	// appends. They may overlap.
	ranges []byteRange
}

type byteRange struct{ from, to int64 }

// maxRanges bounds the list; beyond it the ranges melt into one.
const maxRanges = 64

func (c *memContent) touch(from, to int64) {
	if from >= to {
		return
	}
	if n := len(c.ranges); n > 0 {
		last := &c.ranges[n-1]
		if from <= last.to && to >= last.from {
			last.from, last.to = min(last.from, from), max(last.to, to)
			return
		}
		if n == maxRanges {
			for _, r := range c.ranges {
				from, to = min(from, r.from), max(to, r.to)
			}
			c.ranges = c.ranges[:0]
		}
	}
	c.ranges = append(c.ranges, byteRange{from, to})
}

// sync copies what differs to the disk.
func (c *memContent) sync() {
	size := int64(len(c.data))
	c.durable = resize(c.durable, size)
	for _, r := range c.ranges {
		if r.from < size {
			copy(c.durable[r.from:min(r.to, size)], c.data[r.from:])
		}
	}
	c.ranges = c.ranges[:0]
}

// resize cuts b or extends it with zeros, growing its room by doubling.
func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	if size <= int64(cap(b)) {
		old := len(b)
		b = b[:size]
		clear(b[old:])
		return b
	}
	grown := make([]byte, size, max(size, 2*int64(cap(b)), 64))
	copy(grown, b)
	return grown
}

// truncate sets the size of a file. The caller holds m.mu.
func (m *Mem) truncate(n *memNode, size int64) error {
	if size < 0 {
		return unix.EINVAL
	}
	old := int64(len(n.file.data))
	if size > maxMemFileBytes || m.used+size-old > m.capacity {
		return unix.ENOSPC
	}
	m.used += size - old
	n.file.data = resize(n.file.data, size)
	n.file.touch(min(old, size), max(old, size))
	m.dirty[n] = struct{}{}
	return nil
}

// maxMemFileBytes bounds one file of Mem.
const maxMemFileBytes = 4 << 30

// memFile is a handle.
type memFile struct {
	m        *Mem
	n        *memNode
	name     string
	gen      uint64
	readOnly bool
	closed   atomic.Bool
}

var _ File = (*memFile)(nil)

// enter locks the file system and checks that the handle lives.
func (f *memFile) enter(op string) error {
	f.m.mu.Lock()
	if f.closed.Load() || f.gen != f.m.gen {
		f.m.mu.Unlock()
		return pathError(op, f.name, ErrClosed)
	}
	return nil
}

func (f *memFile) enterWrite(op string) error {
	if f.readOnly {
		return pathError(op, f.name, unix.EBADF)
	}
	return f.enter(op)
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.enter("read"); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	if f.n.isDir {
		return 0, pathError("read", f.name, unix.EISDIR)
	}
	if off < 0 {
		return 0, pathError("read", f.name, unix.EINVAL)
	}
	n := 0
	if off < int64(len(f.n.file.data)) {
		n = copy(p, f.n.file.data[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.enterWrite("write"); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	return f.write(p, off)
}

func (f *memFile) write(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("write", f.name, unix.EINVAL)
	}
	c := &f.n.file
	end := off + int64(len(p))
	if end > int64(len(c.data)) {
		if err := f.m.truncate(f.n, end); err != nil {
			return 0, pathError("write", f.name, err)
		}
	}
	copy(c.data[off:], p)
	c.touch(off, end)
	f.m.dirty[f.n] = struct{}{}
	return len(p), nil
}

func (f *memFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	if err := f.enterWrite("write"); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	n := 0
	for _, b := range bufs {
		k, err := f.write(b, off+int64(n))
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.enterWrite("truncate"); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	return pathError("truncate", f.name, f.m.truncate(f.n, size))
}

func (f *memFile) Sync() error {
	if err := f.enter("fsync"); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	f.n.file.sync()
	delete(f.m.dirty, f.n)
	f.n.syncs++
	f.m.syncs.Files++
	return nil
}

// Datasync makes the size durable too, as fdatasync does.
func (f *memFile) Datasync() error { return f.Sync() }

func (f *memFile) Size() (int64, error) {
	if err := f.enter("stat"); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	return int64(len(f.n.file.data)), nil
}

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, ErrClosed)
	}
	return nil
}
