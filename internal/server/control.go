package server

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/handler"
	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/peer"
	"moldau/internal/quorum"
	"moldau/internal/raft"
)

// remote is the way over the network to whoever is the active controller, this
// node too. Heartbeats have a connection of their own: they must not wait behind
// other requests, and its end is the end of the broker.
type remote struct {
	pools [2]*peer.Pool
	beats *peer.Controller
	rest  *peer.Controller
}

func newRemote(s *Server) *remote {
	c := s.opts.Config
	o := peer.Options{
		ClientID: fmt.Sprint("broker-", c.NodeID), RequestTimeout: forwardTimeout, ConnectTimeout: maxConnect,
		IdleTimeout: time.Duration(c.Long("connections.max.idle.ms")) * time.Millisecond, Log: s.log,
	}
	r := &remote{}
	r.pools[0] = peer.New(o)
	o.ClientID = fmt.Sprint("broker-", c.NodeID, "-heartbeats")
	o.Lost = func(peer.Node) {
		if s.broker != nil {
			go s.broker.send(lifecycle.Disconnected{})
		}
	}
	r.pools[1] = peer.New(o)
	r.rest, r.beats = peer.NewController(r.pools[0], s.activeController), peer.NewController(r.pools[1], s.activeController)
	return r
}

// send asks, and asks the next controller while again says so of the answer,
// until the time is up. done is called once, on another goroutine.
func (r *remote) send(req kmsg.Request, timeout time.Duration, again func(kmsg.Response) bool, done func(kmsg.Response, error)) {
	to := r.rest
	switch req.(type) {
	case *kmsg.BrokerHeartbeatRequest, *kmsg.BrokerRegistrationRequest:
		to = r.beats
	}
	to.Send(peer.Message(req, timeout, done), again)
}

func (r *remote) changed() {
	r.beats.Changed()
	r.rest.Changed()
}

func (r *remote) close() {
	r.beats.Close()
	r.rest.Close()
	for _, p := range r.pools {
		p.Close()
	}
}

// activeController is where the leader of the quorum listens, if one is known.
func (s *Server) activeController() (peer.Node, bool) {
	leader := s.quorum.Leader().Leader
	v, ok := s.quorum.Voters().Find(leader)
	if leader == kafka.NoNode || !ok {
		return peer.Node{}, false
	}
	for _, e := range v.Endpoints {
		if e.Name == s.opts.Config.ControllerListeners[0] {
			return peer.Node{ID: leader, Address: net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))}, true
		}
	}
	return peer.Node{}, false
}

// forwardTimeout bounds the requests of clients that have no timeout of their
// own, and those that ask for a longer one (controller.socket.timeout.ms's default).
const forwardTimeout = 30 * time.Second

// control is this node's way to the active controller: its own queue while it
// leads, else the network.
type control struct{ s *Server }

func (c control) leads() bool { return c.s.quorum.Leader().Leader == c.s.opts.Config.NodeID }

// own asks for this node itself. An answer of NOT_CONTROLLER, or none in time,
// comes back as quorum.ErrNotController.
func (c control) own(req kmsg.Request, timeout time.Duration, done func(kmsg.Response, error)) {
	if !c.leads() {
		c.s.remote.send(req, timeout, saysNotController, func(resp kmsg.Response, err error) {
			if err != nil {
				err = errors.Join(quorum.ErrNotController, err)
			}
			done(resp, err)
		})
		return
	}
	c.s.quorum.Submit(quorum.Context{}, req, func(resp any, err error) {
		r, _ := resp.(kmsg.Response)
		done(r, err)
	})
}

// Submit implements handler.Controller for the listeners of clients: it asks
// for a client, and again if the controller changes meanwhile (HC-047).
func (c control) Submit(from handler.Caller, req kmsg.Request, done func(kmsg.Response, error)) {
	end := time.Now().Add(timeoutOf(req))
	if !c.leads() || !decidedByCore(req) {
		c.forward(from, req, end, done)
		return
	}
	c.s.quorum.Submit(quorum.Context{}, req, func(resp any, err error) {
		if errors.Is(err, quorum.ErrNotController) {
			c.forward(from, req, end, done)
			return
		}
		r, _ := resp.(kmsg.Response)
		done(r, err)
	})
}

// decidedByCore tells whether the controller core knows the request; the rest
// concerns the quorum, and the handlers of controllers answer it.
func decidedByCore(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.DescribeQuorumRequest, *kmsg.AddRaftVoterRequest, *kmsg.RemoveRaftVoterRequest:
		return false
	}
	return true
}

// timeoutOf is how long a client waits for the answer.
func timeoutOf(req kmsg.Request) time.Duration {
	if t, ok := req.(kmsg.TimeoutRequest); ok && t.Timeout() > 0 {
		return min(time.Duration(t.Timeout())*time.Millisecond, forwardTimeout)
	}
	return forwardTimeout
}

// forward sends the request in an envelope.
func (c control) forward(from handler.Caller, req kmsg.Request, end time.Time, done func(kmsg.Response, error)) {
	left := max(time.Until(end), time.Millisecond)
	c.s.remote.send(handler.Wrap(req, from), left, saysNotController, func(resp kmsg.Response, err error) {
		e, ok := resp.(*kmsg.EnvelopeResponse)
		if err != nil || !ok {
			done(nil, errors.Join(&quorum.ReplyError{Code: kafka.ErrRequestTimedOut, Message: "the active controller did not answer"}, err))
			return
		}
		inner, err := handler.Unwrap(e, req)
		var refused *handler.EnvelopeError
		switch {
		case errors.As(err, &refused) && refused.Code == kafka.ErrUnsupportedVersion:
			err = handler.ErrDropClient
		case err != nil:
			// As Kafka's: this is a fault between broker and controller.
			err = errors.Join(&quorum.ReplyError{Code: kafka.ErrUnknownServerError, Message: "the controller did not take a forwarded request"}, err)
		}
		done(inner, err)
	})
}

// saysNotController tells of an answer that the next controller must be asked.
func saysNotController(resp kmsg.Response) bool {
	code := int16(0)
	switch r := resp.(type) {
	case *kmsg.EnvelopeResponse:
		code = r.ErrorCode
	case *kmsg.BrokerRegistrationResponse:
		code = r.ErrorCode
	case *kmsg.BrokerHeartbeatResponse:
		code = r.ErrorCode
	case *kmsg.AllocateProducerIDsResponse:
		code = r.ErrorCode
	case *kmsg.ControllerRegistrationResponse:
		code = r.ErrorCode
	case *kmsg.AlterPartitionResponse:
		code = r.ErrorCode
	case *kmsg.AssignReplicasToDirsResponse:
		code = r.ErrorCode
	}
	return kafka.ErrorCode(code) == kafka.ErrNotController
}

// Quorum implements handler.Controller.
func (c control) Quorum() handler.Quorum {
	info := c.s.quorum.Describe()
	q := handler.Quorum{Leading: info.Role == raft.Leader, Leader: info.Leader, Epoch: info.Epoch, HighWatermark: info.HighWatermark}
	for _, v := range info.Voters {
		q.Voters = append(q.Voters, handler.QuorumReplica{ID: v.Key.ID, Directory: v.Key.Dir, EndOffset: v.EndOffset, LastFetch: v.LastFetchMs, CaughtUp: v.LastCaughtMs})
	}
	for _, v := range info.Observers {
		q.Observers = append(q.Observers, handler.QuorumReplica{ID: v.Key.ID, Directory: v.Key.Dir, EndOffset: v.EndOffset, LastFetch: v.LastFetchMs, CaughtUp: v.LastCaughtMs})
	}
	for _, v := range info.VoterSet.All() {
		q.Nodes = append(q.Nodes, handler.QuorumNode{ID: v.Key.ID, Endpoints: v.Endpoints})
	}
	return q
}

// localControl is the way of the controllers' listeners: only this node. Who
// asked the wrong one is told so and finds the right one.
type localControl struct{ control }

// Submit implements handler.Controller.
func (c localControl) Submit(_ handler.Caller, req kmsg.Request, done func(kmsg.Response, error)) {
	c.s.quorum.Submit(quorum.Context{}, req, func(resp any, err error) {
		r, _ := resp.(kmsg.Response)
		done(r, err)
	})
}
