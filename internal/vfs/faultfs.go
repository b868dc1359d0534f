package vfs

import (
	"io"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// OpKind names an operation of FS or File. Kinds combine as a set.
type OpKind uint16

// The operations.
const (
	OpOpen OpKind = 1 << iota
	OpRead
	OpWrite
	OpTruncate
	OpSync // Sync and Datasync
	OpClose
	OpRename
	OpRemove // and RemoveAll
	OpMkdir
	OpReadDir
	OpStat
	OpSyncDir
	OpLock

	// OpMutate is every operation that changes the disk or makes it durable.
	OpMutate = OpOpen | OpWrite | OpTruncate | OpSync | OpRename | OpRemove | OpMkdir | OpSyncDir | OpLock
	// OpAny is every operation.
	OpAny OpKind = 1<<13 - 1
)

// Op is one operation about to happen.
type Op struct {
	Kind OpKind
	Name string // of the file; the old name of a rename
	Off  int64  // of reads and writes; the size of a truncation
	Len  int
}

// Rule makes operations fail.
type Rule struct {
	Kinds OpKind
	// Match is a path.Match pattern for the last element of the name; "" matches
	// all.
	Match string
	// Nth is the matching operation that fails, counted from 1; 0 is the first.
	Nth int
	// Times is how many from there on fail; 0 is one, −1 is all.
	Times int
	// Err is what they fail with, e.g. unix.EIO.
	Err error
	// WriteFirst is, for writes, how many bytes still get through.
	WriteFirst int
}

type armedRule struct {
	Rule
	seen int
}

// Fault wraps a file system and makes operations fail as it is told. Without
// rules, budget and hook it only passes through.
type Fault struct {
	inner FS

	mu     sync.Mutex
	rules  []*armedRule
	budget int64 // bytes that writes may still add; −1 is no bound
	hook   func(Op) error
	count  int
}

var _ FS = (*Fault)(nil)

// NewFault wraps inner.
func NewFault(inner FS) *Fault { return &Fault{inner: inner, budget: -1} }

// Fail adds a rule.
func (f *Fault) Fail(r Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &armedRule{Rule: r})
}

// Heal removes all rules and the budget.
func (f *Fault) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.budget = nil, -1
}

// SetBudget lets writes put bytes more, then the disk is full: the write that
// crosses the bound is short, with ENOSPC. −1 takes the bound away.
func (f *Fault) SetBudget(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.budget = bytes
}

// SetHook sets a function that is called before each operation, without locks
// held. If it returns an error the operation does not happen and fails with it.
func (f *Fault) SetHook(hook func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Ops tells how many operations there have been.
func (f *Fault) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// before decides about an operation: pass is how many bytes of a write get
// through when err is not nil.
func (f *Fault) before(op Op) (pass int, err error) {
	f.mu.Lock()
	f.count++
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		if err := hook(op); err != nil {
			return 0, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if !r.hits(op) {
			continue
		}
		return min(r.WriteFirst, op.Len), pathError("fault", op.Name, r.Err)
	}
	if op.Kind == OpWrite && f.budget >= 0 {
		if int64(op.Len) > f.budget {
			pass = int(f.budget)
			f.budget = 0
			return pass, pathError("write", op.Name, unix.ENOSPC)
		}
		f.budget -= int64(op.Len)
	}
	return 0, nil
}

func (r *armedRule) hits(op Op) bool {
	if r.Kinds&op.Kind == 0 {
		return false
	}
	if r.Match != "" {
		if ok, _ := path.Match(r.Match, path.Base(op.Name)); !ok {
			return false
		}
	}
	r.seen++
	first, times := max(r.Nth, 1), r.Times
	if times == 0 {
		times = 1
	}
	return r.seen >= first && (times < 0 || r.seen < first+times)
}

func (f *Fault) check(kind OpKind, name string) error {
	_, err := f.before(Op{Kind: kind, Name: name})
	return err
}

// Open is FS.Open.
func (f *Fault) Open(name string, mode Mode) (File, error) {
	kind := OpOpen
	if mode == ReadOnly {
		kind = OpRead // opening to read changes nothing
	}
	if err := f.check(kind, name); err != nil {
		return nil, err
	}
	file, err := f.inner.Open(name, mode)
	if err != nil {
		return nil, err
	}
	ff := faultFile{f: f, inner: file, name: name}
	if d, ok := file.(Descriptor); ok {
		return &faultOSFile{faultFile: ff, d: d}, nil
	}
	return &ff, nil
}

// Rename is FS.Rename.
func (f *Fault) Rename(from, to string) error {
	if err := f.check(OpRename, from); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// Remove is FS.Remove.
func (f *Fault) Remove(name string) error {
	if err := f.check(OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// RemoveAll is FS.RemoveAll.
func (f *Fault) RemoveAll(name string) error {
	if err := f.check(OpRemove, name); err != nil {
		return err
	}
	return f.inner.RemoveAll(name)
}

// MkdirAll is FS.MkdirAll.
func (f *Fault) MkdirAll(name string) error {
	if err := f.check(OpMkdir, name); err != nil {
		return err
	}
	return f.inner.MkdirAll(name)
}

// ReadDir is FS.ReadDir.
func (f *Fault) ReadDir(name string) ([]DirEntry, error) {
	if err := f.check(OpReadDir, name); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

// Stat is FS.Stat.
func (f *Fault) Stat(name string) (Info, error) {
	if err := f.check(OpStat, name); err != nil {
		return Info{}, err
	}
	return f.inner.Stat(name)
}

// SyncDir is FS.SyncDir.
func (f *Fault) SyncDir(name string) error {
	if err := f.check(OpSyncDir, name); err != nil {
		return err
	}
	return f.inner.SyncDir(name)
}

// SyncAll is FS.SyncAll; rules see it as OpSyncDir.
func (f *Fault) SyncAll(name string) error {
	if err := f.check(OpSyncDir, name); err != nil {
		return err
	}
	return f.inner.SyncAll(name)
}

// Lock is FS.Lock.
func (f *Fault) Lock(name string) (io.Closer, error) {
	if err := f.check(OpLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// Space is FS.Space, no more than the budget.
func (f *Fault) Space(name string) (Space, error) {
	s, err := f.inner.Space(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.budget >= 0 {
		s.FreeBytes = min(s.FreeBytes, f.budget)
	}
	return s, err
}
