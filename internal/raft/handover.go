package raft

import (
	"slices"
	"time"

	"moldau/internal/kafka"
)

// handoverPatience is how long a leader waits for the one that shall lead next.
const handoverPatience = time.Second

// handover is a voter that shall lead next.
type handover struct {
	to    ReplicaKey
	until kafka.Mono
}

// askedToEnd is the answer to a leader's farewell that somebody else sends to
// that leader, which Kafka's leaders pass over: it resigns in favour of the first
// of the successors, as soon as that one fetches with all of the log. Then all
// voters that the leader tells can give it their votes; whoever has less might
// lose against the others again and again while records are written.
func (c *Core) askedToEnd(successors []ReplicaKey) kafka.ErrorCode {
	i := slices.IndexFunc(successors, func(s ReplicaKey) bool {
		return s.ID != c.opts.Self.ID && c.voters().Contains(c.knownAs(s))
	})
	if i < 0 {
		return kafka.ErrInvalidRequest
	}
	c.lead.next = &handover{c.knownAs(successors[i]), c.now.Mono.Add(handoverPatience)}
	for _, p := range c.lead.parked {
		if c.handOver(p.req) {
			break
		}
	}
	return kafka.NoError
}

// handOver resigns if this fetch, which is valid, is the one that the leader
// waits for.
func (c *Core) handOver(r *FetchRequest) bool {
	if c.role != Leader || c.lead.next == nil {
		return false
	}
	n := c.lead.next
	if n.until <= c.now.Mono || !c.voters().Contains(n.to) {
		c.lead.next = nil
		return false
	}
	if c.knownAs(r.Replica) != n.to || r.FetchOffset != c.log.end {
		return false
	}
	c.becomeResigned()
	return true
}
