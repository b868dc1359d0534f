package controller

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

const (
	// ConnectionLostGrace is how long a broker that has closed its connection
	// has for a heartbeat over another one. Processes that die close all of
	// theirs; a broker that only reconnects does so within a round trip.
	ConnectionLostGrace = 100 * time.Millisecond

	// deadLeaderGrace is the session of the broker in a process that led until
	// its connections broke. If it lives it soon finds the new controller.
	deadLeaderGrace = time.Second

	// A deadline that is told later than stallTolerance means that this process
	// stood still, and with it the heartbeats that came meanwhile: they may lie
	// in sockets nobody has read. Sessions that ended then get stallGrace.
	stallTolerance = time.Second
	stallGrace     = time.Second
)

// session is what the controller knows of a broker that is not in the log. It
// is soft: a new controller starts with a fresh one.
type session struct {
	epoch          kafka.BrokerEpoch
	expires        kafka.Mono   // kafka.Never before the first heartbeat
	lost           kafka.Mono   // when the broker closed its connection; before any other time if it did not
	spared         bool         // got its stallGrace since the last contact
	ghost          bool         // of this node's former self; not a live session
	registered     kafka.Offset // of the registration record; 0 if not known
	metadataOffset kafka.Offset // last reported
	shutdownOffset kafka.Offset // end of the log when controlled shutdown began; −1 outside
}

// notLost is before any time of a connection.
const notLost kafka.Mono = -1 << 63

// newSession makes the session of a registration that ends at expires.
func newSession(epoch kafka.BrokerEpoch, expires kafka.Mono) *session {
	return &session{epoch: epoch, expires: expires, lost: notLost, metadataOffset: -1, shutdownOffset: -1}
}

// addSession replaces the session of a broker.
func (c *Core) addSession(id kafka.NodeID, ses *session) {
	c.sessions[id] = ses
	c.earliest = min(c.earliest, ses.expires)
}

// live tells whether a broker with this registration is known to be alive.
func (s *step) live(b *metadata.Broker) bool {
	ses := s.sessions[b.ID]
	return ses != nil && ses.epoch == b.Epoch && !ses.ghost && ses.expires != kafka.Never && s.now.Mono < ses.expires
}

// contact prolongs a session for a sign of life that arrived at the given time.
// One from before the broker closed its connection says nothing.
func (c *Core) contact(ses *session, at kafka.Mono) {
	if at <= ses.lost {
		return
	}
	end := at.Add(c.opts.SessionTimeout)
	if ses.expires == kafka.Never || ses.expires < end || ses.lost != notLost {
		ses.expires = end
	}
	ses.lost, ses.ghost, ses.spared = notLost, false, false
	c.earliest = min(c.earliest, ses.expires)
}

// contacts takes in heartbeats that have arrived and are not decided yet, so
// that a slow loop fences nobody (KAFKA-17793).
func (c *Core) contacts(list []Contact) {
	for _, k := range list {
		// Only a session that runs: a fenced broker's heartbeat is decided first.
		if ses := c.sessions[k.Broker]; ses != nil && ses.epoch == k.Epoch && ses.expires != kafka.Never {
			c.contact(ses, k.At)
		}
	}
}

// connectionLost ends the session of a broker after a short grace.
func (s *step) connectionLost(ev BrokerConnectionLost) {
	ses := s.sessions[ev.Broker]
	if ses == nil || ses.epoch != ev.Epoch || ses.expires == kafka.Never {
		return
	}
	ses.lost = s.now.Mono
	if ev.At != 0 {
		ses.lost = min(ev.At, s.now.Mono)
	}
	ses.expires = min(ses.expires, ses.lost.Add(ConnectionLostGrace))
	s.earliest = min(s.earliest, ses.expires)
}

// fenceExpired fences the broker whose session ended first, and tells whether
// it found one.
func (s *step) fenceExpired() bool {
	if s.earliest > s.now.Mono {
		return false
	}
	var oldest *session
	var id kafka.NodeID
	next := kafka.Never
	for n, ses := range s.sessions {
		if ses.expires <= s.now.Mono && !ses.spared && ses.lost == notLost && s.now.Mono > ses.expires.Add(stallTolerance) {
			ses.spared, ses.expires = true, s.now.Mono.Add(stallGrace)
		}
		if ses.expires > s.now.Mono {
			next = min(next, ses.expires)
		} else if oldest == nil || ses.expires < oldest.expires || ses.expires == oldest.expires && n < id {
			if oldest != nil {
				next = min(next, oldest.expires)
			}
			oldest, id = ses, n
		} else {
			next = min(next, ses.expires)
		}
	}
	s.earliest = next
	if oldest == nil {
		return false
	}
	oldest.expires = kafka.Never
	oldest.shutdownOffset = -1
	if b := s.tip.Broker(id); b != nil && b.Epoch == oldest.epoch && !b.Fenced {
		s.writeSplit(s.fence(b))
	}
	return true
}
