package raftnet

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/peer"
	"moldau/internal/raft"
	"moldau/internal/raftwire"
)

// Errors of Serve.
var (
	// ErrStopped: the replica has stopped, or does not run yet.
	ErrStopped = errors.New("the metadata quorum is not running")
	// ErrBusy: too many requests of other replicas wait.
	ErrBusy = errors.New("too many requests wait for the metadata quorum")
)

const (
	// maxTokens bounds the requests from outside that are not answered: a
	// waiting fetch of each broker and controller, and what else comes.
	maxTokens = 10_000
	// maxServedBytes bounds the records or the part of a snapshot that go into
	// one answer, whatever was asked for (KafkaRaftClient.MAX_FETCH_SIZE_BYTES).
	maxServedBytes = 8 << 20
	// minServedBytes is what an answer holds, if there is so much, even when
	// many are waiting to be sent.
	minServedBytes = 64 << 10
	// maxServing bounds the bytes of such answers that wait in memory until they
	// are sent. From here on answers are short; from twice as many on, there are
	// none.
	maxServing = 64 << 20
	// farewell is how long Close waits for the others to take note that this
	// leader steps down.
	farewell = 500 * time.Millisecond
)

// Options of a Net.
type Options struct {
	// Listener is the first of controller.listener.names: nodes are called at
	// their endpoint of that name.
	Listener string
	// Bootstrap are the addresses of controller.quorum.bootstrap.servers.
	Bootstrap []string
	Peer      peer.Options // Lost is set by New
	// Silence is how long no controller may answer before the log says so; 0
	// means 5 s.
	Silence time.Duration
}

// Net implements quorum.Net.
type Net struct {
	opts  Options
	codec raftwire.Codec
	pool  *peer.Pool

	mu      sync.Mutex
	deliver func(raft.Event) bool // nil before Start
	next    uint64
	replies map[uint64]func(b raft.Body, sent func())
	serving int             // bytes of records and snapshots in answers that are not sent
	goodbye int             // EndQuorumEpoch requests under way
	parted  chan struct{}   // closed by the last of them, if Close waits
	foreign map[string]bool // addresses at which another cluster has answered
	quiet   quiet
}

// BootstrapID is the node id that stands for the i-th bootstrap address; −1
// stands for nobody.
func BootstrapID(i int) kafka.NodeID { return kafka.NodeID(-2 - i) }

// BootstrapIDs are the ids for n bootstrap addresses.
func BootstrapIDs(n int) []kafka.NodeID {
	var ids []kafka.NodeID
	for i := range n {
		ids = append(ids, BootstrapID(i))
	}
	return ids
}

// New makes a Net, which drops everything until Start.
func New(o Options) *Net {
	if o.Silence == 0 {
		o.Silence = silence
	}
	n := &Net{opts: o, codec: raftwire.Codec{Listener: o.Listener}, replies: map[uint64]func(raft.Body, func()){}, foreign: map[string]bool{}}
	o.Peer.Lost = func(node peer.Node) {
		if node.ID >= 0 {
			n.event(raft.LeaderConnectionLost{Leader: node.ID})
		}
	}
	n.pool = peer.New(o.Peer)
	return n
}

// Start says whom to tell: quorum.Quorum.Deliver.
func (n *Net) Start(deliver func(raft.Event) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deliver = deliver
	n.quiet.since = time.Now()
}

func (n *Net) event(ev raft.Event) bool {
	n.mu.Lock()
	deliver := n.deliver
	n.mu.Unlock()
	return deliver != nil && deliver(ev)
}

// Request implements quorum.Net.
func (n *Net) Request(out raft.Outgoing) {
	v, err := raftwire.VersionsOf(out.Body)
	address := n.address(out)
	if err != nil || address == "" {
		go n.event(raft.RequestFailed{To: out.To, ID: out.ID}) // not on the loop
		return
	}
	_, end := out.Body.(*raft.EndQuorumEpochRequest)
	if end {
		n.parting(1)
	}
	n.pool.Send(peer.Node{ID: out.To, Address: address}, peer.Request{
		Key: v.Key, Min: v.Min, Max: v.Max,
		Body: func(version int16) (kmsg.Request, error) { return n.codec.Request(out.Body, version) },
		Done: func(resp kmsg.Response, err error) {
			n.answered(out, resp, err)
			if end {
				n.parting(-1)
			}
		},
	})
}

// address is where the node listens: "" if nobody knows.
func (n *Net) address(out raft.Outgoing) string {
	if out.To < 0 {
		if i := int(BootstrapID(0) - out.To); i >= 0 && i < len(n.opts.Bootstrap) {
			return n.opts.Bootstrap[i]
		}
		return ""
	}
	return Address(out.At, n.opts.Listener)
}

// Address is host:port of the endpoint with the listener's name, or of the
// first endpoint if none has it; "" if there is none.
func Address(at []kafka.Endpoint, listener string) string {
	if len(at) == 0 {
		return ""
	}
	e := at[0]
	for _, x := range at {
		if x.Name == listener {
			e = x
			break
		}
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

func (n *Net) answered(out raft.Outgoing, resp kmsg.Response, err error) {
	var body raft.Body
	switch {
	case errors.Is(err, peer.ErrUnsupportedVersion):
		body = unsupported(out.Body)
	case err == nil:
		if body, err = n.codec.ParseResponse(resp); err != nil && n.opts.Peer.Log != nil {
			n.opts.Peer.Log.Warn("answer of another replica dropped", "node", out.To, "error", err)
		}
	}
	n.sameCluster(out, body)
	n.heard(out, body, err)
	if body == nil {
		n.event(raft.RequestFailed{To: out.To, ID: out.ID})
		return
	}
	n.event(raft.Response{From: out.To, ID: out.ID, Body: body})
}

// unsupported is what a node that does not know the request would answer
// (RaftUtil.errorResponse).
func unsupported(request raft.Body) raft.Body {
	l := raft.Leadership{TopError: kafka.ErrUnsupportedVersion, LeaderID: kafka.NoNode, LeaderEpoch: kafka.NoEpoch}
	switch request.(type) {
	case *raft.VoteRequest:
		return &raft.VoteResponse{Leadership: l}
	case *raft.UpdateVoterRequest:
		return &raft.UpdateVoterResponse{Leadership: l}
	case *raft.AddVoterRequest:
		return &raft.AddVoterResponse{Error: kafka.ErrUnsupportedVersion}
	case *raft.RemoveVoterRequest:
		return &raft.RemoveVoterResponse{Error: kafka.ErrUnsupportedVersion}
	case *raft.FeaturesRequest:
		return &raft.FeaturesResponse{Error: kafka.ErrUnsupportedVersion}
	}
	return nil // as good as lost
}

// Serve gives the core a request that came in; done gets the reply, once, on
// the core's loop, and must not block; it calls sent, if that is not nil, when
// the reply has been sent or given up. onGone is told what to call when nobody
// waits for the reply any more; it reports false if that is so already.
func (n *Net) Serve(body raft.Body, onGone func(cancel func()) bool, done func(b raft.Body, sent func())) error {
	n.mu.Lock()
	if n.deliver == nil {
		n.mu.Unlock()
		return ErrStopped
	}
	if len(n.replies) >= maxTokens || n.serving >= 2*maxServing {
		n.mu.Unlock()
		return ErrBusy
	}
	n.next++
	token := n.next
	n.replies[token] = done
	n.mu.Unlock()
	cancel := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.replies, token)
	}
	// Before the core may answer: afterwards the place in the connection can be
	// another request's.
	if !onGone(cancel) {
		cancel()
		return nil
	}
	if !n.event(raft.Request{Token: token, Body: bounded(body)}) {
		cancel()
		return ErrStopped
	}
	return nil
}

// bounded gives the request with no more bytes to answer than are served.
func bounded(body raft.Body) raft.Body {
	switch b := body.(type) {
	case *raft.FetchRequest:
		b.MaxBytes = min(b.MaxBytes, maxServedBytes)
	case *raft.FetchSnapshotRequest:
		b.MaxBytes = min(b.MaxBytes, maxServedBytes)
	}
	return body
}

// Reply implements quorum.Net.
func (n *Net) Reply(r raft.Reply) {
	n.mu.Lock()
	done := n.replies[r.Token]
	delete(n.replies, r.Token)
	size := served(r.Body)
	var sent func()
	if done != nil && size > 0 {
		n.serving += size
		sent = func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.serving -= size
		}
	}
	n.mu.Unlock()
	if done != nil {
		done(r.Body, sent)
	}
}

// served is how many bytes of records or of a snapshot an answer holds.
func served(body raft.Body) int {
	switch b := body.(type) {
	case *raft.FetchResponse:
		return len(b.Records)
	case *raft.FetchSnapshotResponse:
		return len(b.Bytes)
	}
	return 0
}

// Room implements quorum.Net.
func (n *Net) Room() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(minServedBytes, maxServing-n.serving)
}

// Waiting tells how many requests from outside are not answered.
func (n *Net) Waiting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.replies)
}

func (n *Net) parting(d int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.goodbye += d; n.goodbye == 0 && n.parted != nil {
		close(n.parted)
		n.parted = nil
	}
}

// Close ends the connections, after the farewells of a leader have been
// answered, or not for a while.
func (n *Net) Close() {
	n.mu.Lock()
	var wait chan struct{}
	if n.goodbye > 0 && n.parted == nil {
		wait = make(chan struct{})
		n.parted = wait
	}
	n.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-time.After(farewell):
		}
	}
	n.Cut()
}

// Cut ends the connections at once, as the death of the process would.
func (n *Net) Cut() { n.pool.Close() }
