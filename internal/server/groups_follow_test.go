package server

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// followed is a set of coordinators over a store, both fed with images by hand.
type followed struct {
	t   *testing.T
	s   *Server
	img *metadata.Image
	end kafka.Offset
	id  kafka.TopicID
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	props, err := config.ParseProperties(config.Default)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.NewServer(props)
	if err != nil {
		t.Fatal(err)
	}
	f := &followed{t: t, img: metadata.Empty(), id: kafka.TopicID{1: 1}}
	log := slog.New(slog.DiscardHandler)
	f.s = &Server{opts: Options{Config: c}, log: log, clock: newClock()}
	f.s.store = partition.New(partition.Options{
		FS: mem, Dirs: []partition.Dir{{Path: "/d", ID: kafka.DirectoryID{1: 1}}}, Self: c.NodeID, Now: f.s.clock, Log: log, Random: rand.Uint64,
		OpenFiles: 10, LoadWorkers: 1, Fatal: func(err error) { t.Error(err) },
		RetentionCheckMs: 1 << 40, InitialTaskDelayMs: 1 << 40, HighCheckpointMs: 1 << 40, FlushCheckpointMs: 1 << 40, StartCheckpointMs: 1 << 40,
	})
	if err := f.s.store.Load(f.img); err != nil {
		t.Fatal(err)
	}
	f.s.groups = newGroups(f.s)
	t.Cleanup(func() { f.s.groups.stop(); f.s.store.Close() })
	return f
}

func (f *followed) apply(msgs ...record.Message) {
	f.t.Helper()
	d := metadata.NewDelta(f.img)
	for _, m := range msgs {
		if err := d.Replay(m); err != nil {
			f.t.Fatal(err)
		}
	}
	f.end += kafka.Offset(len(msgs))
	f.img = d.Apply(metadata.Provenance{EndOffset: f.end, Epoch: 1})
	f.s.store.Apply(d, f.img)
	f.s.groups.follow(d, f.img)
}

// topic makes a topic whose partitions this broker leads.
func (f *followed) topic(name string, id kafka.TopicID, partitions kafka.PartitionID) {
	self := f.s.opts.Config.NodeID
	msgs := []record.Message{&record.Topic{Name: name, TopicID: id}}
	for n := range partitions {
		p := record.NewPartition()
		p.TopicID, p.PartitionID, p.Leader, p.LeaderEpoch, p.PartitionEpoch = id, n, self, 0, 0
		p.Replicas, p.ISR, p.Directories = []kafka.NodeID{self}, []kafka.NodeID{self}, make([]kafka.DirectoryID, 1)
		msgs = append(msgs, p)
	}
	f.apply(msgs...)
}

func (f *followed) lead(n kafka.PartitionID, leader kafka.NodeID) {
	c := record.NewPartitionChange()
	c.TopicID, c.PartitionID, c.Leader = f.id, n, leader
	f.apply(c)
}

// ask waits for the answer of a coordinator.
func (f *followed) ask(n kafka.PartitionID, body any) (any, kafka.ErrorCode) {
	f.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		m := f.s.groups.Machine(n)
		if m == nil {
			return nil, kafka.ErrNotCoordinator
		}
		a := make(answer, 1)
		m.Submit(coordinator.Request{Body: body}, a)
		if got := <-a; got.code != kafka.ErrCoordinatorLoadInProgress || time.Now().After(end) {
			return got.body, got.code
		}
	}
}

type answered struct {
	body any
	code kafka.ErrorCode
}

type answer chan answered

func (answer) Gone() bool                              { return false }
func (answer) Waits()                                  {}
func (a answer) Answer(body any, code kafka.ErrorCode) { a <- answered{body, code} }

// HC-150 and others: a coordinator lives for one leader epoch of its partition,
// and only here. Fails without any one case of assign, or the first of follow.
func TestCoordinatorsFollowLeaderships(t *testing.T) {
	f := newFollowed(t)
	self := f.s.opts.Config.NodeID
	wants := func(what string, epoch kafka.Epoch) {
		t.Helper()
		m := f.s.groups.Machine(0)
		if (m != nil) != (epoch >= 0) || m != nil && m.Epoch() != epoch {
			t.Fatalf("%s: %+v", what, m)
		}
		if m != nil {
			if _, code := f.ask(0, &group.List{}); code != 0 {
				t.Fatalf("%s: %v", what, code)
			}
		}
	}
	wants("no topic", -1)
	f.topic(kafka.ConsumerOffsetsTopic, f.id, 1)
	wants("led here", 0)
	first := f.s.groups.Machine(0)
	f.apply(&record.Topic{Name: "other", TopicID: kafka.TopicID{2: 2}})
	if f.s.groups.Machine(0) != first {
		t.Fatal("a change of nothing begins a coordinator")
	}
	f.lead(0, self) // the leader stays, the epoch rises
	wants("another epoch", 1)
	a := make(answer, 1)
	first.Submit(coordinator.Request{Body: &group.List{}}, a)
	if got := <-a; got.code != kafka.ErrNotCoordinator {
		t.Fatalf("the old coordinator answers %v", got.code)
	}
	f.lead(0, 9)
	wants("led elsewhere", -1)
	f.lead(0, self)
	wants("back again", 3)
	f.apply(&record.RemoveTopic{TopicID: f.id})
	wants("deleted", -1)
	f.id = kafka.TopicID{3: 3}
	f.topic(kafka.ConsumerOffsetsTopic, f.id, 1)
	wants("created again", 0)
	f.s.groups.stop()
	wants("stopped", -1)
	f.lead(0, self)
	wants("stopped", -1)
}
