package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

// A quorum of one is a real quorum: while the fsync does not complete, nothing
// is committed and CreateTopics has no answer. Fails if raft's position gives
// log.end for the leader, or if hold releases at once.
func TestHC001WithheldFsyncHoldsTheReply(t *testing.T) {
	fault := vfs.NewFault(formatted(t))
	q := start(t, options(t, fault))
	q.register()
	gate, entered := make(chan struct{}), make(chan struct{}, 10)
	fault.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") {
			entered <- struct{}{}
			<-gate
		}
		return nil
	})
	answer := q.submit(createTopic("a"))
	q.await(func() <-chan struct{} { // the flush has begun
		c := make(chan struct{})
		go func() { <-entered; close(c) }()
		return c
	}())
	again := q.submit(createTopic("a")) // Trap 1: rests on a record that is not committed
	before := q.Describe()              // the loop is alive, and has seen both
	select {
	case o := <-answer:
		t.Fatalf("answered before the fsync: %+v", o)
	case o := <-again:
		t.Fatalf("an answer read from the tip: %+v", o)
	default:
	}
	if q.Image().TopicByName("a").Exists() || before.HighWatermark >= before.EndOffset {
		t.Fatalf("visible before the fsync: %+v", before)
	}
	close(gate)
	if err := topicError(<-answer); err != nil {
		t.Fatal(err)
	}
	if !q.Image().TopicByName("a").Exists() {
		t.Error("answered before the image was published")
	}
	if err := topicError(<-again); err == nil || err.Error() != "TOPIC_ALREADY_EXISTS" {
		t.Errorf("second creation: %v", err)
	}
	q.stopNow()
}

// All that is appended while one fsync runs shares the next. Fails if the
// loop waits for each flush before it takes the next request.
func TestGroupCommit(t *testing.T) {
	mem := formatted(t)
	fault := vfs.NewFault(mem)
	q := start(t, options(t, fault))
	q.register()
	gate, entered := make(chan struct{}), make(chan struct{}, 100)
	fault.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") {
			entered <- struct{}{}
			<-gate
		}
		return nil
	})
	var answers []<-chan outcome
	for i := range 50 {
		answers = append(answers, q.submit(createTopic(fmt.Sprint("t", i))))
	}
	q.Describe() // all fifty are appended
	close(gate)
	for _, a := range answers {
		if err := topicError(<-a); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(entered); n > 3 {
		t.Errorf("%d fsyncs for 50 requests that came during the first", n)
	}
	q.stopNow()
}

// Fails if flushed does not call fail, or end does not call Fatal.
func TestHC007FailedFsyncIsFatal(t *testing.T) {
	errDisk := errors.New("EIO")
	fault := vfs.NewFault(formatted(t))
	q := start(t, options(t, fault))
	q.register()
	fault.Fail(vfs.Rule{Kinds: vfs.OpSync, Match: "*.log", Err: errDisk})
	o := <-q.submit(createTopic("a"))
	if !errors.Is(o.err, ErrStopped) {
		t.Errorf("answer after a failed fsync: %+v", o)
	}
	if err := <-q.fatal; !errors.Is(err, errDisk) {
		t.Errorf("fatal: %v", err)
	}
	if o := <-q.submit(createTopic("b")); !errors.Is(o.err, ErrStopped) {
		t.Errorf("a request after the end: %+v", o)
	}
}

// What was acknowledged survives; fails under the process model if nothing is
// written before the reply, under the power model if nothing is synced.
func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	for _, power := range []bool{false, true} {
		mem := formatted(t)
		rnd := rand.New(rand.NewPCG(7, 7))
		acked := map[string]bool{}
		for life := range 12 {
			opts := options(t, mem)
			opts.Log.SegmentBytes = 4096
			opts.Snapshots.MaxBytes = 2000
			q := start(t, opts)
			if life == 0 {
				q.register()
			}
			for name := range acked {
				if !q.Image().TopicByName(name).Exists() {
					t.Fatalf("power=%t life %d: topic %s is lost", power, life, name)
				}
			}
			if d := q.Describe(); d.Epoch != kafka.Epoch(life+1) {
				t.Fatalf("life %d: epoch %d (HC-004)", life, d.Epoch)
			}
			var open []<-chan outcome
			for i := range 20 {
				name := fmt.Sprintf("t%d-%d", life, i)
				a := q.submit(createTopic(name))
				if i < 10+rnd.IntN(5) {
					if err := topicError(<-a); err != nil {
						t.Fatal(err)
					}
					acked[name] = true
				} else {
					open = append(open, a)
				}
			}
			if power {
				mem.CrashPower(rnd)
			} else {
				mem.CrashProcess()
			}
			// The dead process's loop meets closed files and ends.
			<-q.submit(createTopic("last"))
			for _, a := range open {
				<-a
			}
		}
	}
}

// Fails if load or decodeQuorumState falls back to an empty state.
func TestHC006QuorumStateThatCannotBeRead(t *testing.T) {
	for _, text := range []string{
		"", "{", "null", `{"leaderId":1}`, `{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":99}`,
		`{"leaderId":1,"leaderEpoch":-4,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`,
		`{"leaderId":1,"leaderEpoch":4,"votedId":-1,"data_version":1}`,
	} {
		mem := formatted(t)
		write(t, mem, "data/"+Folder+"/quorum-state", []byte(text))
		if _, err := Open(options(t, mem)); !errors.Is(err, ErrQuorumState) {
			t.Errorf("quorum-state %q: %v", text, err)
		}
	}
}

func FuzzQuorumState(f *testing.F) {
	f.Add(readFile(f, "single/quorum-state"))
	f.Add(readFile(f, "quorum-state-v0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeQuorumState(data)
		if err != nil {
			return
		}
		if again, err := decodeQuorumState(encodeQuorumState(s, 1, raft.VoterSet{})); err != nil || again != s {
			t.Errorf("%+v came back as %+v, %v", s, again, err)
		}
	})
}

func FuzzParseBatches(f *testing.F) {
	f.Add(readFile(f, "first-segment.log"))
	f.Add(readFile(f, "formatted.checkpoint"))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = parseBatches(data) })
}

// Fails if encodeQuorumState chooses the version otherwise.
func TestTrap17QuorumStateIsKafkas(t *testing.T) {
	for name, kraft := range map[string]int16{"single/quorum-state": 1, "quorum-state-v0": 0} {
		want := readFile(t, name)
		s, err := decodeQuorumState(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := encodeQuorumState(s, kraft, raft.VoterSet{}); !bytes.Equal(got, want) {
			t.Errorf("%s: we write %s, Kafka %s", name, got, want)
		}
	}
}

// records lists keys and values of all batches, with the batch limits, and
// times blanked.
func records(t *testing.T, data []byte) (list []string) {
	for len(data) > 0 {
		b, rest, err := batch.Next(data)
		if err != nil || !b.Valid() {
			t.Fatalf("batch: %v", err)
		}
		list = append(list, fmt.Sprintf("batch %d-%d epoch %d control %t attributes %d producer %d", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), b.Control(), b.Attributes(), b.ProducerID()))
		err = b.EachRecord(func(r *batch.Record) error {
			v := r.Value
			if b.Control() && len(v) == 11 { // SnapshotHeader: version, timestamp, tags
				v = append(append(bytes.Clone(v[:2]), make([]byte, 8)...), v[10:]...)
			}
			list = append(list, fmt.Sprintf("%x = %x", r.Key, v))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		data = rest
	}
	return list
}

func TestFormatIsKafkas(t *testing.T) {
	one, _ := raft.NewVoterSet(self(t))
	for _, c := range []struct {
		golden string
		kraft  int16
		voters raft.VoterSet
	}{{"formatted.checkpoint", 1, one}, {"formatted-none.checkpoint", 1, raft.VoterSet{}}, {"formatted-static.checkpoint", 0, raft.VoterSet{}}} {
		mem := newDisk(t)
		o := FormatOptions{FS: mem, Dir: "data", KRaft: c.kraft, Voters: c.voters, Records: features(), Now: 1000}
		if err := Format(o); err != nil {
			t.Fatal(err)
		}
		got, err := vfs.ReadFile(mem, "data/"+Folder+"/00000000000000000000-0000000000.checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		want := records(t, readFile(t, c.golden))
		if g := records(t, got); fmt.Sprint(g) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %q\nwant %q", c.golden, g, want)
		}
		if err := Format(o); !errors.Is(err, ErrFormatted) {
			t.Errorf("second format: %v", err)
		}
	}
}

// The first leader writes LeaderChange, KRaftVersion and Voters in one batch,
// then the bootstrap records in one. Fails if leaderChange leaves out NewVoters.
func TestTrap5FirstSegmentIsKafkas(t *testing.T) {
	mem := formatted(t)
	q := start(t, options(t, mem))
	q.stopNow()
	got, err := vfs.ReadFile(mem, "data/"+Folder+"/00000000000000000000.log")
	if err != nil {
		t.Fatal(err)
	}
	g, want := records(t, got), records(t, readFile(t, "first-segment.log"))
	for i := range g {
		if g[i] != want[i] {
			t.Errorf("line %d: %s, Kafka has %s", i, g[i], want[i])
		}
	}
	if len(g) != 4+10 {
		t.Errorf("%d lines", len(g))
	}
	text, err := vfs.ReadFile(mem, "data/"+Folder+"/partition.metadata")
	if err != nil || strings.TrimSpace(string(text)) != strings.TrimSpace(string(readFile(t, "single/partition.metadata"))) {
		t.Errorf("partition.metadata: %q, %v", text, err)
	}
}

// A folder that Apache Kafka left opens, elects, and goes on.
func TestOpensKafkasFolder(t *testing.T) {
	mem := newDisk(t)
	load(t, mem, "single", "data/"+Folder)
	opts := options(t, mem)
	opts.Controller.Bootstrap = features()
	q := start(t, opts)
	for _, topic := range []string{"codecs", "transactions", "grows", "shared"} {
		if !q.Image().TopicByName(topic).Exists() {
			t.Errorf("topic %s is missing", topic)
		}
	}
	if d := q.Describe(); d.Epoch != 2 || d.Leader != 1 {
		t.Errorf("%+v", d)
	}
	q.stopNow()
}

// A directory that an older Kafka formatted: bootstrap.checkpoint beside the
// folder, voters from the configuration, kraft.version 0. Fails if
// ReadBootstrap knows only the 0-0 checkpoint, or if quorum-state ignores
// kraft.version (Trap 17).
func TestOldFolderWithBootstrapCheckpoint(t *testing.T) {
	mem := newDisk(t)
	write(t, mem, "data/bootstrap.checkpoint", readFile(t, "formatted-static.checkpoint"))
	opts := options(t, mem)
	opts.Static, _ = raft.NewVoterSet(raft.Voter{Key: raft.ReplicaKey{ID: 1}})
	q := start(t, opts)
	if v := q.Image().Version(); v != 33 {
		t.Errorf("metadata.version %d", v)
	}
	q.stopNow()
	state, err := vfs.ReadFile(mem, "data/"+Folder+"/quorum-state")
	want := `{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}`
	if err != nil || string(state) != want {
		t.Errorf("quorum-state %s, %v", state, err)
	}
	log, err := vfs.ReadFile(mem, "data/"+Folder+"/00000000000000000000.log")
	if err != nil {
		t.Fatal(err)
	}
	if r := records(t, log); !strings.HasPrefix(r[0], "batch 0-0 epoch 1 control true") {
		t.Errorf("first batch under kraft.version 0: %s", r[0])
	}
}

// Fails if FetchSnapshot-less joining forgets to reset the log (HC-039): a log
// that ends before the newest snapshot is dropped and begins at the snapshot.
func TestHC039OldLogGivesWayToTheSnapshot(t *testing.T) {
	mem := formatted(t)
	opts := busy(t, mem, -1)
	q := open(t, opts)
	snapshot := q.Image().Provenance()
	if err := q.replica.store.log.TruncateTo(20); err != nil { // as if the tail had been lost
		t.Fatal(err)
	}
	if err := q.replica.store.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		q = start(t, opts)
		if first := q.replica.store.StartOffset(); first != snapshot.EndOffset {
			t.Fatalf("the log starts at %d, the snapshot ends at %d", first, snapshot.EndOffset)
		}
		if !q.Image().TopicByName("t0").Exists() {
			t.Error("state of the snapshot is missing")
		}
		q.stopNow()
	}
}
