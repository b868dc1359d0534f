package sim

import "moldau/internal/kafka"

// replyChecker: whatever a client is told, errors and dry runs too, rests on
// committed records only (Trap 1, HC-015): everything that the tip held when the
// answer was decided is committed, and is what the decider had there.
type replyChecker struct{ w *World }

func (c *replyChecker) told(n *node, rests kafka.Offset) {
	if rests == 0 {
		return
	}
	b, ok := c.w.check.prefix.containing(rests - 1)
	if have := n.r.Core().EpochAt(rests - 1); !ok || b.epoch != have {
		c.w.violate("told committed", "node %d answers by offset %d of epoch %d, but %+v is committed there (%t)", n.id, rests-1, have, b, ok)
	}
}
