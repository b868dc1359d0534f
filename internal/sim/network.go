package sim

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/raft"
)

// network carries messages between nodes. Requests and answers are separate
// messages: each may be lost, doubled, late and overtaken.
type network struct {
	w       *World
	blocked map[[2]kafka.NodeID]bool // one-way
	loss    float64
}

func newNetwork(w *World) *network {
	return &network{w: w, blocked: map[[2]kafka.NodeID]bool{}}
}

func (n *network) heal() {
	clear(n.blocked)
	n.loss = 0
}

// partition cuts random links, one way or both.
func (n *network) partition() {
	clear(n.blocked)
	nodes := n.w.nodes
	cut := nodes[n.w.rng.IntN(len(nodes))].id
	mode := n.w.rng.IntN(3)
	for _, o := range nodes {
		if o.id == cut {
			continue
		}
		if mode == 2 && n.w.rng.IntN(2) == 0 {
			continue // only some of its links
		}
		if mode != 1 {
			n.blocked[[2]kafka.NodeID{cut, o.id}] = true
		}
		if mode != 0 || n.w.rng.IntN(2) == 0 {
			n.blocked[[2]kafka.NodeID{o.id, cut}] = true
		}
	}
}

// send delivers to the receiver's life, or not.
func (n *network) send(from, to kafka.NodeID, what string, deliver func()) {
	w := n.w
	copies := 1
	if w.chance(n.loss) {
		copies = 0
	} else if w.chance(0.02) {
		copies = 2
	}
	for range copies {
		delay := w.between(100*time.Microsecond, w.latency)
		if w.chance(0.02) || what == "vote" && w.chance(0.2) { // late votes make epochs overlap
			delay = w.between(time.Millisecond, 4*w.pace)
		}
		w.after(delay, func() {
			if n.blocked[[2]kafka.NodeID{from, to}] {
				return
			}
			w.event("%d>%d %s", from, to, what)
			deliver()
		})
	}
}

// nodeNet is one node's end of the network; it implements quorum.Net.
type nodeNet struct {
	n *node
	// replyTo routes the answers of requests that the core works on.
	replyTo map[uint64]func(raft.Body)
	next    uint64
}

func (t *nodeNet) Request(r raft.Outgoing) {
	n, life := t.n, t.n.life
	w := n.w
	peer := w.node(r.To)
	if peer == nil {
		return
	}
	w.check.sent(n, r.Body)
	w.net.send(n.id, r.To, kind(r.Body), func() {
		if !peer.alive {
			// The connection is refused.
			w.net.send(r.To, n.id, "refused", func() {
				if n.alive && n.life == life {
					n.step(raft.RequestFailed{To: r.To, ID: r.ID})
				}
			})
			return
		}
		peer.net.next++
		token := peer.net.next
		peer.net.replyTo[token] = func(b raft.Body) {
			w.check.votes.answered(peer, r.Body, b)
			w.net.send(r.To, n.id, kind(b), func() {
				if n.alive && n.life == life {
					n.receive(r.To, r.ID, b)
				}
			})
		}
		peer.step(raft.Request{Token: token, Body: r.Body})
	})
}

func (t *nodeNet) Reply(r raft.Reply) {
	f := t.replyTo[r.Token]
	if f == nil {
		return
	}
	delete(t.replyTo, r.Token)
	f(r.Body)
}

// receive hands an answer to the core, records parsed as the shell does it.
func (n *node) receive(from kafka.NodeID, id uint64, b raft.Body) {
	if f, ok := b.(*raft.FetchResponse); ok {
		c := *f // the sender's copy may be delivered twice
		if err := quorum.ParseFetched(&c); err != nil {
			n.w.violate("network", "node %d cannot parse what %d sent: %v", n.id, from, err)
			return
		}
		b = &c
	}
	n.step(raft.Response{From: from, ID: id, Body: b})
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
	}
	return "fetched"
}
