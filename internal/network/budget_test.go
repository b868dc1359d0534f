package network

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// Many who only claim memory keep it from nobody: no timeout has to throw them
// out first. Fails if readBody charges what a frame says before it comes.
func TestClaimsAloneTakeNoBudget(t *testing.T) {
	r := newRig(t, Options{BudgetBytes: 1 << 20, StallTimeout: time.Hour, FrameTimeout: time.Hour})
	for range 50 {
		send(t, r.dial(), frame(0, 1, make([]byte, 200_000))[:12])
		send(t, r.dial(), frame(0, 1, make([]byte, 3<<20))[:12])
	}
	c := r.dial()
	for _, size := range []int{10, 5000, 300_000, 2 << 20} {
		body := bytes.Repeat([]byte("y"), size)
		go c.Write(frame(0, 7, body))
		q := r.next()
		if !bytes.Equal(q.Frame[8:], body) {
			t.Fatalf("%d bytes: the frame is not what was sent", size)
		}
		answer(q, "served")
		if _, got := receive(t, c); got != "served" {
			t.Fatal(got)
		}
	}
}

// Frames that together exceed the budget, all half arrived, do not wait for each
// other. Fails if admit lets nobody grow beyond the limit.
func TestGrowingFramesDoNotWaitForEachOther(t *testing.T) {
	r := newRig(t, Options{BudgetBytes: 1 << 20, StallTimeout: time.Hour, FrameTimeout: time.Hour})
	const clients = 6
	body := bytes.Repeat([]byte("z"), 700_000)
	f := frame(0, 7, body)
	for range clients {
		c := r.dial()
		send(t, c, f[:150_000])
		go c.Write(f[150_000:])
	}
	for range clients {
		q := r.next()
		if !bytes.Equal(q.Frame[8:], body) {
			t.Fatal("the frame is not what was sent")
		}
		answer(q, "served")
	}
	for {
		used, contended := r.s.budget.Used()
		if used == 0 && !contended {
			return
		}
		runtime.Gosched()
	}
}

func TestBudgetGrows(t *testing.T) {
	b, never := NewBudget(100), make(chan struct{})
	if !b.Believe(50) || b.Believe(1) {
		t.Fatal("half of it is believed, no more")
	}
	if !b.Acquire(40, never) || b.Grow(10, 30, never) != 10 {
		t.Fatal("there was room")
	}
	if n := b.Grow(10, 500, never); n != 500 { // the first beyond the limit
		t.Fatal(n)
	}
	gone := make(chan struct{})
	close(gone)
	if n := b.Grow(1, 1, gone); n != 0 || b.Acquire(1, gone) {
		t.Fatal("the second beyond the limit waits")
	}
	b.Release(600)
	if used, contended := b.Used(); used != 0 || contended {
		t.Fatal(used, contended)
	}
}
