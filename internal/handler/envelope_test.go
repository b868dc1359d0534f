package handler

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/wire"
)

// askedOnce is a controller that remembers who asked for what.
type askedOnce struct {
	refusing
	from Caller
	body kmsg.Request
	err  error
}

func (a *askedOnce) Submit(from Caller, body kmsg.Request, done func(kmsg.Response, error)) {
	a.from, a.body = from, body
	if a.err != nil {
		done(nil, a.err)
		return
	}
	resp := kmsg.NewPtrCreateTopicsResponse()
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode = "x", int16(kafka.ErrTopicAlreadyExists)
	resp.Topics = append(resp.Topics, t)
	done(resp, nil)
}

func createX(version int16) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(version)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = "x", 3, 1
	req.Topics = append(req.Topics, t)
	return req
}

// send serves an envelope and gives what it answers.
func sendEnvelope(t *testing.T, h *Handler, e *kmsg.EnvelopeRequest) *kmsg.EnvelopeResponse {
	t.Helper()
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("broker")).AppendRequest(nil, e, 7)[4:]
	s := serve(t, h, frame)
	resp := kmsg.NewPtrEnvelopeResponse()
	b := s.resp.Buf
	if binary.BigEndian.Uint32(b[4:]) != 7 || b[8] != 0 {
		t.Fatalf("header % x", b[:9])
	}
	if err := resp.ReadFrom(b[9:]); err != nil {
		t.Fatal(err)
	}
	return resp
}

// What a broker wraps, a controller unwraps, and the other way round, in every
// version of the embedded API. Fails if the embedded header or the client's
// name or address is lost.
func TestEnvelopeRoundTrip(t *testing.T) {
	opts := node(t)
	ctl := &askedOnce{}
	opts.Controller = ctl
	h := NewController(opts)
	id := "the client"
	for version := int16(2); version <= 7; version++ {
		req := createX(version)
		from := Caller{ClientID: &id, Host: "10.1.2.3", Principal: Principal{"User", "alice", false}}
		got, err := Unwrap(sendEnvelope(t, h, Wrap(req, from)), req)
		if err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		if r := got.(*kmsg.CreateTopicsResponse); len(r.Topics) != 1 || r.Topics[0].ErrorCode != int16(kafka.ErrTopicAlreadyExists) {
			t.Errorf("v%d: %+v", version, r)
		}
		if ctl.from.ClientID == nil || *ctl.from.ClientID != id || ctl.from.Host != "10.1.2.3" {
			t.Errorf("v%d: asked by %+v", version, ctl.from)
		}
		want := req.AppendTo(nil)
		if !bytes.Equal(ctl.body.AppendTo(nil), want) {
			t.Errorf("v%d: another request came out", version)
		}
	}
}

// What is wrong with an envelope is told in its own code, and never closes the
// broker's connection (EnvelopeUtils). Fails if a check is taken away.
func TestEnvelopeErrors(t *testing.T) {
	opts := node(t)
	good := func() *kmsg.EnvelopeRequest { return Wrap(createX(7), Caller{Host: "::1", Principal: Anonymous()}) }
	for name, c := range map[string]struct {
		change func(*kmsg.EnvelopeRequest)
		err    error
		want   kafka.ErrorCode
	}{
		"principal":    {change: func(e *kmsg.EnvelopeRequest) { e.RequestPrincipal = []byte{0, 0, 9, 'x'} }, want: kafka.ErrPrincipalDeserializationFailure},
		"no principal": {change: func(e *kmsg.EnvelopeRequest) { e.RequestPrincipal = nil }, want: kafka.ErrPrincipalDeserializationFailure},
		"address":      {change: func(e *kmsg.EnvelopeRequest) { e.ClientHostAddress = []byte{1, 2, 3} }, want: kafka.ErrInvalidRequest},
		"not forwardable": {change: func(e *kmsg.EnvelopeRequest) {
			e.RequestData = Wrap(kmsg.NewPtrMetadataRequest(), Caller{}).RequestData
		}, want: kafka.ErrInvalidRequest},
		"in itself": {change: func(e *kmsg.EnvelopeRequest) {
			e.RequestData = Wrap(kmsg.NewPtrEnvelopeRequest(), Caller{}).RequestData
		}, want: kafka.ErrInvalidRequest},
		"no header":      {change: func(e *kmsg.EnvelopeRequest) { e.RequestData = []byte{0, 19} }, want: kafka.ErrUnsupportedVersion},
		"cut short":      {change: func(e *kmsg.EnvelopeRequest) { e.RequestData = e.RequestData[:len(e.RequestData)-3] }, want: kafka.ErrUnsupportedVersion},
		"version":        {change: func(e *kmsg.EnvelopeRequest) { e.RequestData[3] = 99 }, want: kafka.ErrUnsupportedVersion},
		"not controller": {change: func(*kmsg.EnvelopeRequest) {}, err: quorum.ErrNotController, want: kafka.ErrNotController},
		"refused":        {change: func(*kmsg.EnvelopeRequest) {}, err: &quorum.ReplyError{Code: kafka.ErrPolicyViolation}},
	} {
		opts.Controller = &askedOnce{err: c.err}
		e := good()
		c.change(e)
		if r := sendEnvelope(t, NewController(opts), e); kafka.ErrorCode(r.ErrorCode) != c.want {
			t.Errorf("%s: %s", name, kafka.ErrorCode(r.ErrorCode))
		}
	}
}

func TestPrincipalRoundTrip(t *testing.T) {
	for _, p := range []Principal{Anonymous(), {"User", "grüppe", true}, {"User", "", false}} {
		got, err := decodePrincipal(p.encode())
		if err != nil || got != p {
			t.Errorf("%+v: %+v, %v", p, got, err)
		}
	}
	// As Kafka 4.4 writes User:ANONYMOUS.
	want := "\x00\x00\x05User\x0aANONYMOUS\x00\x00"
	if got := string(Anonymous().encode()); got != want {
		t.Errorf("%q", got)
	}
	for n := range len(want) {
		if _, err := decodePrincipal([]byte(want[:n])); !errors.Is(err, errPrincipal) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A broker counts as gone when the connection of its newest heartbeat is closed
// by its side. Fails if an older connection counts, or one that we closed.
func TestBrokerGone(t *testing.T) {
	opts := node(t)
	var gone []kafka.NodeID
	opts.BrokerGone = func(id kafka.NodeID, _ kafka.BrokerEpoch) { gone = append(gone, id) }
	h := NewController(opts)
	beatOver := func(conn uint64, id int32) {
		req := kmsg.NewPtrBrokerHeartbeatRequest()
		req.BrokerID = id
		s := &slot{t: t, done: make(chan struct{})}
		frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)[4:]
		r := wire.NewRequest(frame, &wire.Peer{Listener: "C", Host: "x", ID: conn}, s)
		h.Serve(&r)
		<-s.done
	}
	closed := func(conn uint64, byPeer bool) { h.ConnectionClosed(&wire.Peer{ID: conn}, byPeer) }
	beatOver(1, 5)
	beatOver(2, 5) // it has reconnected
	closed(1, true)
	beatOver(3, 6)
	closed(3, false) // our doing
	closed(4, true)  // no broker's
	if len(gone) != 0 {
		t.Fatalf("gone: %v", gone)
	}
	closed(2, true)
	if len(gone) != 1 || gone[0] != 5 {
		t.Fatalf("gone: %v", gone)
	}
	if len(h.heartbeats.conns)+len(h.heartbeats.last) != 0 {
		t.Error("connections are remembered for ever")
	}
}
