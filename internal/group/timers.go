package group

import (
	"container/heap"
	"time"

	"moldau/internal/kafka"
)

func millis[T int32 | int64](ms T) time.Duration { return time.Duration(ms) * time.Millisecond }

// timer is something that happens at a time, unless it is set anew before. The
// zero value is not set.
//
// Setting a timer to a later time, which every heartbeat does, changes a field;
// its place in the heap is put right when its old time comes.
type timer struct {
	at     kafka.Mono // when; kafka.Never: not set
	queued kafka.Mono // its place in the heap
	order  uint64     // of setting: ties go in order
	index  int        // in the heap, from 1; 0: not there
	fire   func(*Coordinator)
}

// timers is a heap by queued.
type timers struct {
	heap  []*timer
	count uint64
}

func (ts *timers) set(t *timer, at kafka.Mono) {
	t.at = at
	switch {
	case t.index == 0:
		ts.count++
		t.queued, t.order = at, ts.count
		heap.Push(ts, t)
	case at < t.queued:
		t.queued = at
		heap.Fix(ts, t.index-1)
	}
}

// cancel stops a timer; it leaves the heap at once, so that what it would
// touch can be forgotten.
func (ts *timers) cancel(t *timer) {
	t.at = kafka.Never
	if t.index != 0 {
		heap.Remove(ts, t.index-1)
	}
}

func (ts *timers) next() kafka.Mono {
	if len(ts.heap) == 0 {
		return kafka.Never
	}
	return ts.heap[0].queued
}

// fireOne lets one timer that is due act: its records stand or fall alone.
func (ts *timers) fireOne(c *Coordinator) {
	for len(ts.heap) > 0 && ts.heap[0].queued <= c.now.Mono {
		t := ts.heap[0]
		if t.at > c.now.Mono {
			t.queued = t.at
			heap.Fix(ts, 0)
			continue
		}
		heap.Pop(ts)
		t.at = kafka.Never
		t.fire(c)
		return
	}
}

func (ts *timers) Len() int { return len(ts.heap) }

func (ts *timers) Less(i, j int) bool {
	a, b := ts.heap[i], ts.heap[j]
	return a.queued < b.queued || a.queued == b.queued && a.order < b.order
}

func (ts *timers) Swap(i, j int) {
	h := ts.heap
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (ts *timers) Push(x any) {
	t := x.(*timer)
	ts.heap = append(ts.heap, t)
	t.index = len(ts.heap)
}

func (ts *timers) Pop() any {
	last := len(ts.heap) - 1
	t := ts.heap[last]
	ts.heap[last] = nil
	ts.heap = ts.heap[:last]
	t.index = 0
	return t
}
