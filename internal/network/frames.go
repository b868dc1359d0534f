package network

import (
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"
)

// frames keeps buffers of frames between uses, up to a number of bytes, so
// that steady load allocates nothing. Sizes are rounded up by at most an
// eighth. Very large frames get pages of their own, which go back to the system
// at once: on the heap, each of them would stay until the next collection and
// double the size of the process. It is safe for concurrent use.
type frames struct {
	limit int

	mu     sync.Mutex
	cached int
	free   map[int][][]byte // by size
}

const (
	minFrameBuffer = 512
	// ownPagesBytes is from which size on a frame gets pages of its own. Only
	// Produce can be so large; nothing of it is used after the answer.
	ownPagesBytes = 8 << 20
)

func newFrames(limitBytes int) *frames {
	return &frames{limit: limitBytes, free: map[int][][]byte{}}
}

// classOf rounds n up to the size of its class.
func classOf(n int) int {
	if n <= minFrameBuffer {
		return minFrameBuffer
	}
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return (n + step - 1) / step * step
}

// get returns a buffer of length n; its contents are undefined.
func (f *frames) get(n int) []byte {
	class := classOf(n)
	if class >= ownPagesBytes {
		if b, err := unix.Mmap(-1, 0, class, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err == nil {
			return b[:n]
		}
		return make([]byte, n) // its capacity is that of no class: put leaves it to the collector
	}
	f.mu.Lock()
	if list := f.free[class]; len(list) > 0 {
		b := list[len(list)-1]
		list[len(list)-1] = nil
		f.free[class] = list[:len(list)-1]
		f.cached -= class
		f.mu.Unlock()
		return b[:n]
	}
	f.mu.Unlock()
	return make([]byte, n, class)
}

// put gives a buffer back.
func (f *frames) put(b []byte) {
	class := cap(b)
	if class >= ownPagesBytes {
		// Fails only for a slice that Mmap did not give: the fallback of get.
		_ = unix.Munmap(b[:class])
		return
	}
	if class != classOf(class) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cached+class > f.limit {
		return
	}
	f.free[class] = append(f.free[class], b[:0])
	f.cached += class
}

// trim drops half of what is cached, so that a quiet server shrinks.
func (f *frames) trim() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for class, list := range f.free {
		keep := len(list) / 2
		f.cached -= class * (len(list) - keep)
		clear(list[keep:])
		f.free[class] = list[:keep]
	}
}
