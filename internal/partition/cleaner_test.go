package partition

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/seglog"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
	"moldau/internal/wire"
)

func keyedBatch(key, value string) batch.Batch {
	bl := batch.NewBuilder(nil, 0, 0)
	var v []byte
	if value != "" {
		v = []byte(value)
	}
	bl.Add(testStart, []byte(key), v)
	return bl.Finish()
}

// fill appends n values over few keys and makes them durable.
func (r *rig) fill(p *Partition, n int) {
	r.t.Helper()
	for i := range n {
		r.append(p, keyedBatch(fmt.Sprint("k", i%4), fmt.Sprint("v", i)))
	}
	must(r.t, p.flushTo(p.log.Load().EndOffset()))
}

// compacted makes a compacted topic with small segments.
func (r *rig) compacted(name string, settings ...string) *Partition {
	r.t.Helper()
	return r.part(r.topic(name, []int{0}, append([]string{"cleanup.policy=compact", "segment.bytes=1000"}, settings...)...), 0)
}

func (r *rig) brokerConfig(key, value string) {
	r.t.Helper()
	r.apply(&record.Config{ResourceType: 4, ResourceName: "", Name: key, Value: &value})
}

func checkpointOf(t testing.TB, fsys vfs.FS, dir, name string) map[kafka.TopicPartition]kafka.Offset {
	t.Helper()
	c, err := logdir.ReadCheckpoint(fsys, dir, name)
	must(t, err)
	return c.Map()
}

// The log that is dirtiest goes first, an overdue one before it, and one below
// its ratio never; cleaner-offset-checkpoint says how far, also to the next start.
func TestCleanerTakesTheFilthiest(t *testing.T) {
	r := newRig(t).mustOpen()
	clean, half, all := r.compacted("clean"), r.compacted("half", "min.cleanable.dirty.ratio=0.1"), r.compacted("all")
	plain := r.part(r.topic("plain", []int{0}, "segment.bytes=1000"), 0)
	r.fill(clean, 60)
	if !r.s.cleaner.cleanOne() || clean.log.Load().CleanedTo() == 0 {
		t.Fatal("not cleaned")
	}
	r.fill(clean, 3)
	r.fill(half, 60)
	if !r.s.cleaner.cleanOne() || half.log.Load().CleanedTo() == 0 {
		t.Fatal("not cleaned")
	}
	once := half.log.Load().CleanedTo()
	r.fill(half, 20)
	r.fill(all, 60)
	r.fill(plain, 60)
	var order []string
	for r.s.cleaner.cleanOne() {
		switch {
		case len(order) == 0 && all.log.Load().CleanedTo() > 0:
			order = append(order, "all")
		case half.log.Load().CleanedTo() > once:
			order = append(order, "half")
		default:
			t.Fatal("something else was cleaned")
		}
	}
	if !slices.Equal(order, []string{"all", "half"}) {
		t.Fatalf("cleaned %v", order)
	}
	want := map[kafka.TopicPartition]kafka.Offset{
		clean.tp: clean.log.Load().CleanedTo(), half.tp: half.log.Load().CleanedTo(), all.tp: all.log.Load().CleanedTo(),
	}
	got := checkpointOf(t, r.fs, "/a", cleanerFile)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("checkpoint %v, want %v", got, want)
	}
	id := all.topic
	must(t, r.s.Close())
	r.mustOpen()
	if again := r.part(id, 0).log.Load().CleanedTo(); again != want[all.tp] {
		t.Fatalf("cleaned to %d after a restart, was %d", again, want[all.tp])
	}
	if r.s.cleaner.cleanOne() {
		t.Fatal("cleaned again after a restart")
	}
	r.wall.Add(10_000)
	p := r.part(id, 0)
	r.fill(p, 3)
	v := "5000"
	r.apply(&record.Config{ResourceType: 2, ResourceName: "all", Name: "max.compaction.lag.ms", Value: &v})
	r.fill(p, 30) // rolls: max.compaction.lag.ms bounds segment.ms
	if !r.s.cleaner.cleanOne() || p.log.Load().CleanedTo() == want[all.tp] {
		t.Fatal("an overdue log is not cleaned")
	}
}

// Consumers read the last value of each key, at its offset.
func TestCompactedTopicReadsByKey(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("c")
	r.fill(p, 60)
	base := p.base
	for r.s.cleaner.cleanOne() {
	}
	got := values(t, p, 0)
	want := []string{fmt.Sprint("v", base-4), fmt.Sprint("v", base-3), fmt.Sprint("v", base-2), fmt.Sprint("v", base-1)}
	for o := base; o < 60; o++ {
		want = append(want, fmt.Sprint("v", o))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("read %v, want %v", got, want)
	}
	r.pass(2 * time.Minute) // the old files go
	list, err := r.fs.ReadDir("/a/c-0")
	must(t, err)
	for _, e := range list {
		if strings.HasSuffix(e.Name, ".deleted") {
			t.Errorf("%s is still there", e.Name)
		}
	}
}

// compact,delete: both work on the same log; without Retain skipping a log under
// the cleaner the pass would fail with ErrChanged.
func TestCompactAndDelete(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("both", "cleanup.policy=compact,delete", "retention.ms=100000", "file.delete.delay.ms=0")
	r.fill(p, 60)
	task := r.s.cleaner.choose(r.now().Wall)
	if task == nil {
		t.Fatal("nothing to clean")
	}
	r.wall.Add(200_000)
	r.s.retainAll(r.now())
	if p.log.Load().StartOffset() != 0 {
		t.Fatal("retention went on beside the cleaner")
	}
	must(t, r.s.cleaner.clean(task))
	p.cleaning = nil
	r.s.retainAll(r.now())
	if start, end := p.log.Load().StartOffset(), p.log.Load().EndOffset(); start != end {
		t.Fatalf("retention left %d to %d", start, end)
	}
	r.fill(p, 60)
	if !r.s.cleaner.cleanOne() {
		t.Fatal("not cleaned after retention")
	}
}

// HC-128: one log that cannot be cleaned is set aside, said once, and the others
// are cleaned; a change of settings tries it again. Without setAside cleanOne
// would take the bad one for ever.
func TestHC128BadLogIsSetAside(t *testing.T) {
	r := newRig(t).mustOpen()
	bad, good := r.compacted("bad"), r.compacted("good", "min.cleanable.dirty.ratio=0.1")
	r.fill(bad, 60)
	r.fill(good, 30)
	f, err := r.fs.Open("/a/bad-0/00000000000000000000.log", vfs.ReadWrite)
	must(t, err)
	_, err = f.WriteAt([]byte("?"), 70)
	must(t, err)
	must(t, f.Close())
	for range 3 {
		r.s.cleaner.cleanOne()
	}
	if good.log.Load().CleanedTo() == 0 || bad.log.Load().CleanedTo() != 0 {
		t.Fatal("the good log was not cleaned, or the bad one was")
	}
	if n := strings.Count(r.log.String(), "set aside"); n != 1 {
		t.Fatalf("said %d times:\n%s", n, r.log.String())
	}
	r.brokerConfig("log.cleaner.dedupe.buffer.size", "1000000")
	r.s.cleaner.cleanOne()
	if n := strings.Count(r.log.String(), "set aside"); n != 2 {
		t.Fatalf("not tried again:\n%s", r.log.String())
	}
}

// A full disk ends a pass and nothing else, at whichever of its operations; with
// room again the log is cleaned.
func TestFullDiskUnderTheCleaner(t *testing.T) {
	for n := 0; ; n++ {
		r := newRig(t).mustOpen()
		p := r.compacted("c")
		r.fill(p, 60)
		left := n
		r.fs.SetHook(func(op vfs.Op) error {
			if op.Kind&(vfs.OpMutate&^vfs.OpOpen) == 0 && !(op.Kind == vfs.OpOpen && strings.HasSuffix(op.Name, ".cleaned")) || strings.Contains(op.Name, "checkpoint") {
				return nil
			}
			if left--; left < 0 {
				return syscall.ENOSPC
			}
			return nil
		})
		cleaned := r.s.cleaner.cleanOne()
		if p.dir.failed.Load() || p.uncleanable {
			t.Fatalf("operation %d: offline %v:\n%s", n, p.dir.failed.Load(), r.log.String())
		}
		if cleaned {
			if n < 10 {
				t.Fatalf("a pass of %d operations", n)
			}
			return
		}
		if got := values(t, p, 0); got[len(got)-1] != "v59" || !strings.Contains(r.log.String(), "disk is full") {
			t.Fatalf("operation %d: read %v\n%s", n, got, r.log.String())
		}
		r.fs.SetHook(nil)
		r.s.cleaner.cleanOne()
		if p.log.Load().CleanedTo() == 0 {
			t.Fatalf("operation %d: not cleaned with room again\n%s", n, r.log.String())
		}
	}
}

// Deleting a topic under the cleaner waits for the pass to let go of the folder,
// which ends soon however slow its pace; a new topic of the name starts clean
// (HC-121). Without abortCleaning in discard the test does not end.
func TestTopicIsDeletedUnderTheCleaner(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("c")
	r.fill(p, 200)
	r.s.cleaner.cleanOne()
	r.fill(p, 200)
	r.brokerConfig("log.cleaner.io.max.bytes.per.second", "0.001")
	reading := make(chan struct{})
	var once sync.Once
	r.fs.SetHook(func(op vfs.Op) error {
		if strings.HasSuffix(op.Name, ".log") && op.Kind&vfs.OpRead != 0 {
			once.Do(func() { close(reading) })
		}
		return nil
	})
	ended := make(chan bool)
	go func() { ended <- r.s.cleaner.cleanOne() }()
	<-reading
	r.apply(&record.RemoveTopic{TopicID: p.topic})
	if <-ended {
		t.Fatal("the pass went through")
	}
	r.fs.SetHook(nil)
	q := r.compacted("c")
	if c := q.log.Load().CleanedTo(); c != 0 {
		t.Fatalf("the new topic counts as cleaned to %d", c)
	}
	if _, ok := checkpointOf(t, r.fs, "/a", cleanerFile)[q.tp]; ok {
		t.Fatal("the old topic's checkpoint is still there")
	}
	if p.dir.failed.Load() {
		t.Fatal(r.log.String())
	}
}

// Cleaner threads follow the settings, in service, and end with the store.
func TestCleanerThreadsFollowTheSettings(t *testing.T) {
	r := newRig(t)
	p := func() *Partition { return r.compacted("c", "segment.bytes=1000") }
	must(t, r.open())
	s := r.s
	s.byHand = false
	s.cleaner.start()
	await := func(what string, reached func() bool) {
		t.Helper()
		deadline, tick := time.After(10*time.Second), time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !reached() {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatal("not reached: " + what)
			}
		}
	}
	running := func(want int) {
		t.Helper()
		await(fmt.Sprint(want, " cleaner threads"), func() bool {
			s.cleaner.mu.Lock()
			defer s.cleaner.mu.Unlock()
			n := 0
			for _, yes := range s.cleaner.threads {
				if yes {
					n++
				}
			}
			return n == want
		})
	}
	running(1)
	r.brokerConfig("log.cleaner.backoff.ms", "1")
	r.brokerConfig("log.cleaner.threads", "3")
	running(3)
	c := p()
	r.fill(c, 60)
	await("a pass", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.log.Load().CleanedTo() > 0
	})
	r.brokerConfig("log.cleaner.threads", "1")
	running(1)
	r.brokerConfig("log.cleaner.threads", "0")
	running(0)
	r.brokerConfig("log.cleaner.threads", "1")
	running(1)
	must(t, s.Close()) // waits for them
}

func TestCleanerSettings(t *testing.T) {
	none := config.Layers{}
	if got, want := *CleanerSettingsOf(none), (CleanerSettings{Threads: 1, MapBytes: 128 << 20, BufferBytes: 256 << 10, LoadFactor: 0.9, BytesPerSecond: 1.7976931348623157e308, BackoffMs: 15000}); got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	l := config.Layers{Default: config.FromMap(map[string]string{"log.cleaner.threads": "4", "log.cleaner.io.max.bytes.per.second": "1e6"}), Static: config.FromMap(map[string]string{"log.cleaner.threads": "2", "log.cleaner.io.buffer.size": "800"})}
	if got := *CleanerSettingsOf(l); got.Threads != 4 || got.MapBytes != 32<<20 || got.BufferBytes != 100 || got.BytesPerSecond != 1e6 {
		t.Errorf("%+v", got)
	}
	off := config.Layers{Static: config.FromMap(map[string]string{"log.cleaner.enable": "false"})}
	if got := *CleanerSettingsOf(off); got.Threads != 0 {
		t.Errorf("%+v", got)
	}
}

// A read_committed reader gets the aborted transactions that go with the bytes it
// got, although a swap comes in between: here it gets stuck before the new
// transaction index has its name, and the old one does not know of what was in the
// second segment. Without the comparison of Swaps in readRange aborted records
// show.
func TestReadCommittedAcrossASwap(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("c", "segment.bytes=100000")
	log := p.log.Load()
	for i := range 8 {
		bl := batch.NewBuilder(nil, 0, 0)
		bl.ProducerID, bl.ProducerEpoch, bl.BaseSequence, bl.Transactional = 5, 0, kafka.Sequence(i), true
		bl.Add(testStart, fmt.Append(nil, i%3), []byte("aborted"))
		r.append(p, bl.Finish())
		m := batch.NewBuilder(nil, log.EndOffset(), 0)
		m.ProducerID, m.ProducerEpoch, m.Control, m.Transactional = 5, 0, true, true
		m.Add(testStart, []byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 1})
		p.mu.Lock()
		must(t, log.Append(testStart, m.Finish()))
		if i%4 == 3 {
			must(t, log.Roll(testStart))
		}
		p.raise(log.EndOffset())
		p.base = log.ActiveBase()
		p.mu.Unlock()
	}
	must(t, p.flushTo(log.EndOffset()))
	began, stuck := false, false
	r.fs.SetHook(func(op vfs.Op) error {
		switch {
		case strings.HasSuffix(op.Name, ".txnindex.swap") && op.Kind&vfs.OpRename != 0:
			stuck = true
			return syscall.EIO
		case strings.HasSuffix(op.Name, ".txnindex") && op.Kind&vfs.OpRead != 0 && !began:
			began = true
			r.s.cleaner.cleanOne()
		}
		return nil
	})
	res := p.Read(ReadRequest{Offset: 8, LeaderEpoch: kafka.NoEpoch, MaxBytes: 1 << 20, MinOne: true, ReadCommitted: true})
	if res.Code != 0 || res.Records == nil || !stuck {
		t.Fatalf("%s, stuck %v", res.Code, stuck)
	}
	buf := make([]byte, res.Records.Len())
	_, err := res.Records.ReadAt(buf, 0)
	must(t, err)
	for len(buf) > 0 {
		var b batch.Batch
		b, buf, err = batch.Next(buf)
		must(t, err)
		if b.Control() || b.Count() == 0 {
			continue
		}
		if !slices.ContainsFunc(res.Aborted, func(a wire.AbortedTxn) bool { return a.FirstOffset <= b.BaseOffset() }) {
			t.Fatalf("aborted record at %d is shown; aborted: %v", b.BaseOffset(), res.Aborted)
		}
	}
}

// A crash between a pass and the checkpoint costs another pass and nothing else.
func TestRestartInAPass(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("c")
	r.fill(p, 100)
	must(t, r.s.checkpointRecovery())
	want := values(t, p, p.base)
	id := p.topic
	task := r.s.cleaner.choose(r.now().Wall)
	must(t, task.pass.Map(seglog.CleanLimits{MapBytes: 1 << 20, LoadFactor: 0.9, BufferBytes: 1000, Pace: func(int) error { return nil }}))
	g, err := task.pass.Next()
	must(t, err)
	must(t, r.s.cleaner.swap(task, g))
	r.reopen()
	p = r.part(id, 0)
	if got := values(t, p, 0); !slices.Equal(got[len(got)-len(want):], want) || len(got) == len(want) {
		t.Fatalf("read %v, want at the end %v", got, want)
	}
	if !r.s.cleaner.cleanOne() {
		t.Fatal("not cleaned after the restart")
	}
}

// under runs f in the middle of the next pass, beside it.
func (r *rig) under(f func()) {
	var once sync.Once
	r.fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpOpen && strings.HasSuffix(op.Name, ".log.cleaned") {
			once.Do(f)
		}
		return nil
	})
}

// Retention that comes by during a pass is made up for at its end: a log that is
// cleaned whenever it looks would keep everything. Without retentionDue it does.
func TestRetentionIsNotStarvedByTheCleaner(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("both", "cleanup.policy=compact,delete", "retention.ms=100000", "file.delete.delay.ms=0")
	r.fill(p, 60)
	r.wall.Add(200_000)
	r.under(func() { r.s.retainAll(r.now()) })
	if !r.s.cleaner.cleanOne() {
		t.Fatal(r.log.String())
	}
	if start, end := p.log.Load().StartOffset(), p.log.Load().EndOffset(); start != end {
		t.Fatalf("retention left %d to %d", start, end)
	}
}

// The policy may change to delete and back while a pass runs; DeleteRecords may
// come in its middle. The pass ends well, the log follows the policy of the day.
func TestPolicyChangesUnderAPass(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("c", "retention.ms=100000", "file.delete.delay.ms=0")
	policy := func(to string) {
		r.apply(&record.Config{ResourceType: 2, ResourceName: "c", Name: "cleanup.policy", Value: &to})
	}
	r.fill(p, 60)
	r.under(func() { policy("delete") })
	if !r.s.cleaner.cleanOne() {
		t.Fatal(r.log.String())
	}
	kept := p.log.Load().CleanedTo()
	r.fill(p, 60)
	if r.s.cleaner.cleanOne() {
		t.Fatal("a log of policy delete was cleaned")
	}
	policy("compact,delete")
	r.under(func() {
		policy("delete")
		r.s.retainAll(r.now())
		policy("compact")
		p.mu.Lock()
		defer p.mu.Unlock()
		must(t, p.log.Load().AdvanceStart(p.log.Load().EndOffset()-3))
	})
	if !r.s.cleaner.cleanOne() || p.log.Load().CleanedTo() <= kept {
		t.Fatal(r.log.String())
	}
	wantValues(t, p, p.log.Load().StartOffset(), "v57", "v58", "v59")
	policy("delete")
	r.wall.Add(200_000)
	r.s.retainAll(r.now())
	if start, end := p.log.Load().StartOffset(), p.log.Load().EndOffset(); start != end {
		t.Fatalf("retention left %d to %d", start, end)
	}
	policy("compact")
	r.fill(p, 60)
	if !r.s.cleaner.cleanOne() {
		t.Fatal("not cleaned after all was deleted")
	}
	if p.dir.failed.Load() || p.uncleanable || strings.Contains(r.log.String(), "level=ERROR") {
		t.Fatal(r.log.String())
	}
}

// A pass that waits because of a slow pace goes on when the pace is raised. Waiting
// out the old one would take years here.
func TestPaceIsRaisedUnderAPass(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("c")
	r.fill(p, 200)
	r.brokerConfig("log.cleaner.io.max.bytes.per.second", "0.001")
	ended := make(chan bool)
	go func() { ended <- r.s.cleaner.cleanOne() }()
	owes := func() bool {
		r.s.cleaner.mu.Lock()
		defer r.s.cleaner.mu.Unlock()
		return r.s.cleaner.paceTo > 0
	}
	for tick := time.NewTicker(time.Millisecond); !owes(); <-tick.C {
	}
	r.brokerConfig("log.cleaner.io.max.bytes.per.second", "1e12")
	if !<-ended {
		t.Fatal(r.log.String())
	}
}
