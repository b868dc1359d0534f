package server_test

import (
	"runtime"
	"testing"
	"time"

	"moldau/internal/kafka"
)

// Limits of connections act without a restart, of this broker, of all, and of one
// listener, and are there after one. Fails if a key of takers is not taken.
func TestDynamicLimitsOfConnections(t *testing.T) {
	n := start(t, "listener.name.plaintext.max.connections=1000", "max.connection.creation.rate=1000")
	c := n.dial()
	if v, s, ok := c.describedAs(4, "1", "listener.name.plaintext.max.connections"); !ok || v != "1000" || s != 4 {
		t.Errorf("the setting in the properties is described as %q from %d", v, s)
	}
	await := func(what string, true func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !true(); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	for _, q := range []struct {
		broker, key, value string
		waits              bool
	}{
		{"1", "max.connections", "1", true},
		{"", "max.connections.per.ip", "1", false},
		{"1", "max.connections.per.ip.overrides", "127.0.0.1:1", false},
		{"1", "listener.name.plaintext.max.connections", "1", true},
	} {
		c.alter(4, q.broker, q.key, q.value, 0, 0)
		other := n.dial()
		if q.waits {
			await(q.key+" lets a connection in", func() bool { return n.s.Held() == 1 })
			c.alter(4, q.broker, q.key, "", 1, 0)
		} else {
			other.closed(q.key)
			c.alter(4, q.broker, q.key, "", 1, 0)
			other = n.dial()
		}
		other.epoch()
		other.conn.Close()
		await("the other connection does not end", func() bool { return n.s.Connections() == 1 })
	}
	c.alter(4, "1", "max.connections", "one", 0, kafka.ErrInvalidRequest)
	c.alter(4, "1", "max.connection.creation.rate", "500", 0, 0)
	c.alter(4, "1", "listener.name.plaintext.max.connections", "1", 0, 0)
	n.restart()
	c = n.dial()
	c.epoch()
	n.dial()
	await("the setting that was stored lets a connection in", func() bool { return n.s.Held() == 1 })
}
