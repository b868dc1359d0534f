package controller

import (
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// session is what the controller knows of a broker that is not in the log. It
// is soft: a new controller starts with a fresh one.
type session struct {
	epoch          kafka.BrokerEpoch
	expires        kafka.Mono   // kafka.Never before the first heartbeat
	ghost          bool         // of this node's former self; not a live session
	registered     kafka.Offset // of the registration record; 0 if not known
	metadataOffset kafka.Offset // last reported
	shutdownOffset kafka.Offset // end of the log when controlled shutdown began; −1 outside
}

// live tells whether a broker with this registration is known to be alive.
func (s *step) live(b *metadata.Broker) bool {
	ses := s.sessions[b.ID]
	return ses != nil && ses.epoch == b.Epoch && !ses.ghost && ses.expires != kafka.Never && s.now.Mono < ses.expires
}

func (c *Core) nextExpiry() kafka.Mono {
	next := kafka.Never
	for _, ses := range c.sessions {
		next = min(next, ses.expires)
	}
	return next
}

// fenceExpired fences the broker whose session ended first, and tells whether
// it found one.
func (s *step) fenceExpired() bool {
	var oldest *session
	var id kafka.NodeID
	for n, ses := range s.sessions {
		if ses.expires <= s.now.Mono && (oldest == nil || ses.expires < oldest.expires || ses.expires == oldest.expires && n < id) {
			oldest, id = ses, n
		}
	}
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
