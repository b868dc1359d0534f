package quorum

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

type anyRules struct{}

func (anyRules) CheckTopic(string, string) error                      { return nil }
func (anyRules) CheckTopicSet(map[string]string) error                { return nil }
func (anyRules) CheckBroker(string, string, bool) error               { return nil }
func (anyRules) CheckGroup(map[string]string) error                   { return nil }
func (anyRules) CheckClientMetrics(map[string]string) (bool, error)   { return false, nil }
func (anyRules) IsList(metadata.ResourceType, string) bool            { return false }
func (anyRules) Default(metadata.ResourceType, string) (string, bool) { return "", false }
func (anyRules) TopicDefaults() []controller.TopicDefault             { return nil }

func mustUUID(t testing.TB, s string) kafka.DirectoryID {
	u, err := kafka.ParseUUID(s)
	if err != nil {
		t.Fatal(err)
	}
	return kafka.DirectoryID(u)
}

// self is the node of the golden folder "single".
func self(t testing.TB) raft.Voter {
	return raft.Voter{
		Key:       raft.ReplicaKey{ID: 1, Dir: mustUUID(t, "6VEzRV9GRZeDSk3H6UPpDQ")},
		Endpoints: []kafka.Endpoint{{Name: "CONTROLLER", Host: "127.0.0.1", Port: 23593}},
		MaxKRaft:  1,
	}
}

func features() (list []controller.VersionedRecord) {
	for _, f := range []struct {
		name  string
		level int16
	}{{"metadata.version", 33}, {"eligible.leader.replicas.version", 1}, {"group.version", 1},
		{"share.version", 2}, {"streams.version", 1}, {"transaction.version", 2}} {
		m := record.NewFeatureLevel()
		m.Name, m.FeatureLevel = f.name, f.level
		list = append(list, controller.VersionedRecord{Message: m})
	}
	return list
}

func newDisk(t testing.TB) *vfs.Mem {
	mem := vfs.NewMem()
	if err := errors.Join(mem.MkdirAll("data"), mem.SyncDir("")); err != nil {
		t.Fatal(err)
	}
	return mem
}

// formatted is a disk as format --standalone leaves it.
func formatted(t testing.TB) *vfs.Mem {
	mem := newDisk(t)
	set, _ := raft.NewVoterSet(self(t))
	if err := Format(FormatOptions{FS: mem, Dir: "data", KRaft: 1, Voters: set, Records: features(), Now: 1000}); err != nil {
		t.Fatal(err)
	}
	return mem
}

// testQuorum is a quorum of one under test.
type testQuorum struct {
	*Quorum
	t     testing.TB
	fatal chan error
	ready chan struct{} // closed when the node leads and its log is bootstrapped
	epoch int64
}

func options(t testing.TB, fsys vfs.FS) Options {
	var random uint64
	v := self(t)
	return Options{
		FS: fsys, Dir: "data",
		Raft: raft.Options{
			Self: v.Key, Endpoints: v.Endpoints, MaxKRaft: 1, CanBecomeVoter: true, ElectionTimeout: time.Second,
			ElectionBackoffMax: time.Second, FetchTimeout: 2 * time.Second, RequestTimeout: 2 * time.Second,
			RetryBackoff: 20 * time.Millisecond, FetchMaxWait: 500 * time.Millisecond, FetchMaxBytes: 1 << 20, SnapshotMaxBytes: 1 << 20, Seed: 1,
		},
		Controller: &controller.Options{
			NodeID: 1, ClusterID: "cluster", Rules: anyRules{},
			Random:         func() uint64 { random++; return random * 0x9e3779b97f4a7c15 },
			Features:       []metadata.Feature{{Name: "metadata.version", Min: 7, Max: 33}, {Name: "eligible.leader.replicas.version", Max: 1}},
			SessionTimeout: time.Hour, DefaultPartitions: 1, DefaultReplicationFactor: 1, MinInSyncReplicas: 1,
		},
		Log:       LogConfig{SegmentBytes: 1 << 20, SegmentMs: 7 * 24 * 3600 * 1000},
		Snapshots: SnapshotConfig{MaxBytes: 20 << 20, RetentionBytes: -1, RetentionMs: -1},
	}
}

func open(t testing.TB, opts Options) *testQuorum {
	t.Helper()
	q := &testQuorum{t: t, fatal: make(chan error, 1), ready: make(chan struct{})}
	opts.Fatal = func(err error) { q.fatal <- err }
	inner, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	q.Quorum = inner
	var once sync.Once
	inner.Subscribe(func(_ *metadata.Delta, img *metadata.Image) {
		if img.Version() != 0 && (raft.LeaderAndEpoch{Leader: 1, Epoch: img.Provenance().Epoch}) == inner.Leader() {
			once.Do(func() { close(q.ready) })
		}
	})
	return q
}

func start(t testing.TB, opts Options) *testQuorum {
	t.Helper()
	q := open(t, opts)
	q.Start()
	q.await(q.ready)
	return q
}

const patience = 20 * time.Second

func (q *testQuorum) await(c <-chan struct{}) {
	q.t.Helper()
	select {
	case <-c:
	case err := <-q.fatal:
		q.t.Fatal(err)
	case <-time.After(patience):
		q.t.Fatalf("nothing happens: %+v", q.Describe())
	}
}

type outcome struct {
	resp any
	err  error
}

func (q *testQuorum) submit(body any) <-chan outcome {
	c := make(chan outcome, 1)
	q.Submit(Context{}, body, func(resp any, err error) { c <- outcome{resp, err} })
	return c
}

func (q *testQuorum) call(body any) any {
	q.t.Helper()
	select {
	case o := <-q.submit(body):
		if o.err != nil {
			q.t.Fatalf("%T: %v", body, o.err)
		}
		return o.resp
	case <-time.After(patience):
		q.t.Fatalf("%T: no answer", body)
	}
	return nil
}

// registration is that of broker 1.
func registration() *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.ClusterID, req.BrokerID, req.PreviousBrokerEpoch = 4, "cluster", 1, -1
	req.IncarnationID, req.LogDirs = [16]byte{1, 1}, [][16]byte{{0xd0, 1}}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "h", 9092
	req.Listeners = append(req.Listeners, l)
	req.Features = []kmsg.BrokerRegistrationRequestFeature{
		{Name: "metadata.version", MinSupportedVersion: 7, MaxSupportedVersion: 33},
		{Name: "eligible.leader.replicas.version", MaxSupportedVersion: 1}, {Name: "group.version", MaxSupportedVersion: 1},
		{Name: "share.version", MaxSupportedVersion: 2}, {Name: "streams.version", MaxSupportedVersion: 1}, {Name: "transaction.version", MaxSupportedVersion: 2},
	}
	return req
}

// register makes broker 1 known and unfenced.
func (q *testQuorum) register() {
	resp := q.call(registration()).(*kmsg.BrokerRegistrationResponse)
	if resp.ErrorCode != 0 {
		q.t.Fatalf("registration: %s", kafka.ErrorCode(resp.ErrorCode))
	}
	q.epoch = resp.BrokerEpoch
	hb := kmsg.NewPtrBrokerHeartbeatRequest()
	hb.Version, hb.BrokerID, hb.BrokerEpoch = 1, 1, q.epoch
	hb.CurrentMetadataOffset = int64(q.Image().Provenance().EndOffset)
	if r := q.call(hb).(*kmsg.BrokerHeartbeatResponse); r.ErrorCode != 0 || r.IsFenced {
		q.t.Fatalf("heartbeat: %+v", r)
	}
}

func createTopic(name string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 3, 1
	req.Topics = append(req.Topics, topic)
	return req
}

func topicError(o outcome) error {
	if o.err != nil {
		return o.err
	}
	if code := o.resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		return errors.New(kafka.ErrorCode(code).String())
	}
	return nil
}

func (q *testQuorum) stopNow() {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := q.Stop(ctx); err != nil {
		q.t.Fatal(err)
	}
}

// load copies a folder of testdata onto a disk.
func load(t testing.TB, mem *vfs.Mem, from, to string) {
	entries, err := os.ReadDir(filepath.Join("testdata", from))
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.MkdirAll(to); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		write(t, mem, to+"/"+e.Name(), readFile(t, from+"/"+e.Name()))
	}
}

func readFile(t testing.TB, name string) []byte {
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, fsys vfs.FS, name string, data []byte) {
	f, err := fsys.Open(name, vfs.CreateTruncate)
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
