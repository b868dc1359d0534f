package network

import (
	"net"
	"runtime"
	"strings"
	"testing"

	"moldau/internal/wire"
)

// goroutines tells how many goroutines run accept, connections or what they wait for.
func goroutines(t *testing.T, of string) int {
	t.Helper()
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), of)
}

// A listener is closed alone: its port refuses, its connections end, the idle one,
// the one with a request at work and the one that waits to be let in; no goroutine
// of it is left when CloseListener returns, and connections of others live. Fails
// without the loop over conns, without shut, or if waitTurn does not look at stop.
func TestAListenerIsClosedAlone(t *testing.T) {
	l := Unlimited()
	l.Listeners = map[string]ListenerLimits{"extra": {2, -1}, "rated": {-1, 0}}
	r := newRig(t, Options{Limits: &l})
	const accepts, runs = "network.(*Server).accept(", "network.(*conn).run("
	other := r.served()
	hadAccepts, hadRuns := goroutines(t, accepts), goroutines(t, runs)
	address, err := r.s.Listen("EXTRA", "127.0.0.1:0", r.h)
	if err != nil {
		t.Fatal(err)
	}
	idle := r.dialTo(address.String())
	r.serve(idle)
	busy := r.dialTo(address.String())
	send(t, busy, frame(18, 1, nil))
	late := r.next()
	waits := r.dialTo(address.String())
	r.waitHeld(1)

	r.s.CloseListener("EXTRA")
	if n, m := goroutines(t, accepts), goroutines(t, runs); n != hadAccepts || m != hadRuns {
		t.Errorf("%d goroutines accept and %d serve a connection; before there were %d and %d", n, m, hadAccepts, hadRuns)
	}
	for _, c := range []net.Conn{idle, busy, waits} {
		closedBy(t, c)
	}
	answer(late, "nobody hears it")
	if c, err := net.Dial("tcp", address.String()); err == nil {
		c.Close()
		t.Error("the port is open")
	}
	r.serve(other)
	r.served()
	if r.s.Connections() != 2 || r.s.Held() != 0 {
		t.Errorf("%d connections, %d held back", r.s.Connections(), r.s.Held())
	}
	r.s.CloseListener("EXTRA") // nothing is there

	if address, err = r.s.Listen("RATED", "127.0.0.1:0", r.h); err != nil {
		t.Fatal(err)
	}
	waits = r.dialTo(address.String())
	r.waitHeld(1) // and nobody's end wakes it
	r.s.CloseListener("RATED")
	closedBy(t, waits)
	r.waitHeld(0)
}

// Under its name a listener can be opened again, at the same port, and has its
// limits to itself: those of before are gone with their connections. Fails without
// forget, or if a connection that ends leaves its place taken.
func TestAListenerIsOpenedAgain(t *testing.T) {
	l := Unlimited()
	l.Listeners = map[string]ListenerLimits{"extra": {1, 0}}
	r := newRig(t, Options{Limits: &l})
	address := "127.0.0.1:0"
	for i := range 3 {
		a, err := r.s.Listen("EXTRA", address, r.h)
		if err != nil {
			t.Fatal(err)
		}
		address = a.String()
		l.Listeners = map[string]ListenerLimits{"extra": {1, 10 * (i + 1)}}
		r.s.SetLimits(l)
		r.serve(r.dialTo(address))
		r.s.CloseListener("EXTRA")
		r.s.mu.Lock()
		if g := r.s.gate; g.open != 0 || len(g.perListener) != 0 || len(g.paces) != 0 || len(g.perIP) != 0 {
			t.Errorf("left of it: %d open, %v, %v, %v", g.open, g.perListener, g.paces, g.perIP)
		}
		r.s.mu.Unlock()
	}
}

// Which listeners are protected can change while connections are open. Fails if set
// does not count again who came through them.
func TestProtectionFollowsTheLimits(t *testing.T) {
	l := Unlimited()
	r := newRig(t, Options{Limits: &l})
	address, err := r.s.Listen("EXTRA", "127.0.0.1:0", r.h)
	if err != nil {
		t.Fatal(err)
	}
	inner := r.served()
	client := r.dialTo(address.String())
	r.serve(client)
	l.MaxConnections, l.Protected = 1, []string{"plaintext"}
	r.s.SetLimits(l)
	closedBy(t, client) // it makes room
	r.serve(inner)
	r.dial()
	r.waitHeld(1) // nobody can, for this one
	l.MaxConnections, l.Protected = 2, nil
	r.s.SetLimits(l)
	r.waitHeld(0)
}

// A Server that is closed does not open listeners, and closes what it is given.
func TestAClosedServerOpensNothing(t *testing.T) {
	r := newRig(t, Options{})
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.s.Close()
	if err := r.s.Serve(open, "EXTRA", r.h); err == nil {
		t.Error("it opens one")
	}
	if _, err := open.Accept(); err == nil {
		t.Error("and leaves it open")
	}
	r.s.CloseListener("PLAINTEXT")
}

// Connections that end with their listener make room: none of another is closed
// because of them. And places that are still taken are not forgotten. Fails if
// CloseListener does not count them as leaving, or if forget does not look.
func TestAListenerThatEndsMakesRoom(t *testing.T) {
	l := Unlimited()
	s, plain := dialScripted(t, Options{Limits: &l}, func(q *wire.Request) { answer(q, "") })
	send(t, plain, frame(18, 1, nil))
	wantAnswers(t, plain, 1)
	began, resume, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	extra := dialNew(t, s, "EXTRA", scripted(func(q *wire.Request) {
		close(began)
		<-resume
		answer(q, "")
	}))
	send(t, extra, frame(18, 1, nil))
	<-began
	go func() {
		defer close(ended)
		s.CloseListener("EXTRA")
	}()
	closedBy(t, extra) // its goroutine still runs
	l.MaxConnections = 1
	s.SetLimits(l)
	s.mu.Lock()
	for c := range s.conns {
		if c.leaving != (c.peer.Listener == "EXTRA") {
			t.Errorf("one of %s leaves: %v", c.peer.Listener, c.leaving)
		}
	}
	if s.gate.forget("EXTRA"); s.gate.perListener["EXTRA"] != 1 {
		t.Error("a place that is taken is forgotten")
	}
	s.mu.Unlock()
	close(resume)
	<-ended
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, left := s.gate.perListener["EXTRA"]; left || s.gate.open != 1 || s.leaving != 0 {
		t.Errorf("%d open, %v, %d leaving", s.gate.open, s.gate.perListener, s.leaving)
	}
}
