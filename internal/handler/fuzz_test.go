package handler

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
	"moldau/internal/record"
	"moldau/internal/vfs"
	"moldau/internal/wire"
)

// slot counts what becomes of a request.
type slot struct {
	t       testing.TB
	resp    wire.Response
	filled  atomic.Int32
	dropped atomic.Int32
	freed   atomic.Bool
	done    chan struct{}

	parking func() // called between the read and the wait

	mu   sync.Mutex
	gone func()
	dead bool
}

func (s *slot) Response() *wire.Response { return &s.resp }

func (s *slot) Fill(r *wire.Response) {
	if s.filled.Add(1) != 1 {
		s.t.Error("a request was answered twice")
		return
	}
	if r != nil {
		if !r.Finish() || r.Size() < 8 {
			s.t.Errorf("answer of %d bytes", r.Size())
		}
		r.Release()
	}
	close(s.done)
}

func (s *slot) Drop(err error) {
	if err == nil {
		s.t.Error("dropped without a reason")
	}
	s.dropped.Add(1)
	s.Fill(nil)
}

func (s *slot) Broken() bool { return false }

func (s *slot) FreeFrame() { s.freed.Store(true) }

func (s *slot) OnGone(f func()) bool {
	if s.parking != nil {
		s.parking()
		s.parking = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filled.Load() > 0 {
		s.t.Error("OnGone after the answer: the place may be another request's")
	}
	if s.dead {
		return false
	}
	s.gone = f
	return true
}

// leave ends the connection.
func (s *slot) leave() {
	s.mu.Lock()
	f := s.gone
	s.dead, s.gone = true, nil
	s.mu.Unlock()
	if f != nil {
		f()
	}
}

// refusing is a controller that decides nothing.
type refusing struct{}

func (refusing) Submit(_ Caller, body kmsg.Request, done func(kmsg.Response, error)) {
	done(nil, fmt.Errorf("no controller"))
}

func (refusing) Quorum() Quorum {
	return Quorum{Leader: 1, Epoch: 1, Voters: []QuorumReplica{{ID: 1}}, Nodes: []QuorumNode{{ID: 1, Endpoints: []kafka.Endpoint{{Name: "L", Host: "h", Port: 1}}}}}
}

type ids struct{ n atomic.Int64 }

func (i *ids) Next(done func(kafka.ProducerID, kafka.ErrorCode)) {
	done(kafka.ProducerID(i.n.Add(1)), 0)
}

var topicID = kafka.TopicID{0: 9, 15: 1}

// node makes the options of a broker with one topic t of two partitions.
func node(t testing.TB) Options {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	d := metadata.NewDelta(metadata.Empty())
	msgs := []record.Message{&record.FeatureLevel{Name: metadata.FeatureMetadataVersion, FeatureLevel: int16(metadata.LatestVersion)}}
	reg := record.NewRegisterBroker()
	reg.BrokerID, reg.BrokerEpoch, reg.Fenced = 1, 3, false
	msgs = append(msgs, reg, &record.Topic{Name: "t", TopicID: topicID})
	for n := range kafka.PartitionID(2) {
		p := record.NewPartition()
		p.PartitionID, p.TopicID, p.Leader, p.LeaderEpoch, p.PartitionEpoch = n, topicID, 1, 0, 0
		p.Replicas, p.ISR, p.Directories = []kafka.NodeID{1}, []kafka.NodeID{1}, make([]kafka.DirectoryID, 1)
		msgs = append(msgs, p)
	}
	for _, m := range msgs {
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
	}
	img := d.Apply(metadata.Provenance{EndOffset: 10, Epoch: 1})
	now := func() kafka.Now { return kafka.Now{Mono: 1 << 40, Wall: 1_700_000_000_000} }
	log := slog.New(slog.DiscardHandler)
	store := partition.New(partition.Options{
		FS: mem, Dirs: []partition.Dir{{Path: "/d", ID: kafka.DirectoryID{1: 1}}}, Self: 1, Now: now, Log: log, Random: rand.Uint64,
		OpenFiles: 10, LoadWorkers: 1, Fatal: func(err error) { t.Error(err) },
		RetentionCheckMs: 1 << 40, InitialTaskDelayMs: 1 << 40, HighCheckpointMs: 1 << 40, FlushCheckpointMs: 1 << 40, StartCheckpointMs: 1 << 40,
	})
	if err := store.Load(img); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return Options{
		Self: 1, ClusterID: "c", Image: func() *metadata.Image { return img }, Store: store, Controller: refusing{}, ProducerIDs: &ids{}, Groups: newCoordinator(),
		Now: now, Random: rand.Uint64, Log: log, FetchMaxBytes: 1 << 20, FetchSessionSlots: 10, AutoCreateTopics: true,
		PartitionsPerDescribe: 100, SupportedFeatures: []Feature{{"f", 0, 1}},
	}
}

// serve gives a frame to a handler and waits for what becomes of it. A fetch
// that waits has its connection cut.
func serve(t testing.TB, h *Handler, frame []byte) *slot {
	t.Helper()
	s := &slot{t: t, done: make(chan struct{})}
	r := wire.NewRequest(frame, &wire.Peer{Listener: "L", Address: "x:1", Host: "x"}, s)
	h.Serve(&r)
	if h.parked.Load() > 0 {
		s.leave()
	}
	if g, ok := h.opts.Groups.(*oneCoordinator); ok && s.filled.Load() == 0 {
		g.letGo()
	}
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		t.Fatalf("no answer to % x", frame)
	}
	return s
}

// FuzzServe gives any bytes to every API in every version: there must be no
// panic, and exactly one answer or drop.
func FuzzServe(f *testing.F) {
	for _, make := range []func(Options) *Handler{NewBroker, NewController} {
		h := make(Options{Random: rand.Uint64})
		for _, a := range h.apis {
			if a.key < 0 {
				continue
			}
			for v := a.min; v <= a.max; v++ {
				req := kmsg.RequestForKey(a.key)
				req.SetVersion(v)
				full := kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, 1)
				f.Add(full[4:])
			}
		}
	}
	bl := batch.NewBuilder(nil, 0, 0)
	bl.Add(1_700_000_000_000, []byte("k"), []byte("v"))
	p := kmsg.NewPtrProduceRequest()
	p.Acks = 1
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = "t", topicID
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = bl.Finish()
	topic.Partitions = append(topic.Partitions, part)
	p.Topics = append(p.Topics, topic)
	q := kmsg.NewPtrFetchRequest()
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.ReplicaID = 1000, 1, 1000, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = "t", topicID
	ft.Partitions = append(ft.Partitions, kmsg.NewFetchRequestTopicPartition())
	q.Topics = append(q.Topics, ft)
	for _, req := range []kmsg.Request{p, q} {
		for _, v := range []int16{4, 7, 9, 12, 13} {
			req.SetVersion(v)
			f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)[4:])
		}
	}
	opts := node(f)
	broker, controller := NewBroker(opts), NewController(opts)
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < 8 {
			return // the network does not pass them on
		}
		serve(t, broker, append([]byte(nil), frame...))
		serve(t, controller, append([]byte(nil), frame...))
		if n := broker.parked.Load(); n != 0 {
			t.Fatalf("%d partitions count as waiting", n)
		}
	})
}

// Random damage to legal frames of every API and version, as a test that runs
// always.
func TestDamagedFramesGetOneAnswer(t *testing.T) {
	opts := node(t)
	h := NewBroker(opts)
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, a := range h.apis {
		if a.key < 0 {
			continue
		}
		for v := a.min - 1; v <= a.max+1; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(max(v, 0))
			frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, 1)[4:]
			binary.BigEndian.PutUint16(frame[2:], uint16(v))
			serve(t, h, frame)
			for range 50 {
				bad := append([]byte(nil), frame...)
				for range 1 + rnd.IntN(3) {
					bad[4+rnd.IntN(len(bad)-4)] = byte(rnd.Uint32())
				}
				bad = bad[:8+rnd.IntN(len(bad)-7)]
				serve(t, h, bad)
			}
		}
	}
}

// With no controller each admin request is answered with NOT_CONTROLLER for
// everything that it names. Fails if refuse leaves something out.
func TestNoControllerIsSaid(t *testing.T) {
	h := NewBroker(node(t))
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = "x"
	req.Topics = append(req.Topics, topic)
	req.SetVersion(5)
	s := serve(t, h, kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)[4:])
	resp := req.ResponseKind()
	resp.SetVersion(5)
	if err := resp.ReadFrom(s.resp.Buf[9:]); err != nil {
		t.Fatal(err)
	}
	if r := resp.(*kmsg.CreateTopicsResponse); len(r.Topics) != 1 || kafka.ErrorCode(r.Topics[0].ErrorCode) != kafka.ErrNotController {
		t.Fatalf("%+v", r)
	}
}

func fetchFrame(maxWaitMs int32, offsets [2]kafka.Offset) []byte {
	q := kmsg.NewPtrFetchRequest()
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.ReplicaID, q.SessionEpoch = maxWaitMs, 1, 1000, -1, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "t"
	for n := range int32(2) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.PartitionMaxBytes = n, -1, 1000
		p.FetchOffset = int64(offsets[n])
		ft.Partitions = append(ft.Partitions, p)
	}
	q.Topics = append(q.Topics, ft)
	q.SetVersion(11)
	return kmsg.NewRequestFormatter().AppendRequest(nil, q, 1)[4:]
}

// A fetch that waits ends with its connection, be it before or after. Fails if
// park does not ask to be told, or does not heed that it is too late.
func TestAWaitEndsWithTheConnection(t *testing.T) {
	h := NewBroker(node(t))
	for _, dead := range []bool{false, true} {
		s := &slot{t: t, done: make(chan struct{}), dead: dead}
		r := wire.NewRequest(fetchFrame(1<<30, [2]kafka.Offset{}), &wire.Peer{Listener: "L"}, s)
		h.Serve(&r)
		s.leave()
		select {
		case <-s.done:
		case <-time.After(10 * time.Second):
			t.Fatal("it waits for ever")
		}
		if n := h.parked.Load(); n != 0 {
			t.Fatalf("%d partitions count as waiting", n)
		}
	}
}

// News between the read of a fetch and its wait are not missed, whatever they
// are. Fails if park does not compare News after Watch.
func TestNewsBeforeTheWait(t *testing.T) {
	opts := node(t)
	h := NewBroker(opts)
	p := opts.Store.Partition(topicID, 0)
	for _, q := range []struct {
		what string
		news func()
	}{
		{"an append", func() {
			bl := batch.NewBuilder(nil, 0, 0)
			bl.Add(1_700_000_000_000, nil, []byte("v"))
			p.Append(bl.Finish(), true, 1_700_000_000_000)
		}},
		{"a deletion", func() {
			d := metadata.NewDelta(opts.Image())
			if err := d.Replay(&record.RemoveTopic{TopicID: topicID}); err != nil {
				t.Error(err)
			}
			img := d.Apply(metadata.Provenance{EndOffset: 20, Epoch: 1})
			h.opts.Image = func() *metadata.Image { return img }
			opts.Store.Apply(d, img)
		}},
	} {
		s := &slot{t: t, done: make(chan struct{}), parking: q.news}
		r := wire.NewRequest(fetchFrame(1<<30, [2]kafka.Offset{p.HighWatermark()}), &wire.Peer{Listener: "L"}, s)
		h.Serve(&r)
		select {
		case <-s.done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s was missed", q.what)
		}
	}
}

// More partitions than may wait are not left waiting. Fails without mayPark.
func TestWaitingPartitionsAreBounded(t *testing.T) {
	h := NewBroker(node(t))
	h.parked.Store(maxParkedPartitions - 1)
	s := &slot{t: t, done: make(chan struct{})}
	r := wire.NewRequest(fetchFrame(1<<30, [2]kafka.Offset{}), &wire.Peer{Listener: "L"}, s)
	h.Serve(&r)
	if s.filled.Load() != 1 || s.resp.Size() == 0 || h.parked.Load() != maxParkedPartitions-1 {
		t.Fatalf("answered %d times, %d partitions count as waiting", s.filled.Load(), h.parked.Load())
	}
}

// Fetches beside appends, deadlines and dying connections: each is answered
// once, and nothing of any is left. For the race detector.
func TestParkedFetchesUnderStress(t *testing.T) {
	opts := node(t)
	var mono atomic.Int64
	opts.Now = func() kafka.Now { return kafka.Now{Mono: kafka.Mono(mono.Add(1)), Wall: 1_700_000_000_000} }
	h := NewBroker(opts)
	stop := make(chan struct{})
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		for n := kafka.PartitionID(0); ; n = 1 - n {
			select {
			case <-stop:
				return
			default:
			}
			bl := batch.NewBuilder(nil, 0, 0)
			bl.Add(1_700_000_000_000, nil, []byte("v"))
			opts.Store.Partition(topicID, n).Append(bl.Finish(), true, 1_700_000_000_000)
			runtime.Gosched()
		}
	}()
	end := func(n kafka.PartitionID) kafka.Offset { return opts.Store.Partition(topicID, n).HighWatermark() }
	finished := make(chan *slot, 8)
	for w := range 8 {
		go func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 5))
			for range 500 {
				s := &slot{t: t, done: make(chan struct{}), dead: rnd.IntN(20) == 0}
				// The clock of the deadlines is far ahead: one millisecond has
				// passed at once, a great many have not.
				frame := fetchFrame([]int32{1, 1 << 30}[rnd.IntN(2)], [2]kafka.Offset{end(0), end(1)})
				r := wire.NewRequest(frame, &wire.Peer{Listener: "L"}, s)
				h.Serve(&r)
				if rnd.IntN(4) == 0 {
					s.leave()
				}
				select {
				case <-s.done:
				case <-time.After(20 * time.Second):
					t.Error("no answer")
				}
			}
			finished <- nil
		}()
	}
	for range 8 {
		<-finished
	}
	close(stop)
	<-appended
	if n := h.parked.Load(); n != 0 {
		t.Fatalf("%d partitions count as waiting", n)
	}
}
