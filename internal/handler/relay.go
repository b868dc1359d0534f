package handler

// Requests that the controller answers as a whole: administration (ElectLeaders,
// UnregisterBroker, …), and what brokers and controllers ask the active one.

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/wire"
)

// relay has the controller answer a request whose failure is one code.
func (h *Handler) relay(c *call) {
	req := kmsg.RequestForKey(c.Key)
	h.forward(c, req, func(code kafka.ErrorCode) kmsg.Response { return Refuse(req, code) })
}

// Refuse makes the answer to a request that failed as a whole with a code.
func Refuse(req kmsg.Request, code kafka.ErrorCode) kmsg.Response {
	resp := req.ResponseKind()
	n := int16(code)
	switch r := resp.(type) {
	case *kmsg.ElectLeadersResponse:
		r.ErrorCode = n
	case *kmsg.DescribeQuorumResponse:
		r.ErrorCode = n
	case *kmsg.AlterPartitionResponse:
		r.ErrorCode = n
	case *kmsg.BrokerRegistrationResponse:
		r.ErrorCode, r.BrokerEpoch = n, int64(kafka.NoBrokerEpoch)
	case *kmsg.BrokerHeartbeatResponse:
		r.ErrorCode, r.IsFenced = n, true
	case *kmsg.UnregisterBrokerResponse:
		r.ErrorCode = n
	case *kmsg.AllocateProducerIDsResponse:
		r.ErrorCode = n
	case *kmsg.ControllerRegistrationResponse:
		r.ErrorCode = n
	case *kmsg.AssignReplicasToDirsResponse:
		r.ErrorCode = n
	case *kmsg.AddRaftVoterResponse:
		r.ErrorCode = n
	case *kmsg.RemoveRaftVoterResponse:
		r.ErrorCode = n
	case *kmsg.UnregisterControllerResponse:
		r.ErrorCode = n
	default:
		panic(fmt.Sprintf("handler: %s has no code of its own", kmsg.NameForKey(req.Key())))
	}
	return resp
}

// heartbeats knows over which connection each broker sent its last heartbeat.
// Its size is bounded by the connections.
type heartbeats struct {
	mu    sync.Mutex
	conns map[uint64]beat         // by connection
	last  map[kafka.NodeID]uint64 // the connection of the newest
}

type beat struct {
	broker kafka.NodeID
	epoch  kafka.BrokerEpoch
}

func (b *heartbeats) note(conn uint64, of beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil {
		b.conns, b.last = map[uint64]beat{}, map[kafka.NodeID]uint64{}
	}
	if old, ok := b.conns[conn]; ok && old.broker != of.broker && b.last[old.broker] == conn {
		delete(b.last, old.broker)
	}
	b.conns[conn], b.last[of.broker] = of, conn
}

// closed forgets a connection; ok tells that it was the newest of a broker.
func (b *heartbeats) closed(conn uint64) (of beat, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, known := b.conns[conn]
	if !known {
		return of, false
	}
	delete(b.conns, conn)
	if b.last[of.broker] != conn {
		return of, false
	}
	delete(b.last, of.broker)
	return of, true
}

func (h *Handler) brokerHeartbeat(c *call) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	if !c.decode(req) {
		return
	}
	h.heartbeats.note(c.Peer.ID, beat{kafka.NodeID(req.BrokerID), kafka.BrokerEpoch(req.BrokerEpoch)})
	h.submit(c, req, func(code kafka.ErrorCode) kmsg.Response { return Refuse(req, code) })
}

// ConnectionClosed implements network.Watcher.
func (h *Handler) ConnectionClosed(p *wire.Peer, byPeer bool) {
	of, ok := h.heartbeats.closed(p.ID)
	if ok && byPeer && h.opts.BrokerGone != nil {
		h.opts.BrokerGone(of.broker, of.epoch)
	}
}
