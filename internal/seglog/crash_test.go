package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

var errCrash = errors.New("crash")

// world drives a log with random operations, crashes it, and knows what may be
// left.
type world struct {
	*bed
	rnd   *rand.Rand
	mem   *vfs.Mem
	fault *vfs.Fault

	current  map[kafka.Offset]batch.Batch // by base offset: acknowledged, not truncated
	versions map[kafka.Offset][]batch.Batch
	end      kafka.Offset // acknowledged
	floor    kafka.Offset // may not fall below this by the power's loss
	low      kafka.Offset // log start, as acknowledged or about to be
	epoch    kafka.Epoch
	seqs     [3]kafka.Sequence
	jobs     []RemovalJob
	armed    bool
}

func newWorld(t *testing.T, seed uint64) *world {
	mem := memFS(t)
	fault := vfs.NewFault(mem)
	w := &world{
		bed: newBed(t, fault), rnd: rand.New(rand.NewPCG(seed, 99)), mem: mem, fault: fault,
		current: map[kafka.Offset]batch.Batch{}, versions: map[kafka.Offset][]batch.Batch{},
	}
	w.cfg.SegmentBytes = 1200
	w.cfg.RetentionMs = -1
	return w
}

// crashAfter lets n changes of the disk happen and fails all others.
func (w *world) crashAfter(n int) {
	w.fault.SetHook(func(op vfs.Op) error {
		if op.Kind&vfs.OpMutate == 0 {
			return nil
		}
		if n--; n < 0 {
			return errCrash
		}
		return nil
	})
}

// step does one random operation; errCrash if the crash came in between.
func (w *world) step() error {
	switch k := w.rnd.IntN(100); {
	case k < 70:
		return w.appendSome()
	case k < 80:
		j := w.l.PrepareFlush()
		for range w.rnd.IntN(3) { // the owner goes on meanwhile
			if err := w.appendSome(); err != nil {
				return err
			}
		}
		if err := j.Run(); err != nil {
			return err
		}
		if err := w.l.FlushDone(j); err != nil {
			return err
		}
		w.floor = max(w.floor, j.EndOffset())
		w.rp = w.l.RecoveryPoint()
		return nil
	case k < 88:
		return w.truncate()
	case k < 92:
		return w.l.Roll(testNow)
	case k < 97:
		return w.retain()
	}
	for _, j := range w.jobs {
		if err := j.Run(); err != nil {
			return err
		}
	}
	w.jobs = nil
	return nil
}

func (w *world) appendSome() error {
	var batches []batch.Batch
	next := w.end
	if w.rnd.IntN(10) == 0 {
		next += kafka.Offset(w.rnd.IntN(3)) // offsets may have gaps
	}
	for range 1 + w.rnd.IntN(3) {
		p := w.rnd.IntN(len(w.seqs))
		bl := batch.NewBuilder(nil, next, w.epoch)
		bl.ProducerID, bl.ProducerEpoch, bl.BaseSequence = kafka.ProducerID(p), 0, w.seqs[p]
		n := 1 + w.rnd.IntN(4)
		for range n {
			bl.Add(testNow, nil, bytes.Repeat([]byte{byte(w.rnd.Uint32())}, w.rnd.IntN(200)))
		}
		w.seqs[p] = w.seqs[p].Add(int32(n))
		b := bl.Finish()
		batches = append(batches, b)
		w.versions[next] = append(w.versions[next], b)
		next = b.NextOffset()
	}
	if err := w.l.Append(testNow, batches...); err != nil {
		return err
	}
	for _, b := range batches {
		w.current[b.BaseOffset()] = b
	}
	w.end = next
	return nil
}

func (w *world) truncate() error {
	if w.end <= w.low {
		return nil
	}
	at := w.low + kafka.Offset(w.rnd.Int64N(int64(w.end-w.low)))
	to, err := w.l.TruncationEnd(at)
	if err != nil {
		return err
	}
	w.rp = min(w.rp, to) // the owner writes the checkpoint first
	w.floor, w.end, w.low, w.start = min(w.floor, to), to, min(w.low, to), min(w.start, to)
	for o := range w.current {
		if o >= to {
			delete(w.current, o)
		}
	}
	w.epoch++
	end, jobs, err := w.l.TruncateTo(at, testNow)
	w.jobs = append(w.jobs, jobs...)
	if err == nil && end != to {
		return fmt.Errorf("truncated to %d instead of %d", end, to)
	}
	return err
}

func (w *world) retain() error {
	start := w.low + kafka.Offset(w.rnd.Int64N(int64(w.end-w.low)+1))
	for w.current[start] == nil && start < w.end {
		start++
	}
	w.low = start
	w.start = max(w.start, start) // the owner writes the checkpoint
	if err := w.l.AdvanceStart(start); err != nil {
		return err
	}
	jobs, err := w.l.Retain(testNow, w.end)
	w.jobs = append(w.jobs, jobs...)
	return err
}

// verify checks a reopened log. atLeast is where it may end at the lowest.
func (w *world) verify(atLeast kafka.Offset) {
	w.t.Helper()
	end := w.l.EndOffset()
	if end < max(atLeast, w.low) || w.l.StartOffset() > w.low {
		w.t.Fatalf("reopened as %d to %d, want from %d to at least %d", w.l.StartOffset(), end, w.low, atLeast)
	}
	last := map[kafka.ProducerID]batch.Batch{}
	at := w.low
	for rest := w.readAll(w.low); len(rest) > 0; {
		var b batch.Batch
		var err error
		b, rest, err = batch.Next(rest)
		ok(w.t, err)
		o := b.BaseOffset()
		if o < atLeast && !bytes.Equal(b, w.current[o]) {
			w.t.Fatalf("batch at %d is not the acknowledged one", o)
		}
		known := false
		for _, v := range w.versions[o] {
			known = known || bytes.Equal(v, b)
		}
		if !known || o < at {
			w.t.Fatalf("batch at %d was never appended there", o)
		}
		for ; at < o && at < atLeast; at++ {
			if w.current[at] != nil {
				w.t.Fatalf("batch at %d is missing", at)
			}
		}
		if e := w.l.EpochAt(o); e != b.LeaderEpoch() {
			w.t.Fatalf("batch at %d has epoch %d, the cache says %d: %v", o, b.LeaderEpoch(), e, w.l.Epochs())
		}
		at = b.NextOffset()
		last[b.ProducerID()] = b
	}
	for _, e := range w.l.Producers().Snapshot() {
		if b := last[e.ProducerID]; b != nil && (e.LastOffset != b.LastOffset() || e.LastSequence != b.LastSequence()) {
			w.t.Fatalf("producer %d: state %+v, last batch %d", e.ProducerID, e, b.LastOffset())
		}
		delete(last, e.ProducerID)
	}
	if len(last) > 0 {
		w.t.Fatalf("producers without state: %v", len(last))
	}
	if e := w.l.LatestEpoch(); e > w.epoch {
		w.t.Fatalf("epoch %d, only %d was given", e, w.epoch)
	}
}

// adopt makes what is in the log the truth for the next round.
func (w *world) adopt() {
	w.current = map[kafka.Offset]batch.Batch{}
	for rest := w.readAll(w.low); len(rest) > 0; {
		var b batch.Batch
		b, rest, _ = batch.Next(rest)
		w.current[b.BaseOffset()] = bytes.Clone(b)
	}
	w.end = w.l.EndOffset()
	w.floor = min(w.floor, w.end)
	w.rp = w.l.RecoveryPoint()
	w.epoch++
	w.seqs = [3]kafka.Sequence{}
	for _, e := range w.l.Producers().Snapshot() {
		w.seqs[e.ProducerID] = e.LastSequence.Add(1)
	}
}

// Process death loses nothing acknowledged; power loss at most a suffix beyond
// the last flush; both reopen without an error. Leaving the Datasync out of
// FlushJob.run, or the SyncDir, fails it; so does a recovery that trusts .index.
func TestCrashes(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		for _, power := range []bool{false, true} {
			t.Run(fmt.Sprintf("power=%v/%d", power, seed), func(t *testing.T) {
				w := newWorld(t, seed)
				w.open()
				for range 6 {
					w.life(power)
				}
			})
		}
	}
}

func (w *world) life(power bool) {
	w.t.Helper()
	w.crashAfter(w.rnd.IntN(60))
	for range 80 {
		if err := w.step(); err != nil {
			if !errors.Is(err, errCrash) {
				w.t.Fatal(err)
			}
			break
		}
	}
	w.fault.SetHook(nil)
	atLeast := w.end
	if power {
		w.mem.CrashPower(w.rnd)
		atLeast = w.floor
	} else {
		w.mem.CrashProcess()
	}
	w.env = NewEnv(NewFiles(w.fault, 4))
	w.env.ProducerExpirationMs.Store(1 << 60)
	w.jobs = nil
	if w.rnd.IntN(3) == 0 { // and another crash while it recovers
		w.crashAfter(w.rnd.IntN(20))
		if err := w.tryOpen(); err != nil && !errors.Is(err, errCrash) {
			w.t.Fatal(err)
		}
		w.fault.SetHook(nil)
		if power {
			w.mem.CrashPower(w.rnd)
		} else {
			w.mem.CrashProcess()
		}
		w.env = NewEnv(NewFiles(w.fault, 4))
		w.env.ProducerExpirationMs.Store(1 << 60)
	}
	w.open()
	w.verify(atLeast)
	w.adopt()
}

// Appends and rolls sync nothing; a flush syncs each dirty segment once, the side
// files of rolled ones, and the folder if names changed; nothing twice.
func TestFlushCountsItsSyncs(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m).open()
	syncs := func(f func()) vfs.SyncCounts {
		before := m.Syncs()
		f()
		after := m.Syncs()
		return vfs.SyncCounts{Files: after.Files - before.Files, Dirs: after.Dirs - before.Dirs}
	}
	want := func(what string, got vfs.SyncCounts, files, dirs int) {
		t.Helper()
		if got != (vfs.SyncCounts{Files: files, Dirs: dirs}) {
			t.Errorf("%s: %+v, want %d files, %d folders", what, got, files, dirs)
		}
	}
	want("appends", syncs(func() { b.append(0, 1, 1, 1) }), 0, 0)
	want("first flush: log, epochs, folder, its parent", syncs(b.flush), 2, 2)
	want("nothing to do", syncs(b.flush), 0, 0)
	b.append(0, 1)
	want("the usual flush", syncs(b.flush), 1, 0)
	b.append(0, 1)
	want("roll", syncs(func() { ok(t, b.l.Roll(testNow)) }), 0, 0)
	b.append(0, 1)
	want("after a roll: two logs, two indexes, a snapshot", syncs(b.flush), 5, 1)
	b.append(1, 1)
	want("a new epoch", syncs(b.flush), 2, 1)
	before := m.SyncsOf("/data/t-0/00000000000000000005.log")
	b.append(1, 1)
	b.flush()
	if got := m.SyncsOf("/data/t-0/00000000000000000005.log"); got != before+1 {
		t.Error("the active segment was not synced")
	}
}

// A flush that was prepared before a truncation must not vouch for what came
// after it. Without the check of truncations in FlushDone the recovery point
// would be 10.
func TestFlushAcrossTruncation(t *testing.T) {
	b := newBed(t, memFS(t)).open()
	b.append(0, 5, 5)
	j := b.l.PrepareFlush()
	_, _, err := b.l.TruncateTo(5, testNow)
	ok(t, err)
	ok(t, j.Run())
	b.append(1, 5)
	ok(t, b.l.FlushDone(j))
	if p := b.l.RecoveryPoint(); p != 0 {
		t.Fatalf("recovery point %d", p)
	}
}
