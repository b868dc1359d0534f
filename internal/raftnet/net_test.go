package raftnet_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"moldau/internal/handler"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/network"
	"moldau/internal/peer"
	"moldau/internal/raft"
	"moldau/internal/raftnet"
)

// patience bounds every wait; reaching it is a failure.
const patience = 20 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// side is one node: its Net, its controller listener, and the events that its
// core would get.
type side struct {
	*raftnet.Net
	server *network.Server
	at     []kafka.Endpoint
	events chan raft.Event
}

func newSide(t testing.TB, bootstrap ...string) *side {
	s := &side{events: make(chan raft.Event, 100)}
	s.Net = raftnet.New(raftnet.Options{Listener: "CONTROLLER", Bootstrap: bootstrap, Peer: peer.Options{ClientID: "raft-client", RequestTimeout: patience, BackoffMax: time.Millisecond}})
	s.Start(func(ev raft.Event) bool { s.events <- ev; return true })
	s.server = network.New(network.Options{Log: slog.New(slog.DiscardHandler)})
	addr, err := s.server.Listen("CONTROLLER", "127.0.0.1:0", handler.NewController(options(s.Net)))
	must(t, err)
	s.at = []kafka.Endpoint{{Name: "OTHER", Host: "nowhere.invalid", Port: 1}, {Name: "CONTROLLER", Host: "127.0.0.1", Port: uint16(addr.(*net.TCPAddr).Port)}}
	t.Cleanup(func() { s.Close(); s.server.Close() })
	return s
}

func options(r handler.Raft) handler.Options {
	return handler.Options{Raft: r, Image: metadata.Empty, Random: func() uint64 { return 1 }}
}

func (s *side) event(t testing.TB) raft.Event {
	t.Helper()
	select {
	case ev := <-s.events:
		return ev
	case <-time.After(patience):
		t.Fatal("no event")
		return nil
	}
}

func vote(pre bool) raft.Body {
	return &raft.VoteRequest{Voter: raft.NoReplica, Replica: raft.ReplicaKey{ID: 1}, ReplicaEpoch: 3, PreVote: pre}
}

// A request goes to the node's endpoint on the controllers' listener, and the
// answer back under its id; one to a bootstrap address under its negative id.
func TestRequestAndReply(t *testing.T) {
	b := newSide(t)
	a := newSide(t, "", raftnet.Address(b.at, "CONTROLLER"))
	for _, to := range []kafka.NodeID{2, raftnet.BootstrapID(1)} {
		out := raft.Outgoing{To: to, ID: 77, Body: vote(true)}
		if to >= 0 {
			out.At = b.at
		}
		a.Request(out)
		r := b.event(t).(raft.Request)
		if got := *r.Body.(*raft.VoteRequest); got != *vote(true).(*raft.VoteRequest) {
			t.Errorf("%+v", got)
		}
		b.Reply(raft.Reply{Token: r.Token, Body: &raft.VoteResponse{Leadership: raft.Leadership{LeaderID: 2, LeaderEpoch: 3, Endpoints: b.at}, Granted: true}})
		resp := a.event(t).(raft.Response)
		v := resp.Body.(*raft.VoteResponse)
		if resp.From != to || resp.ID != 77 || !v.Granted || v.LeaderID != 2 || len(v.Endpoints) != 1 || v.Endpoints[0] != b.at[1] {
			t.Errorf("%+v %+v", resp, v)
		}
		if n := b.Waiting(); n != 0 {
			t.Errorf("%d requests wait", n)
		}
	}
}

// A peer may ask for 2 GiB in one answer; the core reads a bounded part.
func TestAnswersAreBounded(t *testing.T) {
	a, b := newSide(t), newSide(t)
	const most, asked = 8 << 20, 1<<31 - 1
	key := raft.ReplicaKey{ID: 1, Dir: kafka.DirectoryID{1}}
	a.Request(raft.Outgoing{To: 2, ID: 1, At: b.at, Body: &raft.FetchRequest{Replica: key, MaxBytes: asked}})
	if r := b.event(t).(raft.Request).Body.(*raft.FetchRequest); r.MaxBytes != most || r.Replica != key {
		t.Errorf("%+v", r)
	}
	a.Request(raft.Outgoing{To: 3, ID: 2, At: b.at, Body: &raft.FetchSnapshotRequest{Replica: key, MaxBytes: asked}})
	if r := b.event(t).(raft.Request).Body.(*raft.FetchSnapshotRequest); r.MaxBytes != most || r.Replica != key {
		t.Errorf("%+v", r)
	}
}

// What cannot be sent fails, as an event.
func TestUnreachable(t *testing.T) {
	a := newSide(t)
	for _, out := range []raft.Outgoing{
		{To: 2, ID: 1, Body: vote(false)},                      // nobody knows where
		{To: raftnet.BootstrapID(0), ID: 2, Body: vote(false)}, // there is none
		{To: 2, ID: 3, At: []kafka.Endpoint{{Name: "CONTROLLER", Host: "127.0.0.1", Port: 1}}, Body: vote(false)},
		{To: 2, ID: 4, At: []kafka.Endpoint{{Name: "CONTROLLER", Host: "127.0.0.1", Port: 1}}, Body: &raft.UpgradeRequest{}},
	} {
		a.Request(out)
		if ev, want := a.event(t), (raft.RequestFailed{To: out.To, ID: out.ID}); ev != want {
			t.Errorf("%+v, want %+v", ev, want)
		}
	}
}

// When the leader's side of the connection ends, the core hears of it (Trap 16);
// whoever waits for a reply there has no token any more. Fails if onGone is not
// set, or Lost is not passed on.
func TestTrap16DeadConnections(t *testing.T) {
	a, b := newSide(t), newSide(t)
	a.Request(raft.Outgoing{To: 2, ID: 5, At: b.at, Body: vote(false)})
	token := b.event(t).(raft.Request).Token
	b.server.Close()
	if ev, want := a.event(t), (raft.LeaderConnectionLost{Leader: 2}); ev != want {
		t.Errorf("%+v, want %+v", ev, want)
	}
	if ev, want := a.event(t), (raft.RequestFailed{To: 2, ID: 5}); ev != want {
		t.Errorf("%+v, want %+v", ev, want)
	}
	for end := time.Now().Add(patience); b.Waiting() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the token of a dead connection stays")
		}
	}
	b.Reply(raft.Reply{Token: token, Body: &raft.VoteResponse{}}) // finds nobody
}

// A leader's farewell is answered before Close ends the connections. Fails if
// Close does not wait.
func TestCloseWaitsForTheFarewell(t *testing.T) {
	a, b := newSide(t), newSide(t)
	a.Request(raft.Outgoing{To: 2, ID: 1, At: b.at, Body: vote(false)})
	b.Reply(raft.Reply{Token: b.event(t).(raft.Request).Token, Body: &raft.VoteResponse{Leadership: raft.Leadership{LeaderID: kafka.NoNode}}})
	a.event(t)
	a.Request(raft.Outgoing{To: 2, ID: 2, At: b.at, Body: &raft.EndQuorumEpochRequest{LeaderID: 1, LeaderEpoch: 3}})
	closed := make(chan struct{})
	go func() { a.Close(); close(closed) }()
	r := b.event(t).(raft.Request)
	if _, ok := r.Body.(*raft.EndQuorumEpochRequest); !ok {
		t.Fatalf("%+v", r.Body)
	}
	b.Reply(raft.Reply{Token: r.Token, Body: &raft.EndQuorumEpochResponse{Leadership: raft.Leadership{LeaderID: 1, LeaderEpoch: 3}}})
	if resp, ok := a.event(t).(raft.Response); !ok || resp.ID != 2 {
		t.Error("the farewell was not answered")
	}
	<-closed
}

// Before Start and when the replica has stopped nobody is served.
func TestServeNeedsAReplica(t *testing.T) {
	n := raftnet.New(raftnet.Options{})
	defer n.Close()
	stay := func(func()) bool { return true }
	if err := n.Serve(vote(false), stay, nil); !errors.Is(err, raftnet.ErrStopped) {
		t.Error(err)
	}
	n.Start(func(raft.Event) bool { return false })
	if err := n.Serve(vote(false), stay, nil); !errors.Is(err, raftnet.ErrStopped) {
		t.Error(err)
	}
	if n.Waiting() != 0 {
		t.Error("a token is left")
	}
}

// A voter that knows no pre-vote must be told apart from one that is dead.
func TestUnsupportedPreVote(t *testing.T) {
	a := newSide(t)
	old := network.New(network.Options{Log: slog.New(slog.DiscardHandler)})
	defer old.Close()
	// A client listener offers no Vote at all.
	addr, err := old.Listen("CONTROLLER", "127.0.0.1:0", handler.NewBroker(options(nil)))
	must(t, err)
	a.Request(raft.Outgoing{To: 2, ID: 9, Body: vote(true), At: []kafka.Endpoint{{Name: "CONTROLLER", Host: "127.0.0.1", Port: uint16(addr.(*net.TCPAddr).Port)}}})
	resp, ok := a.event(t).(raft.Response)
	if !ok || resp.Body.(*raft.VoteResponse).TopError != kafka.ErrUnsupportedVersion {
		t.Errorf("%+v", resp)
	}
}

// A node whose addresses, or whose meta.properties, are another cluster's hears
// nothing for ever; its log says why, once for each time it changes. Fails if
// answered does not look at the error of the whole answer.
func TestAnotherClusterIsNamed(t *testing.T) {
	b := newSide(t)
	var log bytes.Buffer
	events := make(chan raft.Event, 10)
	a := raftnet.New(raftnet.Options{Listener: "CONTROLLER", Peer: peer.Options{
		ClientID: "raft-client", RequestTimeout: patience, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}})
	t.Cleanup(a.Close)
	a.Start(func(ev raft.Event) bool { events <- ev; return true })
	for i, code := range []kafka.ErrorCode{kafka.ErrInconsistentClusterID, kafka.ErrInconsistentClusterID, kafka.NoError, kafka.ErrInconsistentClusterID} {
		a.Request(raft.Outgoing{To: 2, ID: uint64(i), Body: vote(true), At: b.at})
		b.Reply(raft.Reply{Token: b.event(t).(raft.Request).Token, Body: &raft.VoteResponse{Leadership: raft.Leadership{TopError: code}}})
		<-events
	}
	if said := strings.Count(log.String(), "another cluster"); said != 2 {
		t.Errorf("said %d times:\n%s", said, log.String())
	}
}

// Answers that nobody reads hold a bounded part of the memory, however many ask:
// they get shorter, and in the end there are none. What is sent makes room. Fails
// if Reply does not count, or the handler does not tell when it has sent.
func TestUnsentAnswersAreBounded(t *testing.T) {
	b := newSide(t)
	a := newSide(t)
	all := b.Room()
	records := make([]byte, 8<<20)
	big := func() raft.Body { return &raft.FetchResponse{Records: records} }
	fetch := &raft.FetchRequest{Replica: raft.ReplicaKey{ID: 1}, MaxBytes: 1 << 30}

	a.Request(raft.Outgoing{To: 2, ID: 1, Body: fetch, At: b.at})
	b.Reply(raft.Reply{Token: b.event(t).(raft.Request).Token, Body: big()})
	a.event(t)
	for deadline := time.Now().Add(patience); b.Room() != all; {
		if time.Now().After(deadline) {
			t.Fatalf("room %d of %d after all has been sent", b.Room(), all)
		}
		<-time.After(time.Millisecond)
	}

	var unsent []func()
	stay := func(func()) bool { return true }
	for range 1000 {
		err := b.Serve(fetch, stay, func(_ raft.Body, sent func()) { unsent = append(unsent, sent) })
		if errors.Is(err, raftnet.ErrBusy) {
			break
		}
		must(t, err)
		b.Reply(raft.Reply{Token: b.event(t).(raft.Request).Token, Body: big()})
	}
	if got := len(unsent) * len(records); got > 256<<20 || b.Room() >= 1<<20 {
		t.Errorf("%d bytes wait to be sent, and the next answer may have %d", got, b.Room())
	}
	for _, sent := range unsent {
		sent()
	}
	if b.Room() != all {
		t.Errorf("room %d of %d after all has been sent", b.Room(), all)
	}
}

// A node that hears of no controller says so, and whom it asked; not again and
// again, and not once one answers. Fails if answered does not call heard.
func TestSilenceIsTold(t *testing.T) {
	b := newSide(t)
	var log bytes.Buffer
	events := make(chan raft.Event, 10)
	a := raftnet.New(raftnet.Options{Listener: "CONTROLLER", Silence: time.Nanosecond, Peer: peer.Options{
		ClientID: "raft-client", RequestTimeout: patience, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}})
	t.Cleanup(a.Close)
	a.Start(func(ev raft.Event) bool { events <- ev; return true })
	fetch := &raft.FetchRequest{Replica: raft.ReplicaKey{ID: 1}}
	dead := []kafka.Endpoint{{Name: "CONTROLLER", Host: "127.0.0.1", Port: 1}}
	a.Request(raft.Outgoing{To: 3, ID: 1, Body: vote(false), At: dead}) // a leader may well ask the dead
	<-events
	if log.Len() > 0 {
		t.Errorf("said of a vote: %s", log.String())
	}
	for range 3 {
		a.Request(raft.Outgoing{To: 3, ID: 1, Body: fetch, At: dead})
		<-events
	}
	if said := log.String(); strings.Count(said, "no controller answers") != 1 || !strings.Contains(said, "127.0.0.1:1") {
		t.Errorf("said: %s", said)
	}
	before := log.Len()
	a.Request(raft.Outgoing{To: 2, ID: 1, Body: fetch, At: b.at})
	b.Reply(raft.Reply{Token: b.event(t).(raft.Request).Token, Body: &raft.FetchResponse{Leadership: raft.Leadership{LeaderEpoch: 1}}})
	<-events
	if log.Len() != before {
		t.Errorf("said of an answer: %s", log.String()[before:])
	}
}
