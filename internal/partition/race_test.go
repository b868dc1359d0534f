package partition

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// A fetch that opens a segment just when the topic is deleted finds no file.
// That is no failure of the disk. Fails without the first case of readError:
// the directory, and with it the process, would go.
func TestFetchBesideDeletion(t *testing.T) {
	r := newRig(t)
	r.tune = func(o *Options) { o.OpenFiles = 1 }
	r.mustOpen()
	id, keep := r.topic("t", []int{0}), r.topic("keep", []int{0})
	p := r.part(id, 0)
	r.append(p, one("a"))
	r.append(r.part(keep, 0), one("b")) // takes the only descriptor
	p.log.Load().Rest()
	renamed := make(chan struct{})
	deleted := make(chan struct{})
	var once sync.Once
	r.fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpOpen && strings.HasSuffix(op.Name, "/t-0/00000000000000000000.log") {
			once.Do(func() {
				go func() { r.apply(&record.RemoveTopic{TopicID: id}); close(deleted) }()
				<-renamed
			})
		}
		if op.Kind == vfs.OpSyncDir {
			select {
			case <-renamed:
			default:
				close(renamed)
			}
		}
		return nil
	})
	res := p.Read(ReadRequest{LeaderEpoch: kafka.NoEpoch, MaxBytes: 100, MinOne: true})
	<-deleted
	if res.Code != kafka.ErrNotLeaderForPartition {
		t.Fatalf("read answers %s", res.Code)
	}
	if p.dir.failed.Load() || r.fatal.Load() != 0 {
		t.Fatalf("deletion took the directory offline:\n%s", r.log.String())
	}
	r.append(r.part(keep, 0), one("c"))
}

// HC-121: a topic is deleted and created anew while a flush of the old one is
// under way. The flush must neither fail the directory nor write its files
// into the new folder. Fails if discard does not wait for the flush.
func TestHC121DeletionBesideFlush(t *testing.T) {
	for _, at := range []struct {
		kind vfs.OpKind
		name string
	}{{vfs.OpSync, "partition.metadata"}, {vfs.OpSync, "00000000000000000000.log"}, {vfs.OpOpen, "leader-epoch-checkpoint.tmp"}} {
		r := newRig(t).mustOpen()
		id := r.topic("t", []int{0}, "flush.messages=1")
		p := r.part(id, 0)
		var once sync.Once
		deleted := make(chan struct{})
		var next kafka.TopicID
		r.fs.SetHook(func(op vfs.Op) error {
			if op.Kind == at.kind && strings.HasSuffix(op.Name, "/t-0/"+at.name) {
				once.Do(func() {
					marked := make(chan struct{})
					go func() {
						w := NewWaiter(func() { close(marked) })
						p.Watch(w)
						r.apply(&record.RemoveTopic{TopicID: id})
						next = r.topic("t", []int{0})
						close(deleted)
					}()
					<-marked // the deletion has begun; it has woken who waited
				})
			}
			return nil
		})
		a := p.Append(one("old"), true, testStart)
		<-deleted
		r.fs.SetHook(nil)
		if a.Code != 0 && a.Code != kafka.ErrNotLeaderForPartition {
			t.Fatalf("%s: append answers %s", at.name, a.Code)
		}
		if p.dir.failed.Load() {
			t.Fatalf("%s: deletion took the directory offline:\n%s", at.name, r.log.String())
		}
		if n := r.files("/a/t-0", "leader-epoch-checkpoint"); n != 0 {
			t.Fatalf("%s: the new folder has the old log's epochs", at.name)
		}
		wantValues(t, r.part(next, 0), 0)
		r.append(r.part(next, 0), one("new"))
		r.reopen()
		wantValues(t, r.part(next, 0), 0, "new")
	}
}

// A batch whose partition goes offline before it is flushed is not
// acknowledged. Fails if flushTo finds nothing to do there.
func TestNoAcknowledgementWithoutFlush(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "flush.messages=1"), 0)
	r.append(p, one("a"))
	p.flushing.Lock()
	done := make(chan Appended)
	go func() { done <- p.Append(one("b"), true, testStart) }()
	for p.log.Load().EndOffset() != 2 {
		select {
		case a := <-done:
			t.Fatalf("answered before the flush: %+v", a)
		default:
		}
	}
	p.breakDown(fs.ErrInvalid, marks{})
	p.flushing.Unlock()
	wantCode(t, <-done, kafka.ErrKafkaStorageError)
}

// With flush.messages=1 a record is not visible before it is durable. Fails if
// Append raises the high watermark before flushTo.
func TestNothingUnflushedIsVisible(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "flush.messages=1"), 0)
	r.append(p, one("a"))
	var seen kafka.Offset = -1
	r.fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") {
			seen = p.HighWatermark()
		}
		return nil
	})
	r.append(p, one("b"))
	if seen != 1 || p.HighWatermark() != 2 {
		t.Fatalf("high watermark %d during the fsync, %d after", seen, p.HighWatermark())
	}
	r.fs.SetHook(nil)
	r.fs.Fail(vfs.Rule{Kinds: vfs.OpSync, Err: unix.EIO})
	wantCode(t, p.Append(one("c"), true, testStart), kafka.ErrKafkaStorageError)
	if p.HighWatermark() != 2 {
		t.Fatal("a record that could not be flushed is visible")
	}
}

// A flush that finds the disk full costs nothing and goes on later. Fails if
// FlushDone takes the log offline for it.
func TestFullDiskDuringFlush(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "flush.messages=1"), 0)
	b := one("a")
	r.fs.SetBudget(int64(len(b)) + 3)
	wantCode(t, p.Append(b, true, testStart), kafka.ErrKafkaStorageError)
	if p.dir.failed.Load() {
		t.Fatalf("a full disk took the directory offline:\n%s", r.log.String())
	}
	r.fs.Heal()
	r.append(p, one("b"))
	r.reopen()
	if got := values(t, r.part(p.topic, 0), 0); got[len(got)-1] != "b" {
		t.Fatalf("%v", got)
	}
}

// A folder that cannot be made because the disk is full. Fails if create takes
// the directory offline.
func TestNoRoomForAFolder(t *testing.T) {
	r := newRig(t).mustOpen()
	r.fs.Fail(vfs.Rule{Kinds: vfs.OpMkdir, Err: unix.ENOSPC})
	id := r.topic("t", []int{0})
	wantCode(t, r.part(id, 0).Append(one("a"), true, testStart), kafka.ErrKafkaStorageError)
	if r.fatal.Load() != 0 {
		t.Fatalf("fatal:\n%s", r.log.String())
	}
	r.reopen()
	r.append(r.part(id, 0), one("a"))
}

// HC-124: appends, reads, retention and flushes side by side; offsets rise
// without gap, and what is read is whole and in order. For the race detector.
func TestHC124AppendReadRetain(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0}, "segment.bytes=500", "retention.bytes=2000", "segment.ms=1", "file.delete.delay.ms=0")
	p := r.part(id, 0)
	const batches = 3000
	stop := make(chan struct{})
	var wg sync.WaitGroup
	beside := func(f func()) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		}()
	}
	beside(func() { r.s.retainAll(r.now()) })
	beside(func() { r.s.removeDue(r.now()) })
	beside(func() { _ = p.flushTo(p.HighWatermark()); r.s.checkpointHigh(); r.s.checkpointRecovery() })
	for range 2 {
		beside(func() {
			from := p.log.Load().StartOffset()
			res := p.Read(ReadRequest{Offset: from, LeaderEpoch: kafka.NoEpoch, MaxBytes: 700, MinOne: true})
			if res.Code == kafka.ErrOffsetOutOfRange || res.Records == nil {
				return // retention was faster
			}
			if res.Code != 0 {
				t.Errorf("read at %d: %s", from, res.Code)
				return
			}
			buf := make([]byte, res.Records.Len())
			if _, err := res.Records.ReadAt(buf, 0); err != nil {
				t.Errorf("read at %d: %v", from, err)
			}
			res.Records.Release()
			for next := from; len(buf) > 0; {
				b, rest, err := batch.Next(buf)
				if err != nil || b.BaseOffset() != next || !b.Valid() {
					t.Errorf("bad batch at %d: %v", next, err)
					return
				}
				next, buf = b.NextOffset(), rest
			}
		})
	}
	for i := range batches {
		r.wall.Add(1)
		if o := r.append(p, batchOf(r.now().Wall, fmt.Sprint(i))); o != kafka.Offset(i) {
			t.Fatalf("batch %d got offset %d", i, o)
		}
	}
	close(stop)
	wg.Wait()
	if p.log.Load().StartOffset() == 0 {
		t.Fatal("retention never ran")
	}
	got := values(t, p, p.log.Load().StartOffset())
	if len(got) == 0 || got[len(got)-1] != fmt.Sprint(batches-1) {
		t.Fatalf("the end is %v", got)
	}
	r.reopen()
}

// Trap 8's neighbour: no wake-up is lost. A waiter that watches and then looks
// is woken by every append that it does not see. Fails if raise publishes
// after the waiters were woken, or watchers.add does not store its count.
func TestNoLostWakeUp(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	const rounds = 2000
	appended := make(chan struct{}, 1)
	go func() {
		for range rounds {
			if p.Append(one("v"), true, testStart).Code != 0 {
				return
			}
			<-appended
		}
	}()
	for i := range kafka.Offset(rounds) {
		// The append before may wake a waiter late, and for nothing.
		for seen := false; !seen; seen = p.HighWatermark() > i {
			woken := make(chan struct{})
			w := NewWaiter(func() { close(woken) })
			r.s.Deadlines.Add(w, kafka.Never)
			p.Watch(w)
			if p.HighWatermark() <= i {
				select {
				case <-woken:
				case <-time.After(30 * time.Second):
					t.Fatalf("round %d: not woken", i)
				}
			}
			p.Unwatch(w)
			r.s.Deadlines.Remove(w)
		}
		if p.HighWatermark() != i+1 {
			t.Fatalf("round %d: high watermark %d", i, p.HighWatermark())
		}
		appended <- struct{}{}
	}
	if n := len(p.watch.ws); n != 0 {
		t.Fatalf("%d watchers are left", n)
	}
	if n := len(r.s.Deadlines.heap); n != 0 {
		t.Fatalf("%d deadlines are left", n)
	}
}

// News that leave the high watermark alone count too: leadership, deletion.
// Fails if News does not rise in assign and discard.
func TestNewsCountsEveryWakeUp(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0})
	p := r.part(id, 0)
	n := p.News()
	change := record.NewPartitionChange()
	change.TopicID, change.PartitionID, change.Leader = id, 0, self
	r.apply(change)
	if p.News() == n {
		t.Fatal("a new leader epoch is no news")
	}
	n = p.News()
	r.append(p, one("a"))
	if p.News() == n {
		t.Fatal("an append is no news")
	}
	n = p.News()
	r.apply(&record.RemoveTopic{TopicID: id})
	if p.News() == n {
		t.Fatal("deletion is no news")
	}
}

// Deadlines wake in order of time and not before. Fails if fireDue ignores at.
func TestDeadlinesWakeInTime(t *testing.T) {
	r := newRig(t)
	d := &Deadlines{now: func() kafka.Mono { return r.now().Mono }, poke: make(chan struct{}, 1)}
	woken := make(chan int, 10)
	for i := 9; i >= 0; i-- {
		d.Add(NewWaiter(func() { woken <- i }), kafka.Mono(i*100))
	}
	r.mono.Store(450)
	if wait := d.fireDue(); wait != 50 {
		t.Fatalf("next in %v", wait)
	}
	var got []int
	for range 5 {
		got = append(got, <-woken)
	}
	slices.Sort(got)
	if !slices.Equal(got, []int{0, 1, 2, 3, 4}) || len(woken) != 0 {
		t.Fatalf("woken: %v", got)
	}
}

// The producer's memory of a partition goes with its log; what others keep of
// it is gone after a restart too (HC-169).
func TestHC169NothingOfADeletedTopicIsLeft(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0, 0})
	r.append(r.part(id, 1), one("a"))
	r.apply(&record.RemoveTopic{TopicID: id})
	if r.s.Partition(id, 0) != nil || r.s.Partition(id, 1) != nil {
		t.Fatal("still found")
	}
	if n := r.s.dirs[0].count.Load(); n != 0 {
		t.Fatalf("directory counts %d partitions", n)
	}
	r.pass(2 * time.Minute)
	list, err := logdir.List(r.mem, "/a")
	must(t, err)
	if len(list) != 0 {
		t.Fatalf("left: %v", list)
	}
	if n := len(r.s.dirs[0].stale); n != 0 {
		t.Fatalf("%d names are remembered for ever", n)
	}
}
