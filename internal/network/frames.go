package network

import (
	"math/bits"
	"sync"
)

// frames keeps buffers of frames between uses, up to a number of bytes, so
// that steady load allocates nothing. Sizes are rounded up by at most an
// eighth. It is safe for concurrent use.
type frames struct {
	limit int

	mu     sync.Mutex
	cached int
	free   map[int][][]byte // by size
}

const minFrameBuffer = 512

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
