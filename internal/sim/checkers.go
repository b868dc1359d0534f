package sim

import (
	"hash/crc64"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
)

// checkers watch a run from outside. Each is in its own file.
type checkers struct {
	leaders    *leaderChecker
	mono       *monotonicChecker
	prefix     *prefixChecker
	payloads   *payloadChecker
	durable    *durableChecker
	votes      *voteChecker
	voters     *voterSetChecker
	images     *imageChecker
	replies    *replyChecker
	brokers    *brokerChecker
	partitions *partitionChecker
	txns       *transactionChecker
	linear     *linearChecker
	quorum     *quorumChecker
}

func newCheckers(w *World) checkers {
	return checkers{
		leaders:    &leaderChecker{w: w, byEpoch: map[kafka.Epoch]reign{}},
		mono:       &monotonicChecker{w: w, seen: map[kafka.NodeID]*lifeSeen{}},
		prefix:     &prefixChecker{w: w},
		payloads:   &payloadChecker{w: w, sums: map[kafka.OffsetAndEpoch]uint64{}},
		durable:    &durableChecker{w: w, synced: map[kafka.NodeID]kafka.Offset{}, running: map[kafka.NodeID]kafka.Offset{}, epochs: map[kafka.NodeID]kafka.Epoch{}},
		votes:      &voteChecker{w: w, given: map[voteKey]kafka.NodeID{}},
		voters:     newVoterSetChecker(w),
		images:     newImageChecker(w),
		replies:    &replyChecker{w: w},
		brokers:    &brokerChecker{w: w, registered: map[kafka.NodeID]registration{}, reached: map[incarnation]kafka.Offset{}},
		partitions: &partitionChecker{w: w},
		txns:       &transactionChecker{w: w},
		linear:     newLinearChecker(w),
		quorum:     &quorumChecker{w: w, heard: map[kafka.NodeID]*heard{}},
	}
}

// booted looks at what a node has recovered.
func (c *checkers) booted(n *node) {
	c.mono.booted(n)
	c.durable.booted(n)
	c.voters.booted(n)
	c.images.loaded(n, n.r.Image())
}

// stepped looks at every step of every core before its effects are performed.
func (c *checkers) stepped(n *node, ev raft.Event, out *raft.Effects) {
	if out.Fatal != nil {
		return
	}
	c.mono.stepped(n, out)
	c.leaders.stepped(n, out)
	c.payloads.stepped(n, out)
	c.durable.stepped(n, ev, out)
	c.voters.stepped(n, out)
	c.quorum.stepped(n, ev, out)
	counts := &c.leaders.w.counts
	switch {
	case out.Truncate != nil:
		counts.Truncations++
	case out.LeaderChange != nil:
		counts.Elections++
	case out.LoadSnapshot != nil:
		counts.SnapshotFetches++
	}
	if _, ok := ev.(raft.SnapshotCreated); ok {
		counts.Snapshots++
	}
}

// published looks at every image that a node shows, and at the records that
// have led to it.
func (c *checkers) published(n *node, delta *metadata.Delta, img *metadata.Image) {
	c.brokers.published(n, img)
	c.prefix.published(n, img)
	c.images.published(n, img)
	c.txns.published(n, img)
}

// committed takes every batch when the first node regards it as committed.
func (c *checkers) committed(b raft.Batch) {
	c.leaders.w.counts.Commits++
	c.voters.committed(b)
	delta, records := c.images.committed(b)
	if delta == nil {
		return
	}
	c.brokers.committed(b.Base, records, delta)
	c.partitions.committed(b.Base, delta)
	c.txns.committed(b.Base, records)
}

// sent looks at every request that leaves a node.
func (c *checkers) sent(n *node, b raft.Body) { c.durable.sent(n, b) }

var crcTable = crc64.MakeTable(crc64.ECMA)

func checksum(b []byte) uint64 { return crc64.Checksum(b, crcTable) }
