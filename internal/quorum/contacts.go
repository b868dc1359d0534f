package quorum

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/controller"
	"moldau/internal/kafka"
)

// maxContacts bounds the brokers whose heartbeats are noted between two
// deadlines of the controller. What is beyond counts when it is decided.
const maxContacts = 10_000

// contacts notes when heartbeats arrive, beside the queue in which they wait: a
// slow loop must not take the silence that it causes for theirs (HC-050).
type contacts struct {
	mu  sync.Mutex
	set map[kafka.NodeID]controller.Contact
}

// note remembers a heartbeat; other requests are none of its business.
func (c *contacts) note(body any, at kafka.Mono) {
	hb, ok := body.(*kmsg.BrokerHeartbeatRequest)
	if !ok {
		return
	}
	k := controller.Contact{Broker: kafka.NodeID(hb.BrokerID), Epoch: kafka.BrokerEpoch(hb.BrokerEpoch), At: at}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil {
		c.set = map[kafka.NodeID]controller.Contact{}
	}
	if _, known := c.set[k.Broker]; known || len(c.set) < maxContacts {
		c.set[k.Broker] = k
	}
}

// take gives what was noted and forgets it.
func (c *contacts) take() (out []controller.Contact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.set {
		out = append(out, k)
	}
	clear(c.set)
	return out
}

// Arrived notes when a request arrives that Submit will take later, and gives
// that time. It may be called from any goroutine.
func (q *Replica) Arrived(body any) kafka.Mono {
	now := q.opts.Clock().Mono
	q.heard.note(body, now)
	return now
}

// BrokerConnectionLost tells the active controller that a broker closed the
// connection of its heartbeats.
func (q *Replica) BrokerConnectionLost(ev controller.BrokerConnectionLost) {
	if q.ctl != nil && q.led != kafka.NoEpoch {
		q.control(ev)
	}
}

// ctlDeadline tells the controller of the heartbeats that still wait, then that
// its time has come, if it has.
func (q *Replica) ctlDeadline() {
	if list := q.heard.take(); len(list) > 0 {
		q.control(controller.Contacts{List: list})
	}
	if q.failed == nil && q.ctl.Deadline() <= q.opts.Clock().Mono {
		q.control(deadlineReached)
	}
}

// BrokerConnectionLost tells the active controller that the broker closed the
// connection of its heartbeats, the last one of that epoch.
func (q *Quorum) BrokerConnectionLost(broker kafka.NodeID, epoch kafka.BrokerEpoch) {
	ev := controller.BrokerConnectionLost{Broker: broker, Epoch: epoch, At: q.opts.Clock().Mono}
	select {
	case q.inbox <- input{lost: &ev}:
	case <-q.done:
	}
}

// askCore lets the controller core ask the raft core, on the loop.
func (q *Replica) askCore(co *controller.Options) {
	if co.Voters == nil {
		co.Voters = func() (ids []kafka.NodeID) {
			set, _ := q.core.VotersAt(q.core.EndOffset())
			for _, v := range set.All() {
				ids = append(ids, v.Key.ID)
			}
			return ids
		}
	}
	if co.KRaftVersion == nil {
		co.KRaftVersion = func() int16 {
			_, level := q.core.VotersAt(q.core.EndOffset())
			return level
		}
	}
}
