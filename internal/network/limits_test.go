package network

import (
	"net"
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

// served opens a connection and waits until it has been served once.
func (r *rig) served() net.Conn {
	r.t.Helper()
	c := r.dial()
	r.serve(c)
	return c
}

func (r *rig) serve(c net.Conn) {
	r.t.Helper()
	send(r.t, c, frame(18, 1, nil))
	answer(r.next(), "")
	receive(r.t, c)
}

// waitHeld waits until n connections are held back.
func (r *rig) waitHeld(n int) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		held := r.s.Held()
		if held == n {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d connections are held back, not %d", held, n)
		}
	}
}

// Limits act on connections that come after them. One beyond its address's is
// closed; beyond that of all, of the listener and beyond the rate it waits, until
// there are other limits. Each part fails without its case in full, come or turn.
func TestLimitsCanBeReplaced(t *testing.T) {
	r := newRig(t, Options{})
	first := r.served()
	for why, set := range map[string]func(*Limits){
		"max.connections, or what the limit of open files leaves, is reached": func(l *Limits) { l.MaxConnections = 1 },
		"max.connections of the listener is reached":                          func(l *Limits) { l.Listeners = map[string]ListenerLimits{"plaintext": {1, -1}} },
		"": func(l *Limits) { l.CreationRate = 0 },
	} {
		l := Unlimited()
		set(&l)
		r.s.SetLimits(l)
		r.s.mu.Lock()
		r.s.gate.warnAt = 0
		r.s.mu.Unlock()
		waiting := r.dial()
		send(t, waiting, frame(18, 2, nil))
		r.waitHeld(1)
		r.waitLog(why)
		r.none("a connection came in beyond the limits")
		r.s.SetLimits(Unlimited())
		answer(r.next(), "")
		receive(t, waiting)
		waiting.Close()
		for end := time.Now().Add(20 * time.Second); r.s.Connections() > 1; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("the connection does not end")
			}
		}
	}
	l := Unlimited()
	l.PerIPOverrides = map[string]int{"127.0.0.1": 1}
	r.s.SetLimits(l)
	closedBy(t, r.dial())
	r.waitLog("max.connections.per.ip is reached")
	r.serve(first) // it was there before, and stays
}

// Who waits for a place gets it when another connection ends, and nobody else
// takes it. Fails if leave does not wake, or turn does not count.
func TestAPlaceIsPassedOn(t *testing.T) {
	l := Unlimited()
	l.MaxConnections = 2
	r := newRig(t, Options{Limits: &l})
	first := r.served()
	r.served()
	third, fourth := r.dial(), r.dial()
	send(t, third, frame(18, 3, nil))
	send(t, fourth, frame(18, 4, nil))
	r.waitHeld(1) // the other is in the listener's backlog
	first.Close()
	answer(r.next(), "")
	if id, _ := receive(t, third); id != 3 {
		t.Fatalf("answer to %d", id)
	}
	r.waitHeld(1)
	r.none("a connection came in beyond the limit")
}

// Other brokers and controllers are not locked out by clients: who comes through a
// protected listener is let in, and the client that was idle for longest goes. The
// same happens when the limit falls. Fails if full does not ask isProtected, if
// enter does not make room, or if that closes protected connections.
func TestProtectedListenersAreLetIn(t *testing.T) {
	l := Unlimited()
	l.Protected = []string{"Inter"}
	r := newRig(t, Options{Limits: &l})
	l.MaxConnections, l.CreationRate = 2, 0
	address, err := r.s.Listen("INTER", "127.0.0.1:0", r.h)
	if err != nil {
		t.Fatal(err)
	}
	idle, busy := r.served(), r.served()
	r.serve(idle)
	r.serve(busy)
	r.s.SetLimits(l)
	var peers []net.Conn
	for range 2 {
		c := r.dialTo(address.String())
		r.serve(c)
		if len(peers) == 0 {
			closedBy(t, idle)
			r.serve(busy)
		}
		peers = append(peers, c)
	}
	closedBy(t, busy)
	l.MaxConnections = 1
	r.s.SetLimits(l)
	for _, c := range peers {
		r.serve(c)
	}
	r.waitLog("idle for longest")
	send(t, r.dialTo(address.String()), frame(18, 2, nil))
	r.waitHeld(1) // they cannot take all descriptors either
	r.none("a connection came in that nobody can make room for")
}

// An address that has too many connections already closes nobody else's by coming
// through a protected listener. Fails if room is made before its address is looked
// at.
func TestWhoIsRefusedTakesNoPlace(t *testing.T) {
	l := Unlimited()
	l.Protected = []string{"Inter"}
	r := newRig(t, Options{Limits: &l})
	address, err := r.s.Listen("INTER", "127.0.0.1:0", r.h)
	if err != nil {
		t.Fatal(err)
	}
	idle, busy := r.served(), r.served()
	l.MaxConnections, l.MaxConnectionsPerIP = 2, 2
	r.s.SetLimits(l)
	for range 3 {
		closedBy(t, r.dialTo(address.String()))
	}
	r.serve(idle)
	r.serve(busy)
	l.MaxConnectionsPerIP = 3
	r.s.SetLimits(l)
	r.serve(r.dialTo(address.String()))
	closedBy(t, idle)
	r.serve(busy)
}
