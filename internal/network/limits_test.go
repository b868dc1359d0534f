package network

import (
	"runtime"
	"testing"
	"time"
)

// A rate may be saved up for ten seconds; what is beyond waits its turn. Fails if
// wait does not save, or take does not spend.
func TestPace(t *testing.T) {
	p := newPace(2)
	now := time.Duration(0)
	for i := range 20 {
		if w := p.wait(now); w != 0 {
			t.Fatalf("the %dth of the first 20 waits %v", i, w)
		}
		p.take()
	}
	if w := p.wait(now); w != 500*time.Millisecond {
		t.Fatalf("the next waits %v", w)
	}
	if now += 500 * time.Millisecond; p.wait(now) != 0 {
		t.Fatal("it waits although its time has come")
	}
	p.take()
	p.retune(0)
	if now += time.Minute; p.wait(now) < time.Minute {
		t.Error("at rate 0 the next may come")
	}
	p.retune(unlimited)
	if w := p.wait(now); w != 0 {
		t.Errorf("without a limit it waits %v", w)
	}
	p.retune(1)
	if w := p.wait(now + time.Second); w != 0 {
		t.Errorf("a second after there was a limit again it waits %v", w)
	}
}

// Limits act on connections that come after them: of all, of a listener, of an
// address, and the rate, which only delays. Each part fails without its case in
// refusal, or without waitTurn.
func TestLimitsCanBeReplaced(t *testing.T) {
	r := newRig(t, Options{})
	first := r.dial()
	send(t, first, frame(18, 1, nil))
	answer(r.next(), "")
	receive(t, first)
	for why, set := range map[string]func(*Limits){
		"max.connections, or what the limit of open files leaves, is reached": func(l *Limits) { l.MaxConnections = 1 },
		"max.connections of the listener is reached":                          func(l *Limits) { l.Listeners = map[string]ListenerLimits{"plaintext": {1, -1}} },
		"max.connections.per.ip is reached":                                   func(l *Limits) { l.PerIPOverrides = map[string]int{"127.0.0.1": 1} },
	} {
		l := Unlimited()
		set(&l)
		r.s.SetLimits(l)
		closedBy(t, r.dial())
		r.waitLog(why)
	}
	slow := Unlimited()
	slow.CreationRate = 0
	r.s.SetLimits(slow)
	waiting := r.dial()
	send(t, waiting, frame(18, 2, nil))
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		r.s.mu.Lock()
		held := r.s.held
		r.s.mu.Unlock()
		if held == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no connection waits at rate 0")
		}
	}
	r.none("a connection came in at rate 0")
	r.s.SetLimits(Unlimited())
	answer(r.next(), "")
	receive(t, waiting)
	send(t, first, frame(18, 3, nil)) // it was there before, and stays
	answer(r.next(), "")
	receive(t, first)
}
