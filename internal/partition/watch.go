package partition

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
)

// Waiter is somebody who waits for news of partitions, or for a deadline. Wake
// runs once, on a goroutine of its own, at the first of: news from a partition
// that watches it, its deadline, Fire.
type Waiter struct {
	fired atomic.Bool
	Wake  func()

	at    kafka.Mono
	index int // in the deadline heap, −1: not there
}

// NewWaiter makes a Waiter.
func NewWaiter(wake func()) *Waiter { return &Waiter{Wake: wake, index: -1} }

// Fire wakes the waiter, unless somebody has done so.
func (w *Waiter) Fire() {
	if w.fired.CompareAndSwap(false, true) {
		go w.Wake()
	}
}

// Fired tells whether the waiter has been woken.
func (w *Waiter) Fired() bool { return w.fired.Load() }

// watchers are the waiters of one partition.
type watchers struct {
	news atomic.Uint64 // counts the calls of wake
	n    atomic.Int32
	mu   sync.Mutex
	ws   []*Waiter
}

func (s *watchers) add(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ws = append(s.ws, w)
	s.n.Store(int32(len(s.ws)))
}

func (s *watchers) remove(w *Waiter) {
	if s.n.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range s.ws {
		if x == w {
			last := len(s.ws) - 1
			s.ws[i], s.ws[last] = s.ws[last], nil
			s.ws = s.ws[:last]
			break
		}
	}
	s.n.Store(int32(len(s.ws)))
}

func (s *watchers) wake() {
	s.news.Add(1)
	if s.n.Load() == 0 {
		return
	}
	s.mu.Lock()
	ws := s.ws
	s.ws = nil
	s.n.Store(0)
	s.mu.Unlock()
	for _, w := range ws {
		w.Fire()
	}
}

// Watch lets news of the partition wake w: the high watermark rises, leadership
// changes, the partition goes. Look at the partition again after Watch, since
// news may have come before it.
func (p *Partition) Watch(w *Waiter) { p.watch.add(w) }

// News rises with everything that wakes those who watch. Who finds it as it was
// before looking at the partition, after Watch, has missed nothing.
func (p *Partition) News() uint64 { return p.watch.news.Load() }

// Unwatch undoes Watch.
func (p *Partition) Unwatch(w *Waiter) { p.watch.remove(w) }

// Deadlines wakes waiters at their times, with one goroutine and one timer.
type Deadlines struct {
	now  func() kafka.Mono
	poke chan struct{}
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	heap  waiterHeap
	armed kafka.Mono // when the goroutine will look again
}

// NewDeadlines starts the goroutine; Close ends it.
func NewDeadlines(now func() kafka.Mono) *Deadlines {
	d := &Deadlines{now: now, poke: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go d.run()
	return d
}

// Add wakes w at the time at, if nobody does before.
func (d *Deadlines) Add(w *Waiter, at kafka.Mono) {
	d.mu.Lock()
	w.at = at
	heap.Push(&d.heap, w)
	// A fetch that is woken and waits again moves its deadline back each time:
	// the goroutine then wakes once for nothing rather than being poked for each.
	early := at < d.armed
	d.mu.Unlock()
	if early {
		select {
		case d.poke <- struct{}{}:
		default:
		}
	}
}

// Remove undoes Add.
func (d *Deadlines) Remove(w *Waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.index >= 0 {
		heap.Remove(&d.heap, w.index)
	}
}

// Close ends the goroutine. Waiters that are left are not woken.
func (d *Deadlines) Close() {
	close(d.stop)
	<-d.done
}

func (d *Deadlines) run() {
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(d.fireDue())
		select {
		case <-timer.C:
		case <-d.poke:
		case <-d.stop:
			return
		}
	}
}

// fireDue wakes whose time has come and tells how long it is to the next.
func (d *Deadlines) fireDue() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for len(d.heap) > 0 {
		w := d.heap[0]
		if w.at > now {
			d.armed = w.at
			return w.at.Sub(now)
		}
		heap.Pop(&d.heap)
		w.Fire()
	}
	d.armed = now.Add(time.Hour)
	return time.Hour
}

type waiterHeap []*Waiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waiterHeap) Push(x any) {
	w := x.(*Waiter)
	w.index = len(*h)
	*h = append(*h, w)
}

func (h *waiterHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.index = -1
	return w
}
