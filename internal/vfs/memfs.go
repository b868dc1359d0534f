package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Mem is a file system in memory that knows what would survive a crash. Build
// it with NewMem. It is deterministic: the same calls and the same random
// source give the same content.
type Mem struct {
	mu    sync.Mutex
	root  *memNode
	gen   uint64 // counts crashes; handles of an older generation are dead
	locks map[*memNode]bool
	syncs SyncCounts
	// dirty holds the files that were written since their last sync, so that a
	// crash need not visit all.
	dirty map[*memNode]struct{}
	// pending holds the folders with unsynced names.
	pending  map[*memNode]struct{}
	capacity int64
	used     int64
	lastID   uint64
}

var _ FS = (*Mem)(nil)

// SyncCounts counts operations that made something durable.
type SyncCounts struct {
	Files int // Sync and Datasync of files
	Dirs  int // SyncDir
}

// memNode is a file or a folder.
type memNode struct {
	id    uint64 // order of creation, for determinism
	isDir bool
	syncs int

	// Folder: what is there, what the disk knows, and the difference in order.
	entries map[string]*memNode
	durable map[string]*memNode
	ops     []*dirOp

	file memContent
}

// dirOp is one change of names that is not yet durable. A rename between
// folders is one operation in both lists.
type dirOp struct {
	from, to         *memNode // folders; nil if the operation has no such side
	fromName, toName string
	node             *memNode
	done             bool
}

// apply does the operation to the durable names.
func (o *dirOp) apply() {
	if o.done {
		return
	}
	o.done = true
	if o.from != nil && o.from.durable[o.fromName] == o.node {
		delete(o.from.durable, o.fromName)
	}
	if o.to != nil {
		o.to.durable[o.toName] = o.node
	}
}

const memDefaultCapacity = 1 << 40

// NewMem makes an empty file system whose root folder is durable.
func NewMem() *Mem {
	m := &Mem{
		locks:    map[*memNode]bool{},
		dirty:    map[*memNode]struct{}{},
		pending:  map[*memNode]struct{}{},
		capacity: memDefaultCapacity,
	}
	m.root = m.newNode(true)
	return m
}

func (m *Mem) newNode(isDir bool) *memNode {
	m.lastID++
	n := &memNode{id: m.lastID, isDir: isDir}
	if isDir {
		n.entries = map[string]*memNode{}
		n.durable = map[string]*memNode{}
	}
	return n
}

// SetCapacity bounds the bytes of all files; writes beyond it fail with ENOSPC.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Syncs tells how many syncs there have been in all.
func (m *Mem) Syncs() SyncCounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.syncs
}

// SyncsOf tells how often the file or folder that now has this name was synced.
func (m *Mem) SyncsOf(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.find(name); n != nil {
		return n.syncs
	}
	return 0
}

// find walks to a node without allocating; nil if it is not there.
func (m *Mem) find(name string) *memNode {
	n := m.root
	for name != "" {
		var elem string
		elem, name = splitFirst(name)
		if elem == "" {
			continue
		}
		if !n.isDir {
			return nil
		}
		if n = n.entries[elem]; n == nil {
			return nil
		}
	}
	return n
}

func splitFirst(name string) (elem, rest string) {
	if i := strings.IndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// parent finds the folder of a name and its last element.
func (m *Mem) parent(op, name string) (*memNode, string, error) {
	name = path.Clean("/" + name)
	dir, base := path.Split(name)
	if base == "" {
		return nil, "", pathError(op, name, fs.ErrInvalid)
	}
	p := m.find(dir)
	if p == nil {
		return nil, "", pathError(op, name, fs.ErrNotExist)
	}
	if !p.isDir {
		return nil, "", pathError(op, name, unix.ENOTDIR)
	}
	return p, base, nil
}

// change performs an operation on the current names and remembers it.
func (m *Mem) change(o *dirOp) {
	for _, d := range []*memNode{o.from, o.to} {
		if d != nil {
			m.pending[d] = struct{}{}
		}
	}
	if o.from != nil {
		delete(o.from.entries, o.fromName)
		o.from.ops = append(o.from.ops, o)
	}
	if o.to != nil {
		o.to.entries[o.toName] = o.node
		if o.to != o.from {
			o.to.ops = append(o.to.ops, o)
		}
	}
}

// Open opens a file; see FS.
func (m *Mem) Open(name string, mode Mode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, base, err := m.parent("open", name)
	if err != nil {
		return nil, err
	}
	n := p.entries[base]
	switch {
	case n == nil && (mode == ReadOnly || mode == ReadWrite):
		return nil, pathError("open", name, fs.ErrNotExist)
	case n != nil && n.isDir && mode != ReadOnly:
		return nil, pathError("open", name, unix.EISDIR)
	case n != nil && mode == CreateNew:
		return nil, pathError("open", name, fs.ErrExist)
	case n == nil:
		n = m.newNode(false)
		m.change(&dirOp{to: p, toName: base, node: n})
	case mode == CreateTruncate:
		if err := m.truncate(n, 0); err != nil {
			return nil, pathError("open", name, err)
		}
	}
	return &memFile{m: m, n: n, name: name, gen: m.gen, readOnly: mode == ReadOnly}, nil
}

// Rename moves a file or folder; see FS.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fp, fbase, err := m.parent("rename", from)
	if err != nil {
		return err
	}
	tp, tbase, err := m.parent("rename", to)
	if err != nil {
		return err
	}
	n, old := fp.entries[fbase], tp.entries[tbase]
	switch {
	case n == nil:
		return pathError("rename", from, fs.ErrNotExist)
	case n == old:
		return nil
	case old != nil && old.isDir && (!n.isDir || len(old.entries) > 0):
		return pathError("rename", to, fs.ErrExist)
	case old != nil && !old.isDir && n.isDir:
		return pathError("rename", to, unix.ENOTDIR)
	}
	m.change(&dirOp{from: fp, fromName: fbase, to: tp, toName: tbase, node: n})
	return nil
}

// Remove removes a file or an empty folder; see FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	n := p.entries[base]
	if n == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if n.isDir && len(n.entries) > 0 {
		return pathError("remove", name, unix.ENOTEMPTY)
	}
	m.change(&dirOp{from: p, fromName: base, node: n})
	return nil
}

// RemoveAll removes recursively; see FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(path.Clean("/"+name)) == nil {
		return nil
	}
	p, base, err := m.parent("removeall", name)
	if err != nil {
		return err
	}
	m.removeAll(p, base)
	return nil
}

func (m *Mem) removeAll(p *memNode, base string) {
	n := p.entries[base]
	if n.isDir {
		for _, name := range sortedNames(n.entries) {
			m.removeAll(n, name)
		}
	}
	m.change(&dirOp{from: p, fromName: base, node: n})
}

func sortedNames(entries map[string]*memNode) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// MkdirAll makes a folder and its parents; see FS.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for rest := path.Clean("/" + name)[1:]; rest != ""; {
		var elem string
		elem, rest = splitFirst(rest)
		next := n.entries[elem]
		if next == nil {
			next = m.newNode(true)
			m.change(&dirOp{to: n, toName: elem, node: next})
		}
		if !next.isDir {
			return pathError("mkdir", name, unix.ENOTDIR)
		}
		n = next
	}
	return nil
}

// ReadDir lists a folder; see FS.
func (m *Mem) ReadDir(name string) ([]DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(path.Clean("/" + name))
	if n == nil {
		return nil, pathError("readdir", name, fs.ErrNotExist)
	}
	if !n.isDir {
		return nil, pathError("readdir", name, unix.ENOTDIR)
	}
	out := make([]DirEntry, 0, len(n.entries))
	for _, e := range sortedNames(n.entries) {
		out = append(out, DirEntry{Name: e, IsDir: n.entries[e].isDir})
	}
	return out, nil
}

// Stat tells about a file or folder; see FS. Mem keeps no times.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(path.Clean("/" + name))
	if n == nil {
		return Info{}, pathError("stat", name, fs.ErrNotExist)
	}
	return Info{SizeBytes: int64(len(n.file.data)), IsDir: n.isDir}, nil
}

// SyncDir makes the names of a folder durable; see FS. As in a journal, what
// came before in the same folder becomes durable with it.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(path.Clean("/" + name))
	if n == nil {
		return pathError("syncdir", name, fs.ErrNotExist)
	}
	if !n.isDir {
		return pathError("syncdir", name, unix.ENOTDIR)
	}
	for _, o := range n.ops {
		o.apply()
	}
	clear(n.ops)
	n.ops = n.ops[:0]
	delete(m.pending, n)
	n.syncs++
	m.syncs.Dirs++
	return nil
}

// SyncAll makes everything durable; see FS. It counts as one sync of a folder.
func (m *Mem) SyncAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(path.Clean("/"+name)) == nil {
		return pathError("syncall", name, fs.ErrNotExist)
	}
	for n := range m.dirty {
		n.file.sync()
	}
	clear(m.dirty)
	for _, n := range inOrder(m.pending) {
		for _, o := range n.ops {
			o.apply()
		}
		clear(n.ops)
		n.ops = n.ops[:0]
	}
	clear(m.pending)
	m.syncs.Dirs++
	return nil
}

// Space tells what SetCapacity leaves; see FS.
func (m *Mem) Space(string) (Space, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Space{TotalBytes: m.capacity, FreeBytes: max(0, m.capacity-m.used)}, nil
}

// memPID is the process id that Mem writes into lock files.
const memPID = 1

// Lock takes a lock; see FS. A crash releases it.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.Open(name, Create)
	if err != nil {
		return nil, err
	}
	mf := f.(*memFile)
	m.mu.Lock()
	held := m.locks[mf.n]
	if !held {
		m.locks[mf.n] = true
	}
	m.mu.Unlock()
	if held {
		return nil, &LockedError{Name: name, PID: readPID(f)}
	}
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(fmt.Appendf(nil, "%d", memPID), 0); err != nil {
		return nil, err
	}
	return &memLock{mf}, nil
}

type memLock struct{ f *memFile }

func (l *memLock) Close() error {
	l.f.m.mu.Lock()
	if l.f.gen == l.f.m.gen {
		delete(l.f.m.locks, l.f.n)
	}
	l.f.m.mu.Unlock()
	return l.f.Close()
}
