package sim

import (
	"math"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// network carries messages between nodes. Requests and answers are separate
// messages: each may be lost, doubled, late and overtaken.
type network struct {
	w       *World
	blocked map[link]bool // one-way
	loss    float64
}

type link struct{ from, to kafka.NodeID }

func newNetwork(w *World) *network { return &network{w: w, blocked: map[link]bool{}} }

func (n *network) heal() {
	clear(n.blocked)
	n.loss = 0
}

// partition cuts links: those of one node, one way or both, or those between
// two groups.
func (n *network) partition() {
	clear(n.blocked)
	w := n.w
	cut := pick(w, w.nodes...)
	mode := w.rng.IntN(4)
	side := map[kafka.NodeID]bool{}
	for _, o := range w.nodes {
		side[o.id] = w.rng.IntN(2) == 0
	}
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			if a == b {
				continue
			}
			switch mode {
			case 0: // nothing leaves the node
				n.blocked[link{a.id, b.id}] = a == cut
			case 1: // nothing reaches it
				n.blocked[link{a.id, b.id}] = b == cut
			case 2: // some of its links
				n.blocked[link{a.id, b.id}] = (a == cut || b == cut) && side[a.id] != side[b.id]
			case 3:
				n.blocked[link{a.id, b.id}] = side[a.id] != side[b.id]
			}
		}
	}
}

// send delivers, or not. Only messages between replicas are doubled: others
// go over a connection that either works or breaks.
func (n *network) send(from, to kafka.NodeID, what string, deliver func()) {
	w := n.w
	copies := 1
	if w.chance(n.loss) || w.chance(w.swarm.drop) {
		copies = 0
	} else if what != "ask" && what != "answer" && w.chance(w.swarm.duplicate) {
		copies = 2
	}
	for range copies {
		delay := w.between(100*time.Microsecond, w.swarm.latency)
		if w.chance(w.swarm.late) || what == "vote" && w.chance(4*w.swarm.late) { // late votes make epochs overlap
			delay = w.between(time.Millisecond, 4*w.swarm.pace)
		}
		w.after(delay, func() {
			if !n.blocked[link{from, to}] {
				w.event(what, from, to)
				deliver()
			}
		})
	}
}

// breakConnection tells a node that its connection to a leader broke (Trap 16).
func (n *network) breakConnection(to, from *node) {
	if to == from || !n.w.swarm.fastFailover || !to.ctl {
		return
	}
	life := to.life
	n.w.after(n.w.between(0, n.w.swarm.latency), func() {
		n.w.event("broken", from.id, to.id)
		to.do(life, func() { to.r.Receive(raft.LeaderConnectionLost{Leader: from.id}) })
	})
}

// nodeNet is one life's end of the network; it implements quorum.Net.
type nodeNet struct {
	n    *node
	life int
	// replyTo routes the answers of requests that the core works on.
	replyTo map[uint64]func(raft.Body)
	next    uint64
}

// Request implements quorum.Net.
func (t *nodeNet) Request(r raft.Outgoing) {
	n, w := t.n, t.n.w
	to := r.To
	if to < 0 { // an address of controller.quorum.bootstrap.servers
		to = -to
	}
	peer := w.node(to)
	if peer == nil || !peer.ctl {
		w.violate("network", "node %d sends %T to node %d", n.id, r.Body, r.To)
		return
	}
	w.check.sent(n, r.Body)
	back := func(what string, ev raft.Event) {
		w.net.send(to, n.id, what, func() { n.do(t.life, func() { n.receive(ev) }) })
	}
	w.net.send(n.id, to, kind(r.Body), func() {
		if !peer.alive { // the connection is refused
			back("refused", raft.RequestFailed{To: r.To, ID: r.ID})
			return
		}
		if _, ok := r.Body.(*raft.FeaturesRequest); ok { // ApiVersions: no matter of the core
			back("features", raft.Response{From: r.To, ID: r.ID, Body: &raft.FeaturesResponse{MaxKRaft: 1}})
			return
		}
		peer.do(peer.life, func() {
			token := peer.net.expect(func(b raft.Body) {
				w.check.votes.answered(peer, r.Body, b)
				back(kind(b), raft.Response{From: r.To, ID: r.ID, Body: b})
			})
			peer.r.Receive(raft.Request{Token: token, Body: r.Body})
		})
	})
}

// expect gives a token for a request; f gets the answer.
func (t *nodeNet) expect(f func(raft.Body)) uint64 {
	t.next++
	t.replyTo[t.next] = f
	return t.next
}

// Reply implements quorum.Net.
func (t *nodeNet) Room() int { return math.MaxInt }

func (t *nodeNet) Reply(r raft.Reply) {
	if f := t.replyTo[r.Token]; f != nil {
		delete(t.replyTo, r.Token)
		f(r.Body)
	}
}

// receive hands over a copy: the sender's may be delivered twice.
func (n *node) receive(ev raft.Event) {
	if r, ok := ev.(raft.Response); ok {
		if f, ok := r.Body.(*raft.FetchResponse); ok {
			c := *f
			r.Body = &c
			ev = r
		}
	}
	n.r.Receive(ev)
}

func kind(b raft.Body) string {
	switch b.(type) {
	case *raft.VoteRequest:
		return "vote"
	case *raft.VoteResponse:
		return "voted"
	case *raft.BeginQuorumEpochRequest:
		return "begin"
	case *raft.BeginQuorumEpochResponse:
		return "begun"
	case *raft.EndQuorumEpochRequest:
		return "end"
	case *raft.EndQuorumEpochResponse:
		return "ended"
	case *raft.FetchRequest:
		return "fetch"
	case *raft.FetchResponse:
		return "fetched"
	case *raft.FetchSnapshotRequest:
		return "chunk?"
	case *raft.FetchSnapshotResponse:
		return "chunk"
	}
	return "other"
}
