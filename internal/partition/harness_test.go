package partition

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

const (
	testStart kafka.WallMs = 1_700_000_000_000
	self      kafka.NodeID = 1
)

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// rig is one broker's data plane on a file system in memory, with a clock and
// metadata that the test moves.
type rig struct {
	t     *testing.T
	mem   *vfs.Mem
	fs    *vfs.Fault
	dirs  []string
	mono  atomic.Int64
	wall  atomic.Int64
	log   lines
	img   *metadata.Image
	ended kafka.Offset

	s     *Store
	work  []*chore
	clean []bool // of the directories at the last open
	fatal atomic.Int32
	ids   byte
	tune  func(*Options)
}

func newRig(t *testing.T, dirs ...string) *rig {
	t.Helper()
	if len(dirs) == 0 {
		dirs = []string{"/a"}
	}
	mem := vfs.NewMem()
	r := &rig{t: t, mem: mem, fs: vfs.NewFault(mem), dirs: dirs, img: metadata.Empty()}
	r.wall.Store(int64(testStart))
	for _, d := range dirs {
		must(t, r.fs.MkdirAll(d))
		must(t, r.fs.SyncDir("/"))
	}
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) now() kafka.Now {
	return kafka.Now{Mono: kafka.Mono(r.mono.Load()), Wall: kafka.WallMs(r.wall.Load())}
}

// pass moves both clocks and runs the chores that have become due, second by
// second, as the keeper does.
func (r *rig) pass(d time.Duration) {
	for end := r.mono.Load() + int64(d); r.mono.Load() < end; {
		r.mono.Add(int64(keeperTick))
		r.wall.Add(keeperTick.Milliseconds())
		runDue(r.work, r.now())
	}
}

// open starts the data plane for the metadata as it is now. The test does the
// work of keeper and flusher.
func (r *rig) open() error {
	r.t.Helper()
	o := Options{
		FS: r.fs, Self: self, Now: r.now, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Random: rand.Uint64,
		OpenFiles: 16, LoadWorkers: 2, Fatal: func(error) { r.fatal.Add(1) },
		RetentionCheckMs: 60_000, InitialTaskDelayMs: 30_000, HighCheckpointMs: 5_000, FlushCheckpointMs: 60_000,
		StartCheckpointMs: 60_000, ProducerExpireMs: 86_400_000, DeletedFolderWaitMs: 60_000,
	}
	r.clean = nil
	for i, d := range r.dirs {
		clean, _, err := logdir.TakeCleanShutdown(r.fs, d)
		if err != nil {
			return err
		}
		r.clean = append(r.clean, clean)
		o.Dirs = append(o.Dirs, Dir{Path: d, ID: kafka.DirectoryID{15: byte(100 + i)}, Clean: clean})
	}
	if r.tune != nil {
		r.tune(&o)
	}
	s := New(o)
	s.byHand = true
	if err := s.Load(r.img); err != nil {
		s.Deadlines.Close()
		return err
	}
	r.s, r.work = s, s.chores(r.now().Mono)
	r.t.Cleanup(r.abandon)
	return nil
}

// abandon ends what runs, as a crash does.
func (r *rig) abandon() {
	if r.s != nil && !r.s.closed {
		r.s.closed = true
		r.s.Deadlines.Close()
	}
	r.s = nil
}

func (r *rig) mustOpen() *rig {
	r.t.Helper()
	must(r.t, r.open())
	return r
}

// reopen is a start after the process died.
func (r *rig) reopen() *rig {
	r.t.Helper()
	r.abandon()
	r.mem.CrashProcess()
	return r.mustOpen()
}

// apply commits records: the store follows, if it is open.
func (r *rig) apply(msgs ...record.Message) {
	r.t.Helper()
	d := metadata.NewDelta(r.img)
	for _, m := range msgs {
		must(r.t, d.Replay(m))
	}
	r.ended += kafka.Offset(len(msgs))
	r.img = d.Apply(metadata.Provenance{EndOffset: r.ended, Epoch: 1, TimestampMs: testStart})
	if r.s != nil {
		r.s.Apply(d, r.img)
	}
}

func topicRecords(name string, id kafka.TopicID, dirs []kafka.DirectoryID, settings ...string) []record.Message {
	msgs := []record.Message{&record.Topic{Name: name, TopicID: id}}
	for i, d := range dirs {
		p := record.NewPartition()
		p.PartitionID, p.TopicID, p.Leader, p.LeaderEpoch, p.PartitionEpoch = kafka.PartitionID(i), id, self, 0, 0
		p.Replicas, p.ISR, p.Directories = []kafka.NodeID{self}, []kafka.NodeID{self}, []kafka.DirectoryID{d}
		msgs = append(msgs, p)
	}
	for _, kv := range settings {
		k, v, _ := strings.Cut(kv, "=")
		msgs = append(msgs, &record.Config{ResourceType: 2, ResourceName: name, Name: k, Value: &v})
	}
	return msgs
}

// topic makes a topic with one partition in each directory of the list (−1: any).
func (r *rig) topic(name string, dirs []int, settings ...string) kafka.TopicID {
	r.t.Helper()
	r.ids++
	id := kafka.TopicID{0: 7, 15: r.ids}
	list := make([]kafka.DirectoryID, len(dirs))
	for i, d := range dirs {
		if d >= 0 {
			list[i] = kafka.DirectoryID{15: byte(100 + d)}
		}
	}
	r.apply(topicRecords(name, id, list, settings...)...)
	return id
}

func (r *rig) part(id kafka.TopicID, n kafka.PartitionID) *Partition {
	r.t.Helper()
	p := r.s.Partition(id, n)
	if p == nil {
		r.t.Fatalf("no partition %d", n)
	}
	return p
}

// one is a batch of one record.
func one(value string) batch.Batch { return batchOf(testStart, value) }

func batchOf(ts kafka.WallMs, values ...string) batch.Batch {
	bl := batch.NewBuilder(nil, 77, 99) // base and epoch are the leader's to set
	for _, v := range values {
		bl.Add(ts, nil, []byte(v))
	}
	return bl.Finish()
}

func idempotent(id kafka.ProducerID, epoch kafka.ProducerEpoch, seq kafka.Sequence, values ...string) batch.Batch {
	bl := batch.NewBuilder(nil, 0, 0)
	bl.ProducerID, bl.ProducerEpoch, bl.BaseSequence = id, epoch, seq
	for _, v := range values {
		bl.Add(testStart, nil, []byte(v))
	}
	return bl.Finish()
}

func (r *rig) append(p *Partition, b batch.Batch) kafka.Offset {
	r.t.Helper()
	a := p.Append(b, true, r.now().Wall)
	if a.Code != 0 {
		r.t.Fatalf("append: %s %s", a.Code, a.Message)
	}
	return a.BaseOffset
}

// bytesFrom reads everything from an offset on.
func bytesFrom(t testing.TB, p *Partition, from kafka.Offset) []byte {
	t.Helper()
	var out []byte
	for {
		res := p.Read(ReadRequest{Offset: from, LeaderEpoch: kafka.NoEpoch, MaxBytes: 1 << 20, MinOne: true})
		if res.Code != 0 {
			t.Fatalf("read at %d: %s", from, res.Code)
		}
		if res.Records == nil {
			return out
		}
		buf := make([]byte, res.Records.Len())
		_, err := res.Records.ReadAt(buf, 0)
		must(t, err)
		res.Records.Release()
		out = append(out, buf...)
		for rest := buf; len(rest) > 0; {
			var b batch.Batch
			b, rest, err = batch.Next(rest)
			must(t, err)
			from = b.NextOffset()
		}
	}
}

// values are the values of all records from an offset on.
func values(t testing.TB, p *Partition, from kafka.Offset) []string {
	t.Helper()
	var out []string
	for rest := bytesFrom(t, p, from); len(rest) > 0; {
		b, more, err := batch.Next(rest)
		must(t, err)
		if !b.Valid() {
			t.Fatalf("batch at %d has a wrong checksum", b.BaseOffset())
		}
		must(t, b.EachRecord(func(rec *batch.Record) error { out = append(out, string(rec.Value)); return nil }))
		rest = more
	}
	return out
}

func wantValues(t testing.TB, p *Partition, from kafka.Offset, want ...string) {
	t.Helper()
	if got := values(t, p, from); !slices.Equal(got, want) {
		t.Fatalf("read %q, want %q", got, want)
	}
}

func wantCode(t testing.TB, a Appended, want kafka.ErrorCode) {
	t.Helper()
	if a.Code != want {
		t.Fatalf("append answers %s %q, want %s", a.Code, a.Message, want)
	}
}
