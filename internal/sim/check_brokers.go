package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// brokerChecker: a broker is unfenced only when its process has applied its own
// registration (Trap 3, HC-048).
type brokerChecker struct {
	w          *World
	registered map[kafka.NodeID]registration
	reached    map[incarnation]kafka.Offset // what each process has applied
}

type registration struct {
	at    kafka.Offset // of its record
	epoch kafka.BrokerEpoch
	inc   kafka.IncarnationID
}

type incarnation struct {
	id  kafka.NodeID
	inc kafka.IncarnationID
}

func (c *brokerChecker) published(n *node, img *metadata.Image) {
	if n.broker != nil {
		c.reached[incarnation{n.id, n.broker.inc}] = img.Provenance().EndOffset
	}
}

func (c *brokerChecker) committed(base kafka.Offset, records []record.Message, delta *metadata.Delta) {
	for i, m := range records {
		switch m := m.(type) {
		case *record.RegisterBroker:
			if old, ok := c.registered[m.BrokerID]; ok && old.inc == m.IncarnationID && old.epoch == m.BrokerEpoch {
				break // the same process says it again
			}
			if !m.Fenced {
				c.w.violate("unfenced", "broker %d registers unfenced at %d", m.BrokerID, base)
			}
			c.registered[m.BrokerID] = registration{base + kafka.Offset(i), m.BrokerEpoch, m.IncarnationID}
		case *record.BrokerRegistrationChange:
			if m.Fenced == -1 {
				c.unfenced(m.BrokerID, m.BrokerEpoch, base)
			}
			if m.Fenced == 1 {
				c.w.counts.Fences++
			}
		case *record.UnfenceBroker:
			c.unfenced(m.ID, m.Epoch, base)
		case *record.FenceBroker:
			c.w.counts.Fences++
		}
	}
}

func (c *brokerChecker) unfenced(id kafka.NodeID, epoch kafka.BrokerEpoch, at kafka.Offset) {
	r, ok := c.registered[id]
	if !ok || r.epoch != epoch {
		c.w.violate("unfenced", "broker %d is unfenced at %d with epoch %d; registered is %+v", id, at, epoch, r)
		return
	}
	if got := c.reached[incarnation{id, r.inc}]; got <= r.at {
		c.w.violate("unfenced", "broker %d is unfenced at %d, but has applied %d only, not its registration at %d", id, at, got, r.at)
	}
}
