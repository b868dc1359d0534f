package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// flip inverts one byte of a file.
func flip(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.Open(name, vfs.ReadWrite)
	must(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	must(t, err)
	b[0] ^= 0xff
	_, err = f.WriteAt(b[:], at)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

// folders lists the folders of a directory that have a kind.
func (r *rig) folders(dir string, kind logdir.Kind) []string {
	r.t.Helper()
	list, err := logdir.List(r.mem, dir)
	must(r.t, err)
	var out []string
	for _, f := range list {
		if f.Kind == kind {
			out = append(out, f.Name)
		}
	}
	return out
}

// HC-122: damage below the recovery point takes that partition offline, with
// file and position in the log; the others serve. Fails if open treats a
// CorruptError as any other error, or if recovery cuts there.
func TestHC122CorruptMiddle(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0, 0}, "flush.messages=1")
	for n := range kafka.PartitionID(2) {
		for _, v := range []string{"a", "b", "c"} {
			r.append(r.part(id, n), one(v))
		}
	}
	r.pass(61 * time.Second) // the recovery point goes to its file
	flip(t, r.mem, "/a/t-0/00000000000000000000.log", 80)
	r.reopen()
	wantCode(t, r.part(id, 0).Append(one("d"), true, testStart), kafka.ErrKafkaStorageError)
	if res := r.part(id, 0).Read(ReadRequest{LeaderEpoch: kafka.NoEpoch, MaxBytes: 100}); res.Code != kafka.ErrKafkaStorageError {
		t.Fatalf("read of a corrupt log: %s", res.Code)
	}
	wantValues(t, r.part(id, 1), 0, "a", "b", "c")
	r.append(r.part(id, 1), one("d"))
	for _, want := range []string{"t-0/00000000000000000000.log", "byte"} {
		if !strings.Contains(r.log.String(), want) {
			t.Fatalf("the log does not tell %q:\n%s", want, r.log.String())
		}
	}
	if r.fatal.Load() != 0 {
		t.Fatal("fatal")
	}
}

// A torn tail is cut and reported, and what precedes it serves. Fails if open
// does not log the cuts.
func TestTornTailIsCutAndReported(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0})
	r.append(r.part(id, 0), one("a"))
	r.append(r.part(id, 0), one("b"))
	flip(t, r.mem, "/a/t-0/00000000000000000000.log", 69+65)
	r.reopen()
	wantValues(t, r.part(id, 0), 0, "a")
	if !strings.Contains(r.log.String(), "torn tail") {
		t.Fatalf("nothing reported:\n%s", r.log.String())
	}
	if o := r.append(r.part(id, 0), one("c")); o != 1 {
		t.Fatalf("next offset %d", o)
	}
}

// HC-123 and strays: a log without topic id, with an unknown one, or whose
// replica is elsewhere is put aside, and the partition begins anew. Fails if
// scan takes a log without asking placed.
func TestHC123StrayLogs(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0, 0, 0}, "flush.messages=1")
	for n := range kafka.PartitionID(3) {
		r.append(r.part(id, n), one("old"))
	}
	r.abandon()
	must(t, r.mem.Remove("/a/t-0/partition.metadata"))
	must(t, logdir.WritePartitionMetadata(r.mem, "/a/t-1", kafka.TopicID{3: 3}))
	must(t, r.mem.MkdirAll("/a/gone-5"))
	r.mustOpen()
	if got := r.folders("/a", logdir.Stray); len(got) != 3 {
		t.Fatalf("put aside: %v", got)
	}
	wantValues(t, r.part(id, 0), 0)
	wantValues(t, r.part(id, 1), 0)
	wantValues(t, r.part(id, 2), 0, "old")
	r.append(r.part(id, 0), one("new"))
	r.reopen()
	wantValues(t, r.part(id, 0), 0, "new")
	if got := r.folders("/a", logdir.Stray); len(got) != 3 {
		t.Fatalf("strays are kept: %v", got)
	}
}

// Fails if scan skips folders that it does not know.
func TestForeignFolderRefuses(t *testing.T) {
	r := newRig(t)
	must(t, r.mem.MkdirAll("/a/photos"))
	if err := r.open(); err == nil || !strings.Contains(err.Error(), "photos") {
		t.Fatalf("%v", err)
	}
}

// Fails if scan does not look for a log's twin: one of them would be served
// and the other lost.
func TestTheSameLogInTwoDirectoriesRefuses(t *testing.T) {
	r := newRig(t, "/a", "/b").mustOpen()
	id := r.topic("t", []int{0})
	r.append(r.part(id, 0), one("v"))
	r.abandon()
	must(t, r.mem.MkdirAll("/b/t-0"))
	must(t, logdir.WritePartitionMetadata(r.mem, "/b/t-0", id))
	if err := r.open(); err == nil || !strings.Contains(err.Error(), "/a/t-0") || !strings.Contains(err.Error(), "/b/t-0") {
		t.Fatalf("%v", err)
	}
}

// Folders of an interrupted deletion go after the wait. Fails without the
// Deleted case of scan.
func TestDeleteLeftoversGo(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0})
	r.append(r.part(id, 0), one("v"))
	r.apply(&record.RemoveTopic{TopicID: id})
	r.reopen()
	if got := r.folders("/a", logdir.Deleted); len(got) != 1 {
		t.Fatalf("after the restart: %v", got)
	}
	r.pass(59 * time.Second)
	if got := r.folders("/a", logdir.Deleted); len(got) != 1 {
		t.Fatalf("too early: %v", got)
	}
	r.pass(2 * time.Second)
	if got := r.folders("/a", logdir.Deleted); len(got) != 0 {
		t.Fatalf("still there: %v", got)
	}
}

// HC-121, HC-169: delete and create the same name at once. The new topic is
// empty, takes sequence 0 of a producer that the old one knew, and is not
// touched when the old one's folder goes. Fails if discard leaves the folder's
// name for later.
func TestHC121HC169DeleteAndCreateAgain(t *testing.T) {
	r := newRig(t).mustOpen()
	for round := range 5 {
		id := r.topic("t", []int{0})
		p := r.part(id, 0)
		wantValues(t, p, 0)
		r.append(p, idempotent(4, 0, 0, fmt.Sprint(round)))
		if round == 4 {
			break
		}
		r.pass(20 * time.Second)
		r.apply(&record.RemoveTopic{TopicID: id})
		wantCode(t, p.Append(one("late"), true, testStart), kafka.ErrNotLeaderForPartition)
		if res := p.Read(ReadRequest{LeaderEpoch: kafka.NoEpoch, MaxBytes: 100}); res.Code != kafka.ErrNotLeaderForPartition {
			t.Fatalf("read of a deleted partition: %s", res.Code)
		}
	}
	r.pass(3 * time.Minute)
	id := kafka.TopicID{0: 7, 15: r.ids}
	wantValues(t, r.part(id, 0), 0, "4")
	r.reopen()
	wantValues(t, r.part(id, 0), 0, "4")
	if got := r.folders("/a", logdir.Deleted); len(got) != 0 {
		t.Fatalf("left behind: %v", got)
	}
}

// HC-121: what the checkpoints said of a deleted topic must not hold for a new
// one of the same name. Its recovery point would turn the torn tail of a young
// log into damage, and its log start would drop all its records. Fails if
// create does not have stale checkpoints written anew.
func TestHC121CheckpointsOfADeletedTopic(t *testing.T) {
	for _, restart := range []bool{false, true} {
		checkpointsOfADeletedTopic(t, restart)
	}
}

// With restart the process dies between the deletion and the new topic. Fails
// without discardUnknown.
func checkpointsOfADeletedTopic(t *testing.T, restart bool) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0}, "flush.messages=1")
	for range 50 {
		r.append(r.part(id, 0), one("old"))
	}
	r.part(id, 0).mu.Lock()
	must(t, r.part(id, 0).log.Load().AdvanceStart(30))
	r.part(id, 0).dir.startMoved.Store(true)
	r.part(id, 0).mu.Unlock()
	r.pass(61 * time.Second)
	r.apply(&record.RemoveTopic{TopicID: id})
	if restart {
		r.reopen()
	}
	id = r.topic("t", []int{0})
	r.append(r.part(id, 0), one("a"))
	r.append(r.part(id, 0), one("b"))
	flip(t, r.mem, "/a/t-0/00000000000000000000.log", 69+65) // never flushed: torn by a power loss
	r.reopen()
	wantValues(t, r.part(id, 0), 0, "a")
	r.append(r.part(id, 0), one("c"))
}

// HC-119: the mark of a clean stop is gone before logs are opened, and comes
// back only after a clean stop. Fails if Close writes it whatever happened, or
// TakeCleanShutdown leaves it.
func TestHC119MarkerDiscipline(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0, 0, 0, 0})
	r.append(r.part(id, 2), one("a"))
	must(t, r.s.Close())
	r.mustOpen()
	if !slices.Equal(r.clean, []bool{true}) {
		t.Fatalf("after a clean stop: %v", r.clean)
	}
	must(t, r.s.Close())
	for nth := 1; nth < 60; nth += 3 { // the process dies while it loads
		r.fs.Fail(vfs.Rule{Kinds: vfs.OpAny, Nth: nth, Times: -1, Err: errors.New("dead")})
		if err := r.open(); err == nil {
			r.abandon()
		}
		r.fs.Heal()
		r.mem.CrashProcess()
		r.mustOpen()
		if r.clean[0] && nth > 4 {
			t.Fatalf("operation %d: the mark has outlived a crash", nth)
		}
		wantValues(t, r.part(id, 2), 0, "a")
		must(t, r.s.Close())
	}
	r.mustOpen()
	r.append(r.part(id, 1), one("b"))
	r.fs.Fail(vfs.Rule{Kinds: vfs.OpSync, Err: unix.EIO})
	_ = r.s.Close()
	r.fs.Heal()
	r.mustOpen()
	if r.clean[0] {
		t.Fatal("the mark of a clean stop in spite of a failed fsync")
	}
}

// Process death at any time loses nothing that was acknowledged. Fails if
// Append answers before the batch is in the page cache.
func TestProcessDeathLosesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0, 0}, "segment.bytes=400", "index.interval.bytes=100")
	want := make([][]string, 2)
	for range 30 {
		for range rnd.IntN(20) {
			n := kafka.PartitionID(rnd.IntN(2))
			v := fmt.Sprint(rnd.Uint64())
			r.append(r.part(id, n), one(v))
			want[n] = append(want[n], v)
		}
		if rnd.IntN(3) == 0 {
			r.pass(30 * time.Second)
		}
		r.reopen()
		for n := range kafka.PartitionID(2) {
			wantValues(t, r.part(id, n), 0, want[n]...)
		}
	}
}

// With flush.messages=1 a power loss at any moment loses nothing that was
// acknowledged; other partitions lose at most a suffix. Appends run on several
// goroutines and the power fails at a random operation. Fails if Append does
// not wait for flushTo, or if flushTo leaves out partition.metadata.
func TestPowerLossWithFlushMessages(t *testing.T) {
	for seed := range uint64(150) {
		powerLoss(t, seed)
	}
}

var errPower = errors.New("power is off")

func powerLoss(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 99))
	r := newRig(t)
	must(t, r.fs.SyncDir("/"))
	r.mustOpen()
	safe := r.topic("safe", []int{0, 0}, "flush.messages=1", "segment.bytes=600", "index.interval.bytes=100")
	loose := r.topic("loose", []int{0}, "segment.bytes=600")
	var mu sync.Mutex
	left, off := 50+rnd.IntN(400), false
	r.fs.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind&vfs.OpMutate != 0 {
			left--
		}
		off = off || left <= 0
		if off {
			return errPower
		}
		return nil
	})
	acked, sent := make([][]string, 3), make([][]string, 3)
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			p := r.s.Partition(safe, kafka.PartitionID(w%2))
			if w == 2 {
				p = r.s.Partition(loose, 0)
			}
			for i := range 100 {
				v := fmt.Sprintf("%d-%d", w, i)
				sent[w] = append(sent[w], v)
				if p.Append(one(v), true, testStart).Code != 0 {
					return
				}
				acked[w] = append(acked[w], v)
				if i%10 == 9 {
					r.s.checkpointRecovery()
				}
			}
		}()
	}
	wg.Wait()
	syncs := r.mem.Syncs().Files
	r.abandon()
	r.mem.CrashPower(rnd)
	r.fs.SetHook(nil)
	r.mustOpen()
	if n := len(acked[0]) + len(acked[1]); n > 0 && syncs == 0 {
		t.Fatalf("seed %d: %d batches acknowledged without an fsync", seed, n)
	}
	for w := range 3 {
		p := r.s.Partition(safe, kafka.PartitionID(w%2))
		if w == 2 {
			p = r.s.Partition(loose, 0)
		}
		if p.broken != nil {
			t.Fatalf("seed %d: partition %d is offline: %v", seed, w, p.broken)
		}
		got := values(t, p, 0)
		if w < 2 && (len(got) < len(acked[w]) || !slices.Equal(got[:len(acked[w])], acked[w])) {
			t.Fatalf("seed %d: acknowledged %v, left %v\n%s", seed, acked[w], got, r.log.String())
		}
		if len(got) > len(sent[w]) || !slices.Equal(got, sent[w][:len(got)]) {
			t.Fatalf("seed %d: %v is no prefix of what was sent", seed, got)
		}
	}
}

// Checkpoint files by the keeper. Fails without the chores of that name.
func TestCheckpointsAreWritten(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0}, "flush.messages=1")
	r.append(r.part(id, 0), one("a"))
	tp := kafka.TopicPartition{Topic: "t"}
	read := func(name string) (kafka.Offset, bool) {
		c, err := logdir.ReadCheckpoint(r.mem, "/a", name)
		must(t, err)
		o, ok := c.Map()[tp]
		return o, ok
	}
	r.pass(6 * time.Second)
	if o, _ := read(highFile); o != 1 {
		t.Fatalf("high watermark %d after 6 s", o)
	}
	if _, ok := read(recoveryFile); ok {
		t.Fatal("recovery point too early")
	}
	r.pass(60 * time.Second)
	if o, _ := read(recoveryFile); o != 1 {
		t.Fatalf("recovery point %d after 66 s", o)
	}
	r.apply(&record.RemoveTopic{TopicID: id})
	r.pass(61 * time.Second)
	for _, name := range []string{highFile, recoveryFile} {
		if _, ok := read(name); ok {
			t.Fatalf("%s still has a deleted partition", name)
		}
	}
}

// Retention by size and by time through the keeper. Fails without retainAll,
// or without removeDue.
func TestRetention(t *testing.T) {
	r := newRig(t).mustOpen()
	bySize := r.part(r.topic("size", []int{0}, "segment.bytes=100", "retention.bytes=250", "file.delete.delay.ms=10000"), 0)
	byTime := r.part(r.topic("time", []int{0}, "segment.bytes=100", "retention.ms=3600000"), 0)
	for range 6 {
		r.append(bySize, batchOf(r.now().Wall, "0123456789"))
		r.append(byTime, batchOf(r.now().Wall, "0123456789"))
	}
	r.pass(31 * time.Second)
	if s := bySize.log.Load().StartOffset(); s == 0 || s == 6 {
		t.Fatalf("retention.bytes left the start at %d", s)
	}
	start := bySize.log.Load().StartOffset()
	if res := bySize.Read(ReadRequest{Offset: start - 1, LeaderEpoch: kafka.NoEpoch, MaxBytes: 100}); res.Code != kafka.ErrOffsetOutOfRange {
		t.Fatalf("read below the start: %s", res.Code)
	}
	if byTime.log.Load().StartOffset() != 0 {
		t.Fatal("retention.ms gave up young records")
	}
	if n := r.files("/a/size-0", ".deleted"); n == 0 {
		t.Fatal("no file is marked deleted")
	}
	r.pass(11 * time.Second)
	if n := r.files("/a/size-0", ".deleted"); n != 0 {
		t.Fatalf("%d deleted files are left after file.delete.delay.ms", n)
	}
	r.pass(2 * time.Hour)
	if s, end := byTime.log.Load().StartOffset(), byTime.HighWatermark(); s != 6 || end != 6 {
		t.Fatalf("retention.ms left %d to %d", s, end)
	}
	if o := r.append(byTime, batchOf(r.now().Wall, "new")); o != 6 {
		t.Fatalf("offsets began anew at %d", o)
	}
	r.reopen()
}

// Trap 15: a jump of the wall clock deletes what retention.ms says by that
// clock and nothing fails; the monotonic clock alone drives the chores.
func TestTrap15WallClockSteps(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "retention.ms=604800000"), 0)
	r.append(p, one("a"))
	for _, step := range []time.Duration{-24 * time.Hour, 48 * time.Hour, -24 * time.Hour} {
		r.wall.Add(step.Milliseconds())
		r.pass(2 * time.Minute)
		wantValues(t, p, 0, "a")
	}
}

func (r *rig) files(dir, suffix string) int {
	r.t.Helper()
	list, err := r.mem.ReadDir(dir)
	must(r.t, err)
	n := 0
	for _, e := range list {
		if strings.HasSuffix(e.Name, suffix) {
			n++
		}
	}
	return n
}

// A stray log that cannot be put aside must not be opened as the new topic's.
// Fails if stray only logs the error.
func TestStrayThatCannotBeRenamedTakesTheDirectoryOffline(t *testing.T) {
	r := newRig(t, "/a", "/b").mustOpen()
	must(t, r.mem.MkdirAll("/a/t-0"))
	must(t, logdir.WritePartitionMetadata(r.mem, "/a/t-0", kafka.TopicID{9: 9}))
	r.abandon()
	r.fs.Fail(vfs.Rule{Kinds: vfs.OpRename, Match: "t-0", Err: unix.EIO})
	r.mustOpen()
	r.fs.Heal()
	if infos := r.s.Describe(); !infos[0].Offline || infos[1].Offline {
		t.Fatalf("%+v", infos)
	}
}
