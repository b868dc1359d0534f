package network

import (
	"maps"
	"strings"
	"time"
)

// Limits bound connections. They can be replaced at any time; connections that
// are open stay.
type Limits struct {
	MaxConnections      int // max.connections, of all listeners
	MaxConnectionsPerIP int // max.connections.per.ip
	PerIPOverrides      map[string]int
	CreationRate        int // max.connection.creation.rate, a second
	// Listeners have limits of their own beside those of all, by name in lower
	// case (listener.name.<name>.…).
	Listeners map[string]ListenerLimits
}

// ListenerLimits bound the connections of one listener; −1 does not.
type ListenerLimits struct{ MaxConnections, CreationRate int }

// unlimited is Kafka's default of limits of connections.
const unlimited = 1<<31 - 1

// Unlimited bounds nothing.
func Unlimited() Limits {
	return Limits{MaxConnections: unlimited, MaxConnectionsPerIP: unlimited, CreationRate: unlimited}
}

func (l *Limits) equal(o *Limits) bool {
	return l.MaxConnections == o.MaxConnections && l.MaxConnectionsPerIP == o.MaxConnectionsPerIP && l.CreationRate == o.CreationRate &&
		maps.Equal(l.PerIPOverrides, o.PerIPOverrides) && maps.Equal(l.Listeners, o.Listeners)
}

func (l *Limits) listener(name string) ListenerLimits {
	if own, ok := l.Listeners[strings.ToLower(name)]; ok {
		return own
	}
	return ListenerLimits{-1, -1}
}

// SetLimits replaces the limits. Who waits for the rate of new connections looks
// again.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limits.equal(&l) {
		return
	}
	s.limits = l
	s.pace.retune(l.CreationRate)
	for name, p := range s.paces {
		p.retune(l.listener(name).CreationRate)
	}
	close(s.retuned)
	s.retuned = make(chan struct{})
}

// refusal says why a connection cannot be let in; "" if it can. Called with mu
// held.
func (s *Server) refusal(name, host string) string {
	perIP := s.limits.MaxConnectionsPerIP
	if n, ok := s.limits.PerIPOverrides[host]; ok {
		perIP = n
	}
	own := s.limits.listener(name).MaxConnections
	switch {
	case s.closed:
		return "server is stopping"
	case len(s.conns) >= s.limits.MaxConnections:
		return "max.connections, or what the limit of open files leaves, is reached"
	case own >= 0 && s.perListener[name] >= own:
		return "max.connections of the listener is reached"
	case s.perIP[host] >= perIP:
		return "max.connections.per.ip is reached"
	}
	return ""
}

// waitTurn holds a new connection back until the rate of new connections allows
// it, as Kafka's acceptor does; false if the server stops meanwhile.
func (s *Server) waitTurn(name string) bool {
	for held := 0; ; held = 1 {
		s.mu.Lock()
		s.held -= held
		own := s.paces[name]
		if own == nil {
			own = newPace(s.limits.listener(name).CreationRate)
			s.paces[name] = own
		}
		now := s.now()
		wait := max(s.pace.wait(now), own.wait(now))
		if wait == 0 {
			s.pace.take()
			own.take()
		} else {
			s.held++
		}
		retuned := s.retuned
		s.mu.Unlock()
		if wait == 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-retuned:
		case <-s.stop:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// paceBurst is for how long a rate may be saved up: Kafka measures over ten
// samples of a second (quota.window.num, quota.window.size.seconds).
const paceBurst = 10 * time.Second

// pace lets things happen at a rate. It belongs to whoever holds Server.mu.
type pace struct {
	rate  float64 // a second; negative: any
	saved float64
	last  time.Duration
}

func newPace(rate int) *pace {
	p := &pace{}
	p.retune(rate)
	p.saved = p.most()
	return p
}

func (p *pace) most() float64 { return max(p.rate*paceBurst.Seconds(), min(p.rate, 1)) }

func (p *pace) retune(rate int) {
	if p.rate = float64(rate); rate == unlimited {
		p.rate = -1
	}
	p.saved = max(min(p.saved, p.most()), 0)
}

// wait tells how long it is until the next may happen; an hour if never.
func (p *pace) wait(now time.Duration) time.Duration {
	if p.rate < 0 {
		return 0
	}
	p.saved = min(p.saved+p.rate*(now-p.last).Seconds(), p.most())
	p.last = now
	switch {
	case p.saved >= 1:
		return 0
	case p.rate == 0:
		return time.Hour
	}
	return max(time.Duration((1-p.saved)/p.rate*float64(time.Second)), time.Millisecond)
}

func (p *pace) take() {
	if p.rate >= 0 {
		p.saved--
	}
}
