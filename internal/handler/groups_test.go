package handler

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/statemachine"
	"moldau/internal/wire"
)

// oneCoordinator is the coordinator of all groups, on a log that is nowhere.
type oneCoordinator struct {
	end     kafka.Offset
	refuses kafka.ErrorCode // of appends
	hold    bool            // nothing is committed
	uuids   byte
	m       *statemachine.Machine
	started []func()
}

func newCoordinator() *oneCoordinator {
	g := &oneCoordinator{}
	g.begin()
	return g
}

// begin makes a new machine; it is loaded when begin returns.
func (g *oneCoordinator) begin() {
	g.m = statemachine.New(statemachine.Options{
		Name: kafka.TopicPartition{Topic: kafka.ConsumerOffsetsTopic}, Kind: record.GroupLog,
		NewCore: func() coordinator.Core {
			return group.New(group.Options{
				MinSessionMs: 1, MaxSessionMs: 1 << 30, MaxSize: 10, NewMemberJoinTimeoutMs: 1 << 30, MaxMetadataSize: 100,
				RetentionMs: 1 << 40, RetentionCheckMs: 1 << 40, UUID: func() kafka.UUID { g.uuids++; return kafka.UUID{1, g.uuids} },
			})
		},
		Log: g, Timer: g, Go: func(f func()) { g.started = append(g.started, f) },
		Now:    func() kafka.Now { return kafka.Now{Mono: 1 << 40, Wall: 1_700_000_000_000} },
		Logger: slog.New(slog.DiscardHandler), CommitTimeout: time.Second, LoadBufferBytes: 1 << 10,
	})
	g.m.Start()
	g.run()
}

func (g *oneCoordinator) run() {
	for len(g.started) > 0 {
		f := g.started[0]
		g.started = g.started[1:]
		f()
	}
}

// letGo fails everything that waits.
func (g *oneCoordinator) letGo() {
	g.m.Resign()
	g.run()
	g.begin()
}

func (g *oneCoordinator) Partition(string) kafka.PartitionID              { return 0 }
func (g *oneCoordinator) Machine(kafka.PartitionID) *statemachine.Machine { return g.m }
func (g *oneCoordinator) Machines() []*statemachine.Machine               { return []*statemachine.Machine{g.m} }
func (g *oneCoordinator) At(kafka.Mono, func()) func()                    { return func() {} }
func (g *oneCoordinator) MaxBatchBytes() int                              { return 1 << 20 }
func (g *oneCoordinator) Watch(func()) func()                             { return func() {} }
func (g *oneCoordinator) Span(kafka.Epoch) (kafka.Offset, kafka.Offset, error) {
	return g.end, g.end, nil
}
func (g *oneCoordinator) Read(kafka.Epoch, kafka.Offset, int, []byte) ([]byte, error) {
	return nil, nil
}

func (g *oneCoordinator) HighWatermark() kafka.Offset {
	if g.hold {
		return 0
	}
	return g.end
}

func (g *oneCoordinator) Append(_ kafka.Epoch, _ kafka.Offset, _ kafka.WallMs, batches ...batch.Batch) (kafka.Offset, kafka.ErrorCode) {
	if g.refuses == 0 {
		g.end = batches[len(batches)-1].NextOffset()
	}
	return g.end, g.refuses
}

// exchange serves one request of a fresh connection; nil: it waits.
func exchange(t *testing.T, h *Handler, req kmsg.Request, version int16) kmsg.Response {
	t.Helper()
	s := begin(t, h, req, version)
	select {
	case <-s.done:
		return s.decode(t, req)
	default:
		return nil
	}
}

func begin(t *testing.T, h *Handler, req kmsg.Request, version int16) *slot {
	t.Helper()
	req.SetVersion(version)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, req, 1)[4:]
	s := &slot{t: t, done: make(chan struct{})}
	r := wire.NewRequest(frame, &wire.Peer{Listener: "L", Address: "10.0.0.1:1", Host: "10.0.0.1"}, s)
	h.Serve(&r)
	for i := range frame { // as if another request had come in its place
		if s.freed.Load() {
			frame[i] = 0xee
		}
	}
	return s
}

func (s *slot) decode(t *testing.T, req kmsg.Request) kmsg.Response {
	t.Helper()
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	skip := 8
	if resp.IsFlexible() {
		skip = 9
	}
	if err := resp.ReadFrom(s.resp.Buf[skip:]); err != nil {
		t.Fatal(err)
	}
	return resp
}

func joinRequest(member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = "g", member, 10_000, 10_000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte("subscription of "+member)
	req.Protocols = append(req.Protocols, p)
	return req
}

// A JoinGroup that waits has given its frame back, and the group keeps what it
// said. Fails if Waits does not free the frame, or the core keeps slices of it.
func TestAWaitingJoinGivesItsFrameBack(t *testing.T) {
	opts := node(t)
	g := opts.Groups.(*oneCoordinator)
	h := NewBroker(opts)
	first := exchange(t, h, joinRequest(""), 3).(*kmsg.JoinGroupResponse)
	if first.ErrorCode != 0 || first.LeaderID != first.MemberID {
		t.Fatalf("%+v", first)
	}
	second := begin(t, h, joinRequest(""), 3)
	if !second.freed.Load() || second.filled.Load() != 0 {
		t.Fatalf("frame freed: %v, answered %d times", second.freed.Load(), second.filled.Load())
	}
	again := exchange(t, h, joinRequest(first.MemberID), 3).(*kmsg.JoinGroupResponse)
	<-second.done
	if again.ErrorCode != 0 || len(again.Members) != 2 {
		t.Fatalf("%+v", again)
	}
	for _, m := range again.Members {
		if want := "subscription of "; len(m.ProtocolMetadata) < len(want) || string(m.ProtocolMetadata[:len(want)]) != want {
			t.Errorf("%s said %q", m.MemberID, m.ProtocolMetadata)
		}
	}
	g.letGo()
}

func commitRequest(offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "g", -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = "t", topicID
	for n := range int32(3) { // t has two partitions
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = n, offset
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func fetchOffsetsRequest(version int16) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	if version < fetchGroupsSince {
		req.Group = "g"
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = "t", []int32{0}
		req.Topics = append(req.Topics, t)
		return req
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = "t", topicID, []int32{0}
	g.Topics = append(g.Topics, t)
	all := kmsg.NewOffsetFetchRequestGroup()
	all.Group = "g"
	req.Groups = append(req.Groups, g, all)
	return req
}

// codes are the errors of an OffsetFetch answer: of the partition, of the group,
// of the whole.
func fetchedCodes(r *kmsg.OffsetFetchResponse, version int16) (partition, group, whole kafka.ErrorCode, offset int64) {
	whole, offset = kafka.ErrorCode(r.ErrorCode), -2
	if version < fetchGroupsSince {
		if len(r.Topics) > 0 {
			p := r.Topics[0].Partitions[0]
			partition, offset = kafka.ErrorCode(p.ErrorCode), p.Offset
		}
		return
	}
	group = kafka.ErrorCode(r.Groups[0].ErrorCode)
	if len(r.Groups[0].Topics) > 0 {
		p := r.Groups[0].Topics[0].Partitions[0]
		partition, offset = kafka.ErrorCode(p.ErrorCode), p.Offset
	}
	return
}

// HC-104: in each version the error stands where the client looks for it, and a
// time-out is NOT_COORDINATOR. Fails without failedFetch's rules of versions.
func TestHC104ErrorsOfOffsetFetch(t *testing.T) {
	opts := node(t)
	h := NewBroker(opts)
	for version := int16(1); version <= 10; version++ {
		opts.Groups.(*oneCoordinator).m.Resign()
		r := exchange(t, h, fetchOffsetsRequest(version), version).(*kmsg.OffsetFetchResponse)
		p, g, whole, _ := fetchedCodes(r, version)
		want := [3]kafka.ErrorCode{0, kafka.ErrNotCoordinator, 0}
		switch {
		case version < 2:
			want = [3]kafka.ErrorCode{kafka.ErrNotCoordinator, 0, 0}
		case version < 8:
			want = [3]kafka.ErrorCode{0, 0, kafka.ErrNotCoordinator}
		}
		if got := [3]kafka.ErrorCode{p, g, whole}; got != want {
			t.Errorf("version %d: %v, want %v", version, got, want)
		}
		opts.Groups.(*oneCoordinator).letGo()
		r = exchange(t, h, commitAndFetch(t, h, version), version).(*kmsg.OffsetFetchResponse)
		if p, g, whole, offset := fetchedCodes(r, version); p+g+whole != 0 || offset != int64(version) {
			t.Errorf("version %d: offset %d, %v %v %v", version, offset, p, g, whole)
		}
		if version >= 8 && len(r.Groups[1].Topics) != 1 {
			t.Errorf("version %d: all is %+v", version, r.Groups[1])
		}
	}
	for code, want := range map[kafka.ErrorCode]kafka.ErrorCode{
		kafka.ErrRequestTimedOut: kafka.ErrNotCoordinator, kafka.ErrNotEnoughReplicas: kafka.ErrNotCoordinator,
		kafka.ErrCoordinatorLoadInProgress: kafka.ErrCoordinatorLoadInProgress, kafka.ErrKafkaStorageError: kafka.ErrNotCoordinator,
	} {
		if got := fetchRefusal(code); got != want {
			t.Errorf("%v becomes %v", code, got)
		}
	}
}

func commitAndFetch(t *testing.T, h *Handler, version int16) kmsg.Request {
	t.Helper()
	r := exchange(t, h, commitRequest(int64(version)), 10).(*kmsg.OffsetCommitResponse)
	got := map[int32]int16{}
	for _, p := range r.Topics[0].Partitions {
		got[p.Partition] = p.ErrorCode
	}
	if len(r.Topics) != 1 || len(got) != 3 || got[0] != 0 || got[1] != 0 || kafka.ErrorCode(got[2]) != kafka.ErrUnknownTopicOrPartition {
		t.Fatalf("%+v", r)
	}
	return fetchOffsetsRequest(version)
}

// Topics that do not exist, by name and by id. Fails without existing and
// nameTopics.
func TestCommitsOfUnknownTopics(t *testing.T) {
	h := NewBroker(node(t))
	for _, version := range []int16{2, 5, 9, 10} {
		req := commitRequest(1)
		req.Topics[0].Topic, req.Topics[0].TopicID = "nosuch", kafka.TopicID{5}
		r := exchange(t, h, req, version).(*kmsg.OffsetCommitResponse)
		want := kafka.ErrUnknownTopicOrPartition
		if version >= 10 {
			want = kafka.ErrUnknownTopicID
		}
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 3 || kafka.ErrorCode(r.Topics[0].Partitions[2].ErrorCode) != want {
			t.Errorf("version %d: %+v", version, r)
		}
	}
	req := fetchOffsetsRequest(10)
	req.Groups[0].Topics[0].TopicID = kafka.TopicID{5}
	r := exchange(t, h, req, 10).(*kmsg.OffsetFetchResponse)
	if p := r.Groups[0].Topics[0].Partitions[0]; kafka.ErrorCode(p.ErrorCode) != kafka.ErrUnknownTopicID || p.Offset != -1 {
		t.Errorf("%+v", r)
	}
}

// What clients are told when the log refuses, and while the group is loaded.
// Fails without refusalCode, or without heartbeat's exception.
func TestCodesOfRefusedRequests(t *testing.T) {
	opts := node(t)
	g := opts.Groups.(*oneCoordinator)
	h := NewBroker(opts)
	for code, want := range map[kafka.ErrorCode]kafka.ErrorCode{
		kafka.ErrNotEnoughReplicas: kafka.ErrCoordinatorNotAvailable, kafka.ErrNotLeaderForPartition: kafka.ErrNotCoordinator,
		kafka.ErrKafkaStorageError: kafka.ErrNotCoordinator, kafka.ErrMessageTooLarge: kafka.ErrUnknownServerError,
		kafka.ErrInvalidRecord: kafka.ErrInvalidRecord,
	} {
		g.refuses = code
		r := exchange(t, h, commitRequest(1), 9).(*kmsg.OffsetCommitResponse)
		got := map[int32]kafka.ErrorCode{}
		for _, p := range r.Topics[0].Partitions {
			got[p.Partition] = kafka.ErrorCode(p.ErrorCode)
		}
		if got[0] != want || got[1] != want || got[2] != kafka.ErrUnknownTopicOrPartition {
			t.Errorf("%v: %v", code, got)
		}
	}
	g.refuses = 0
	g.m = statemachine.New(statemachine.Options{}) // it never ends loading
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group = "g"
	if r := exchange(t, h, beat, 4).(*kmsg.HeartbeatResponse); r.ErrorCode != 0 {
		t.Errorf("heartbeat while loading: %v", kafka.ErrorCode(r.ErrorCode))
	}
	list := exchange(t, h, kmsg.NewPtrListGroupsRequest(), 5).(*kmsg.ListGroupsResponse)
	if kafka.ErrorCode(list.ErrorCode) != kafka.ErrCoordinatorLoadInProgress {
		t.Errorf("HC-161: list while loading: %v", kafka.ErrorCode(list.ErrorCode))
	}
	if r := exchange(t, h, joinRequest(""), 9).(*kmsg.JoinGroupResponse); kafka.ErrorCode(r.ErrorCode) != kafka.ErrCoordinatorLoadInProgress || r.Generation != -1 {
		t.Errorf("join while loading: %+v", r)
	}
}

// Fails without the check in syncGroup.
func TestSyncGroupNamesItsProtocol(t *testing.T) {
	h := NewBroker(node(t))
	consumer := "consumer"
	for version, want := range map[int16]kafka.ErrorCode{4: kafka.ErrUnknownMemberID, 5: kafka.ErrInconsistentGroupProtocol} {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.ProtocolType = "g", &consumer
		if r := exchange(t, h, req, version).(*kmsg.SyncGroupResponse); kafka.ErrorCode(r.ErrorCode) != want {
			t.Errorf("version %d: %v", version, kafka.ErrorCode(r.ErrorCode))
		}
	}
}

// HC-160: DescribeGroups. Fails if the version does not reach the core.
func TestHC160UnknownGroups(t *testing.T) {
	h := NewBroker(node(t))
	for version := int16(0); version <= 6; version++ {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{"nosuch", "g", "nosuch"}, true
		r := exchange(t, h, req, version).(*kmsg.DescribeGroupsResponse)
		want, ops := kafka.ErrorCode(0), int32(groupOperations)
		if version >= 6 {
			want, ops = kafka.ErrGroupIDNotFound, noOperations
		}
		if version < 3 {
			ops = noOperations
		}
		if d := r.Groups[0]; len(r.Groups) != 3 || kafka.ErrorCode(d.ErrorCode) != want || d.State != "Dead" || version >= 3 && d.AuthorizedOperations != ops {
			t.Errorf("version %d: %+v", version, r)
		}
	}
}

func TestClientHost(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1": "/127.0.0.1", "::1": "/0:0:0:0:0:0:0:1", "::ffff:10.1.2.3": "/10.1.2.3",
		"2001:db8::50:a0": "/2001:db8:0:0:0:0:50:a0", "fe80::1%eth0": "/fe80:0:0:0:0:0:0:1%eth0", "pipe": "/pipe",
	} {
		if got := clientHost(host); got != want {
			t.Errorf("%s becomes %s, want %s", host, got, want)
		}
	}
}
