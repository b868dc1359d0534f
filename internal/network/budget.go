package network

import (
	"slices"
	"sync"
)

// Budget limits the bytes of request frames, and of what they decode to, that
// are in memory at a time. Waiters are served in order of arrival, so a large
// request is not starved by small ones. A request larger than the whole budget
// is admitted when nothing else is in memory.
//
// A frame that says how large it is has not arrived yet. While less than half of
// the budget is taken, its word is believed (Believe); from there on it is
// charged as its bytes come in (Acquire, then Grow), so that those who only claim
// memory keep it from nobody. Frames that grow hold what they have while they
// wait; so that two of them cannot wait for each other, one at a time is given
// all of its rest beyond the limit. So no more is in memory than the limit and
// one request.
type Budget struct {
	limit int64

	mu      sync.Mutex
	used    int64
	queue   []*budgetWaiter
	growing []*budgetWaiter // served before queue: they hold memory already
}

type budgetWaiter struct {
	n     int64
	ready chan struct{}
}

// Believe takes n bytes if that leaves half of the budget free.
func (b *Budget) Believe(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.contended() || b.used+n > b.limit/2 {
		return false
	}
	b.used += n
	return true
}

// Grow takes bytes for somebody who holds some: step if there is room, else,
// after a wait, rest, which is all that is missing. It gives how many it took; 0
// if gone was closed before that.
func (b *Budget) Grow(step, rest int64, gone <-chan struct{}) int64 {
	b.mu.Lock()
	if len(b.growing) == 0 && b.used+step <= b.limit {
		b.used += step
		b.mu.Unlock()
		return step
	}
	w := &budgetWaiter{n: rest, ready: make(chan struct{})}
	b.growing = append(b.growing, w)
	b.admit()
	b.mu.Unlock()
	if !b.wait(w, gone) {
		return 0
	}
	return rest
}

// NewBudget makes a budget of limitBytes.
func NewBudget(limitBytes int64) *Budget { return &Budget{limit: limitBytes} }

// TryAcquire takes n bytes if they are free now and nobody waits for any.
func (b *Budget) TryAcquire(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.contended() || !b.fits(n) {
		return false
	}
	b.used += n
	return true
}

// Acquire takes n bytes; it waits until they are free, and reports false if
// gone is closed before that.
func (b *Budget) Acquire(n int64, gone <-chan struct{}) bool {
	b.mu.Lock()
	if !b.contended() && b.fits(n) {
		b.used += n
		b.mu.Unlock()
		return true
	}
	w := &budgetWaiter{n: n, ready: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.mu.Unlock()
	return b.wait(w, gone)
}

// wait waits until w is admitted; false if gone is closed before that.
func (b *Budget) wait(w *budgetWaiter, gone <-chan struct{}) bool {
	select {
	case <-w.ready:
		return true
	case <-gone:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range []*[]*budgetWaiter{&b.queue, &b.growing} {
		if i := slices.Index(*list, w); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			b.admit()
			return false
		}
	}
	b.used -= w.n // it was admitted in the same moment
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
	for len(b.growing) > 0 && b.used <= b.limit {
		w := b.growing[0]
		b.growing = slices.Delete(b.growing, 0, 1)
		b.used += w.n
		close(w.ready)
	}
	for len(b.growing) == 0 && len(b.queue) > 0 && b.fits(b.queue[0].n) {
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
	return b.used, b.contended()
}

func (b *Budget) contended() bool { return len(b.queue)+len(b.growing) > 0 }

func (b *Budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.limit }
