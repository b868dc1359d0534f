package sim

import "moldau/internal/kafka"

// action is something that will happen. Actions of one time happen in the order
// in which they were pushed.
type action struct {
	at    kafka.Mono
	order uint64
	do    func()
}

func (a *action) before(b *action) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

// queue is a heap of actions.
type queue struct {
	heap  []action
	order uint64
}

func (q *queue) push(at kafka.Mono, do func()) {
	q.order++
	q.heap = append(q.heap, action{at, q.order, do})
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.heap[i].before(&q.heap[up]) {
			break
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

func (q *queue) pop() (action, bool) {
	n := len(q.heap) - 1
	if n < 0 {
		return action{}, false
	}
	top := q.heap[0]
	q.heap[0] = q.heap[n]
	q.heap[n] = action{}
	q.heap = q.heap[:n]
	for i := 0; ; {
		low := 2*i + 1
		if low+1 < n && q.heap[low+1].before(&q.heap[low]) {
			low++
		}
		if low >= n || !q.heap[low].before(&q.heap[i]) {
			break
		}
		q.heap[i], q.heap[low] = q.heap[low], q.heap[i]
		i = low
	}
	return top, true
}
