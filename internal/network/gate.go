package network

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
)

// fullWarnEvery is how often the log says that connections wait.
const fullWarnEvery = time.Minute

// gate decides which new connection may come in, and when. It belongs to whoever
// holds Server.mu.
type gate struct {
	limits      Limits
	protected   map[string]bool // listeners in lower case
	open        int             // connections that were let in and have not ended
	inner       int             // those of them that came through protected listeners
	perIP       map[string]int
	perListener map[string]int

	pace    *pace            // of all listeners that are not protected
	paces   map[string]*pace // of each
	changed chan struct{}    // closed when one that is held back should look again
	held    int              // connections that are held back
	warnAt  time.Duration    // when to say again that connections wait
}

func newGate(limits Limits) *gate {
	g := &gate{
		perIP: map[string]int{}, perListener: map[string]int{},
		pace: newPace(limits.CreationRate), paces: map[string]*pace{}, changed: make(chan struct{}),
	}
	g.set(limits)
	return g
}

// isProtected tells whether a listener is not held up by what clients do on the
// others: that of other brokers, and the controllers'.
func (g *gate) isProtected(name string) bool { return g.protected[strings.ToLower(name)] }

// wake lets those that are held back look again.
func (g *gate) wake() {
	if g.held > 0 {
		close(g.changed)
		g.changed = make(chan struct{})
	}
}

// set replaces the limits.
func (g *gate) set(l Limits) {
	g.limits, g.protected, g.inner = l, map[string]bool{}, 0
	for _, name := range l.Protected {
		g.protected[strings.ToLower(name)] = true
	}
	for name, n := range g.perListener {
		if g.isProtected(name) {
			g.inner += n
		}
	}
	g.pace.retune(l.CreationRate)
	for name, p := range g.paces {
		p.retune(l.listener(name).CreationRate)
	}
	g.wake()
}

// full names the limit because of which a connection of a listener must wait for
// another to end; "" if there is none.
func (g *gate) full(name string) string {
	own := g.limits.listener(name).MaxConnections
	switch {
	case own >= 0 && g.perListener[name] >= own:
		return "max.connections of the listener"
	case g.isProtected(name) && g.inner < g.limits.MaxConnections: // others make room
	case g.open >= g.limits.MaxConnections:
		return "max.connections, or what the limit of open files leaves,"
	}
	return ""
}

// turn takes a place for a connection of a listener if one is free and the rates
// allow it; else it tells for how long to wait: until something changes if full
// says why, an hour at least if a rate is 0.
func (g *gate) turn(name string, now time.Duration) (wait time.Duration, full string) {
	if full = g.full(name); full != "" {
		return 0, full
	}
	own := g.paces[name]
	if own == nil {
		own = newPace(g.limits.listener(name).CreationRate)
		g.paces[name] = own
	}
	wait = own.wait(now)
	if !g.isProtected(name) {
		wait = max(wait, g.pace.wait(now))
	}
	if wait > 0 {
		return wait, ""
	}
	own.take()
	if !g.isProtected(name) {
		g.pace.take()
	}
	g.count(name, 1)
	return 0, ""
}

func (g *gate) count(name string, n int) {
	g.open += n
	g.perListener[name] += n
	if g.isProtected(name) {
		g.inner += n
	}
}

// forget drops what is kept of a listener that is gone with its connections. Those of
// one that had the same name after it may not have ended yet.
func (g *gate) forget(name string) {
	if g.perListener[name] > 0 {
		return
	}
	delete(g.perListener, name)
	delete(g.paces, name)
}

// leave gives a place back.
func (g *gate) leave(name string) {
	g.count(name, -1)
	g.wake()
}

// come counts a connection of an address; false if it has too many.
func (g *gate) come(host string) bool {
	most := g.limits.MaxConnectionsPerIP
	if n, ok := g.limits.PerIPOverrides[host]; ok {
		most = n
	}
	if g.perIP[host] >= most {
		return false
	}
	g.perIP[host]++
	return true
}

// goes takes back what come counted.
func (g *gate) goes(host string) {
	if g.perIP[host]--; g.perIP[host] == 0 {
		delete(g.perIP, host)
	}
}

// SetLimits replaces the limits. Who is held back looks again; if more connections
// are open than may be, those that were idle for longest are closed, but none of a
// protected listener.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gate.limits.equal(&l) {
		s.gate.set(l)
		s.makeRoom()
	}
}

// errNoRoom says why a connection is closed that did nothing wrong; makeRoom has a
// line in the log for all of them.
var errNoRoom = errors.New("max.connections is exceeded")

// makeRoom closes connections while too many are open. Called with mu held.
func (s *Server) makeRoom() {
	n := s.gate.open - s.gate.limits.MaxConnections - s.leaving
	if n <= 0 {
		return
	}
	var list []*conn
	for c := range s.conns {
		if !c.leaving && !s.gate.isProtected(c.peer.Listener) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.lastUse.Load(), b.lastUse.Load()) })
	list = list[:min(n, len(list))]
	for _, c := range list {
		c.leaving = true
		s.leaving++
		go c.shut(errNoRoom)
	}
	if len(list) > 0 {
		go s.opts.Log.Warn("connections that were idle for longest are closed: max.connections is exceeded", "connections", len(list))
	}
}

// Held tells how many connections wait to be let in: one of a listener at most,
// others are in the system's backlog behind it.
func (s *Server) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate.held
}

// waitTurn holds a new connection back until there is a place for it, as Kafka's
// acceptor does; false if the listener is closed meanwhile.
func (s *Server) waitTurn(l *listener) bool {
	name := l.name
	for held := 0; ; held = 1 {
		s.mu.Lock()
		s.gate.held -= held
		now := s.now()
		wait, full := s.gate.turn(name, now)
		if wait == 0 && full == "" {
			s.mu.Unlock()
			return true
		}
		s.gate.held++
		changed := s.gate.changed
		warn := full != "" && now >= s.gate.warnAt
		if warn {
			s.gate.warnAt = now + fullWarnEvery
		}
		s.mu.Unlock()
		if warn {
			s.opts.Log.Warn(full+" is reached: new connections wait until others end", "listener", name)
		}
		if full != "" {
			wait = fullWarnEvery
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-l.stop:
			timer.Stop()
			s.mu.Lock()
			s.gate.held--
			s.mu.Unlock()
			return false
		}
		timer.Stop()
	}
}
