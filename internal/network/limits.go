package network

import (
	"maps"
	"slices"
	"strings"
)

// Limits bound connections. They can be replaced at any time. Beyond
// MaxConnections and the rates a new connection waits until it can be let in, and
// its listener with it; beyond the limit of its address it is closed
// (ConnectionQuotas).
type Limits struct {
	MaxConnections      int // max.connections, of all listeners
	MaxConnectionsPerIP int // max.connections.per.ip
	PerIPOverrides      map[string]int
	CreationRate        int // max.connection.creation.rate, a second
	// Listeners have limits of their own beside those of all, by name in lower
	// case (listener.name.<name>.…).
	Listeners map[string]ListenerLimits
	// Protected are listeners that others' connections do not hold up
	// (ConnectionQuotas.protectedListener).
	Protected []string
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
		maps.Equal(l.PerIPOverrides, o.PerIPOverrides) && maps.Equal(l.Listeners, o.Listeners) &&
		slices.Equal(l.Protected, o.Protected)
}

func (l *Limits) listener(name string) ListenerLimits {
	if own, ok := l.Listeners[strings.ToLower(name)]; ok {
		return own
	}
	return ListenerLimits{-1, -1}
}
