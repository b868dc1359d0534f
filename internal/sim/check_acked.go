package sim

import (
	"moldau/internal/kafka"
)

// ackedChecker: what a proposer was told to be committed is what everybody
// holds there (HC-015).
type ackedChecker struct {
	w     *World
	acked int
}

func (c *ackedChecker) ack(n *node, base kafka.Offset, epoch kafka.Epoch, sum uint64) {
	c.acked++
	got, ok := c.w.check.prefix.find(base)
	if !ok || got.epoch != epoch || got.sum != sum {
		c.w.violate("told committed", "node %d acknowledged offset %d of epoch %d, but %+v is committed there (%t)", n.id, base, epoch, got, ok)
	}
}
