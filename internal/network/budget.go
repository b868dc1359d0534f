package network

import "sync"

// Budget limits the bytes of request frames, and of what they decode to, that
// are in memory at a time. Waiters are served in order of arrival, so a large
// request is not starved by small ones. A request larger than the whole budget
// is admitted when nothing else is in memory.
type Budget struct {
	limit int64

	mu    sync.Mutex
	used  int64
	queue []*budgetWaiter
}

type budgetWaiter struct {
	n     int64
	ready chan struct{}
}

// NewBudget makes a budget of limitBytes.
func NewBudget(limitBytes int64) *Budget { return &Budget{limit: limitBytes} }

// Acquire takes n bytes; it waits until they are free, and reports false if
// gone is closed before that.
func (b *Budget) Acquire(n int64, gone <-chan struct{}) bool {
	b.mu.Lock()
	if len(b.queue) == 0 && b.fits(n) {
		b.used += n
		b.mu.Unlock()
		return true
	}
	w := &budgetWaiter{n: n, ready: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-gone:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range b.queue {
		if q == w {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.admit()
			return false
		}
	}
	b.used -= n // it was admitted in the same moment
	b.admit()
	return false
}

// Release gives n bytes back.
func (b *Budget) Release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.used < 0 {
		panic("network: more bytes released than acquired")
	}
	b.admit()
}

func (b *Budget) admit() {
	for len(b.queue) > 0 && b.fits(b.queue[0].n) {
		w := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.used += w.n
		close(w.ready)
	}
}

// Used tells how many bytes are taken, and whether somebody waits for more.
func (b *Budget) Used() (used int64, contended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, len(b.queue) > 0
}

func (b *Budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.limit }
