package seglog

import (
	"errors"
	iofs "io/fs"
	"sync"
	"sync/atomic"

	"moldau/internal/vfs"
)

// Files is the budget of open descriptors and of index memory that all logs of
// a node share. It is safe for concurrent use.
type Files struct {
	FS vfs.FS

	mu   sync.Mutex
	max  int
	ring []*handle // the open ones, swept by a clock hand
	hand int

	indexMax   int64
	indexBytes int64
	indexed    []*segment // with indexes loaded, oldest first

	bufs sync.Pool // *[]byte of scanChunk bytes
}

// DefaultIndexCacheBytes bounds the indexes of old segments kept in memory.
const DefaultIndexCacheBytes = 64 << 20

// NewFiles makes a budget of maxOpen descriptors (at least 1). More are open
// only while readers pin them.
func NewFiles(fsys vfs.FS, maxOpen int) *Files {
	return &Files{FS: fsys, max: max(maxOpen, 1), indexMax: DefaultIndexCacheBytes}
}

// Open tells how many files the budget holds open.
func (fs *Files) Open() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.ring)
}

// handle is an open segment file. It is closed when the last reference goes;
// the budget itself holds one.
type handle struct {
	file vfs.File
	seg  *segment
	refs atomic.Int32
	used atomic.Bool // since the clock hand came by
}

// pin takes a reference unless the handle is already closing.
func (h *handle) pin() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *handle) unpin() {
	if h.refs.Add(-1) == 0 {
		h.file.Close() // whatever had to be durable was synced; nothing to say
	}
}

// acquire gives the segment's open file, pinned.
func (fs *Files) acquire(s *segment, dir string) (*handle, error) {
	if h := s.handle.Load(); h != nil && h.pin() {
		if !h.used.Load() {
			h.used.Store(true)
		}
		return h, nil
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h := s.handle.Load(); h != nil && h.pin() {
		return h, nil
	}
	f, err := fs.open(s, dir+"/"+fileName(s.base, extLog))
	if err != nil {
		return nil, err
	}
	return fs.adopt(s, f), nil
}

// open opens a segment's file. A segment that is gone has none: the file of its
// name may be that of the segment which replaced it.
func (fs *Files) open(s *segment, name string) (vfs.File, error) {
	if s.swapping.Load() {
		f, err := fs.FS.Open(name+extSwap, vfs.ReadWrite)
		if !errors.Is(err, iofs.ErrNotExist) {
			return f, err
		}
	}
	mode := vfs.ReadWrite
	if s.unborn.Load() {
		mode = vfs.Create
	}
	f, err := fs.FS.Open(name, mode)
	if err == nil && s.gone.Load() {
		return nil, errors.Join(iofs.ErrNotExist, f.Close())
	}
	return f, err
}

// adoptNew takes over a file that the owner has just created.
func (fs *Files) adoptNew(s *segment, f vfs.File) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.adopt(s, f).unpin()
}

// adopt makes a pinned handle, evicting others. The caller holds mu.
func (fs *Files) adopt(s *segment, f vfs.File) *handle {
	for len(fs.ring) >= fs.max {
		fs.evictOne()
	}
	h := &handle{file: f, seg: s}
	h.refs.Store(2)
	h.used.Store(true)
	s.handle.Store(h)
	fs.ring = append(fs.ring, h)
	return h
}

func (fs *Files) evictOne() {
	for {
		fs.hand %= len(fs.ring)
		h := fs.ring[fs.hand]
		if h.used.Swap(false) {
			fs.hand++
			continue
		}
		fs.removeAt(fs.hand)
		return
	}
}

func (fs *Files) removeAt(i int) {
	h := fs.ring[i]
	last := len(fs.ring) - 1
	fs.ring[i] = fs.ring[last]
	fs.ring[last] = nil
	fs.ring = fs.ring[:last]
	h.seg.handle.CompareAndSwap(h, nil)
	h.unpin()
}

// drop lets go of everything the budget holds for a segment.
func (fs *Files) drop(s *segment) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h := s.handle.Load(); h != nil {
		for i, r := range fs.ring {
			if r == h {
				fs.removeAt(i)
				break
			}
		}
	}
	for i, x := range fs.indexed {
		if x == s {
			fs.unindex(i)
			break
		}
	}
}

// keepIndex registers the loaded indexes of a segment that is not active, and
// lets go of the oldest ones when there are too many.
func (fs *Files) keepIndex(s *segment, ix *indexes) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	s.index.Store(ix)
	fs.indexed = append(fs.indexed, s)
	fs.indexBytes += ix.bytes()
	for fs.indexBytes > fs.indexMax && len(fs.indexed) > 1 {
		fs.unindex(0)
	}
}

func (fs *Files) unindex(i int) {
	s := fs.indexed[i]
	fs.indexed = append(fs.indexed[:i], fs.indexed[i+1:]...)
	if ix := s.index.Load(); ix != nil && !s.active.Load() {
		fs.indexBytes -= ix.bytes()
		s.index.Store(nil)
	}
}

// scanChunk is how much is read at once when walking over batch headers.
const scanChunk = 16 << 10

func (fs *Files) buffer() *[]byte {
	if b, ok := fs.bufs.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, scanChunk)
	return &b
}

func (fs *Files) release(b *[]byte) { fs.bufs.Put(b) }
