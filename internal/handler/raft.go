package handler

// Requests between replicas of the metadata log (Vote, BeginQuorumEpoch,
// EndQuorumEpoch, Fetch, FetchSnapshot, UpdateRaftVoter) and the operator's
// changes of its voters (AddRaftVoter, RemoveRaftVoter): all are for the
// consensus core, which answers when it can.

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/raft"
	"moldau/internal/raftwire"
)

// Raft is the way to this node's replica of the metadata log.
type Raft interface {
	// Serve hands over a request. done gets the answer, once, and must not
	// block; it calls sent, if that is not nil, when the answer has been sent or
	// given up. onGone is told what to call when nobody waits for it any more, and
	// reports false if that is so already.
	Serve(body raft.Body, onGone func(cancel func()) bool, done func(b raft.Body, sent func())) error
}

func (h *Handler) raft(c *call) {
	req := kmsg.RequestForKey(c.Key)
	if !c.decode(req) {
		return
	}
	// The leader is named by its endpoint on the listener that was asked.
	codec := raftwire.Codec{Listener: c.Peer.Listener}
	body, refusal := codec.ParseRequest(req)
	if refusal != nil {
		c.reply(refusal)
		return
	}
	if h.opts.Raft == nil {
		c.Drop(fmt.Errorf("%s: this node has no replica of the metadata log to ask", kmsg.NameForKey(c.Key)))
		return
	}
	c.FreeFrame() // a fetch waits long
	later := *c
	err := h.opts.Raft.Serve(body, c.OnGone, func(b raft.Body, sent func()) {
		// A slow peer must not hold up the quorum.
		go func() {
			resp := codec.Response(b, later.Version)
			resp.SetVersion(later.Version)
			out := later.start()
			out.Buf = resp.AppendTo(out.Buf)
			if sent != nil {
				out.OnSent(sent)
			}
			later.Reply(out)
		}()
	})
	if err != nil {
		c.Drop(err)
	}
}
