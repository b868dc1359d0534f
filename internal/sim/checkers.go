package sim

import (
	"hash/crc64"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/raft"
)

// checkers watch a run from outside. Each is in its own file.
type checkers struct {
	leaders  *leaderChecker
	mono     *monotonicChecker
	prefix   *prefixChecker
	payloads *payloadChecker
	acked    *ackedChecker
	durable  *durableChecker
	votes    *voteChecker
}

func newCheckers(w *World) checkers {
	return checkers{
		leaders:  &leaderChecker{w: w, byEpoch: map[kafka.Epoch]kafka.NodeID{}, void: map[kafka.Epoch]bool{}},
		mono:     &monotonicChecker{w: w, seen: map[kafka.NodeID]*lifeSeen{}},
		prefix:   &prefixChecker{w: w, images: map[kafka.Offset]uint64{}},
		payloads: &payloadChecker{w: w, sums: map[kafka.OffsetAndEpoch]uint64{}},
		acked:    &ackedChecker{w: w},
		durable:  &durableChecker{w: w, synced: map[kafka.NodeID]kafka.Offset{}},
		votes:    &voteChecker{w: w, given: map[voteKey]kafka.NodeID{}},
	}
}

// booted looks at what a node has recovered.
func (c *checkers) booted(n *node, rec *quorum.Recovered) {
	c.mono.booted(n, rec)
	c.durable.booted(n, rec)
	c.prefix.loaded(n, rec)
}

// stepped looks at every step of every core before its effects are performed.
func (c *checkers) stepped(n *node, _ raft.Event, out *raft.Effects) {
	c.mono.stepped(n, out)
	c.leaders.stepped(n, out)
	c.payloads.stepped(n, out)
	c.durable.stepped(n, out)
}

// sent looks at every request that leaves a node.
func (c *checkers) sent(n *node, b raft.Body) { c.durable.sent(n, b) }

func checksum(b []byte) uint64 { return crc64.Checksum(b, crc64.MakeTable(crc64.ECMA)) }
