package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// payloadChecker: a pair (epoch, offset) means one batch for ever, whoever
// appends it (HC-004).
type payloadChecker struct {
	w    *World
	sums map[kafka.OffsetAndEpoch]uint64
}

func (c *payloadChecker) stepped(n *node, out *raft.Effects) {
	for _, b := range out.Append {
		key := kafka.OffsetAndEpoch{Offset: b.Base, Epoch: b.Epoch}
		sum := checksum(b.Bytes)
		if want, ok := c.sums[key]; ok && want != sum {
			c.w.violate("one payload", "node %d appends something else at offset %d of epoch %d", n.id, b.Base, b.Epoch)
		}
		c.sums[key] = sum
	}
}
