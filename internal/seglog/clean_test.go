package seglog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/producerstate"
	"moldau/internal/vfs"
)

// stored is a record as it was appended.
type stored struct {
	key, value []byte // nil: null
	ts         kafka.WallMs
	aborted    bool
	old        bool // in format v0 or v1, which have no headers
}

// keyed is a compacted log with a model of it: every record ever appended.
type keyed struct {
	*bed
	rnd     *rand.Rand
	now     kafka.WallMs
	records map[kafka.Offset]*stored
	seqs    map[kafka.ProducerID]kafka.Sequence
	open    map[kafka.ProducerID][]kafka.Offset // records of transactions under way
	stable  kafka.Offset                        // the owner's; −1: as far as can be
	limits  CleanLimits
	codecs  []batch.Codec
	jobs    []RemovalJob
}

// newKeyed opens an empty log, or one that is not empty any more if before is there
// and writes its files.
func newKeyed(t testing.TB, fsys vfs.FS, seed uint64, before ...func(*keyed)) *keyed {
	k := &keyed{
		bed: newBed(t, fsys), rnd: rand.New(rand.NewPCG(seed, 5)), now: testNow,
		records: map[kafka.Offset]*stored{}, seqs: map[kafka.ProducerID]kafka.Sequence{}, open: map[kafka.ProducerID][]kafka.Offset{},
		stable: kafka.NoOffset, codecs: []batch.Codec{batch.None, batch.None, batch.None, batch.Snappy, batch.Snappy, batch.Gzip, batch.LZ4, batch.Zstd},
		limits: CleanLimits{MapBytes: 1 << 20, LoadFactor: 0.9, BufferBytes: 1 << 10, Pace: func(int) error { return nil }},
	}
	k.cfg.SegmentBytes = 1500
	k.cfg.RetentionMs = -1
	k.cfg.MinCleanableRatio = 0
	k.cfg.DeleteRetentionMs = 1000
	if len(before) > 0 {
		before[0](k)
	}
	k.bed.open()
	return k
}

// put appends one batch of random records: keys 0 … 11, some tombstones.
func (k *keyed) put(pid kafka.ProducerID, txn bool) {
	k.t.Helper()
	base := k.l.EndOffset()
	if k.rnd.IntN(10) == 0 {
		base += kafka.Offset(k.rnd.IntN(5))
	}
	bl := batch.NewBuilder(nil, base, 1)
	bl.ProducerID = pid
	if pid >= 0 {
		bl.ProducerEpoch, bl.BaseSequence, bl.Transactional = 0, k.seqs[pid], txn
	}
	n := 1 + k.rnd.IntN(5)
	for i := range n {
		r := &stored{key: fmt.Appendf(nil, "k%d", k.rnd.IntN(12)), ts: k.now + kafka.WallMs(k.rnd.IntN(50))}
		if k.rnd.IntN(4) > 0 {
			r.value = bytes.Repeat([]byte{byte('a' + k.rnd.IntN(26))}, k.rnd.IntN(60))
		}
		bl.Add(r.ts, r.key, r.value, batch.Header{Key: "at", Value: fmt.Appendf(nil, "%d", base+kafka.Offset(i))})
		k.records[base+kafka.Offset(i)] = r
		if txn {
			k.open[pid] = append(k.open[pid], base+kafka.Offset(i))
		}
	}
	k.seqs[pid] = k.seqs[pid].Add(int32(n))
	ok(k.t, k.l.Append(k.now, compressed(k.t, bl.Finish(), k.codecs[k.rnd.IntN(len(k.codecs))])))
}

func compressed(t testing.TB, b batch.Batch, codec batch.Codec) batch.Batch {
	t.Helper()
	if codec == batch.None {
		return b
	}
	var w batch.Workspace
	rules := batch.Rules{MaxBatchBytes: 1 << 20, MaxRecordBytes: 1 << 20, Recompress: true, Codec: codec, BeforeMaxMs: 1 << 60, AfterMaxMs: 1 << 60}
	switch codec {
	case batch.Gzip:
		rules.Level = -1
	case batch.LZ4:
		rules.Level = 9
	case batch.Zstd:
		rules.Level = 3
	}
	base, epoch := b.BaseOffset(), b.LeaderEpoch()
	b.SetBaseOffset(0)
	out, bad := w.Produced(b, 9, &rules, testNow)
	if bad.Code != 0 || out.Codec() != codec {
		t.Fatalf("%+v", bad)
	}
	out = bytes.Clone(out)
	out.SetBaseOffset(base)
	out.SetLeaderEpoch(epoch)
	return out
}

// end ends a producer's transaction.
func (k *keyed) end(pid kafka.ProducerID, commit bool) {
	k.t.Helper()
	ok(k.t, k.l.Append(k.now, marker(k.l.EndOffset(), pid, k.now, commit)))
	for _, o := range k.open[pid] {
		k.records[o].aborted = !commit
	}
	delete(k.open, pid)
}

func marker(o kafka.Offset, pid kafka.ProducerID, ts kafka.WallMs, commit bool) batch.Batch {
	bl := batch.NewBuilder(nil, o, 1)
	bl.ProducerID, bl.ProducerEpoch, bl.Control, bl.Transactional = pid, 0, true, true
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	bl.Add(ts, key, binary.BigEndian.AppendUint32([]byte{0, 0}, 7))
	return bl.Finish()
}

// traffic appends some batches of plain, idempotent and transactional producers.
func (k *keyed) traffic(n int) {
	k.t.Helper()
	for range n {
		k.now += kafka.WallMs(k.rnd.IntN(20))
		switch p := kafka.ProducerID(k.rnd.IntN(6)); {
		case p < 2:
			k.put(p, false)
		case p < 5 && len(k.open[p]) > 0 && k.rnd.IntN(3) == 0:
			k.end(p, k.rnd.IntN(2) == 0)
		case p < 5:
			k.put(p, true)
		default:
			k.put(kafka.NoProducerID, false)
		}
	}
}

// dirt measures as the owner does, with a high watermark at the end.
func (k *keyed) dirt() Dirt {
	k.t.Helper()
	stable := k.l.EndOffset()
	k.l.Producers().HighWatermark(stable)
	if o := k.l.Producers().FirstUnstableOffset(); o >= 0 {
		stable = min(stable, o)
	}
	if k.stable >= 0 {
		stable = min(stable, k.stable)
	}
	d, err := k.l.Dirt(k.now, stable)
	ok(k.t, err)
	return d
}

// compact runs one pass, if it is due.
func (k *keyed) compact() (*Cleaning, error) {
	k.t.Helper()
	jobs, err := k.l.ResumeSwap()
	k.jobs = append(k.jobs, jobs...)
	if err != nil {
		return nil, err
	}
	d := k.dirt()
	if !d.Due(k.cfg) {
		return nil, nil
	}
	c, err := k.l.PrepareCleaning(d, k.now)
	if err != nil {
		return nil, err
	}
	if err := c.Map(k.limits); err != nil {
		return nil, err
	}
	for {
		g, err := c.Next()
		if err != nil {
			return nil, err
		}
		if g == nil {
			return c, k.l.CleaningDone(c)
		}
		jobs, err := k.l.Swap(g, k.now)
		k.jobs = append(k.jobs, jobs...)
		if err != nil {
			return nil, err
		}
	}
}

func (k *keyed) mustCompact() *Cleaning {
	k.t.Helper()
	c, err := k.compact()
	ok(k.t, err)
	return c
}

// seen is a record that a read_committed consumer got.
type seen struct {
	o          kafka.Offset
	key, value []byte
	ts         kafka.WallMs
	horizon    kafka.WallMs // of its batch, or NoTimestamp
}

// consume reads all records below upper as a read_committed consumer does, and
// checks that each is one that was appended.
func (k *keyed) consume(upper kafka.Offset) []seen {
	k.t.Helper()
	aborted, err := k.l.AbortedTxns(k.l.StartOffset(), upper)
	ok(k.t, err)
	slices.SortFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	bad := map[kafka.ProducerID]bool{}
	var out []seen
	var w batch.Workspace
	last := kafka.NoOffset
	for rest := k.readAll(k.l.StartOffset()); len(rest) > 0; {
		var b batch.Batch
		b, rest = nextBatch(k.t, rest)
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			bad[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		if b.BaseOffset() <= last {
			k.t.Fatalf("batch at %d behind offset %d", b.BaseOffset(), last)
		}
		last = b.LastOffset()
		if b.Control() {
			if b.Count() > 0 {
				delete(bad, b.ProducerID())
			}
			continue
		}
		plain, err := w.DecompressAll(b.Codec(), b.Records(), 1<<20)
		ok(k.t, err)
		if b.Count() == 0 {
			plain = nil
		}
		ok(k.t, batch.Each(plain, b.Count(), func(r *batch.Record) error {
			s := seen{o: b.BaseOffset() + kafka.Offset(r.OffsetDelta), key: r.Key, value: r.Value, ts: b.BaseTimestamp() + kafka.WallMs(r.TimestampDelta), horizon: kafka.NoTimestamp}
			if b.HasDeleteHorizon() {
				s.horizon = b.BaseTimestamp()
			}
			m := k.records[s.o]
			if m == nil || !bytes.Equal(m.key, s.key) || !bytes.Equal(m.value, s.value) || (m.value == nil) != (s.value == nil) || m.ts != s.ts ||
				m.old != (len(r.Headers) == 0) || !m.old && string(r.Headers[0].Value) != fmt.Sprint(s.o) {
				k.t.Fatalf("record at %d is %+v, appended was %+v", s.o, s, m)
			}
			if m.aborted && s.o < upper && !bad[b.ProducerID()] {
				k.t.Fatalf("aborted record at %d is visible", s.o)
			}
			if s.o < upper && !(b.Transactional() && bad[b.ProducerID()]) {
				out = append(out, s)
			}
			return nil
		}))
	}
	return out
}

// check compares what a consumer sees with the model: per key the last committed
// record below upper, if it is a value; and below cleaned no second one.
func (k *keyed) check(upper, cleaned kafka.Offset) {
	k.t.Helper()
	k.checkIndex()
	want, got := map[string]kafka.Offset{}, map[string]kafka.Offset{}
	for _, o := range slices.Sorted(maps.Keys(k.records)) {
		if r := k.records[o]; !r.aborted && o < upper {
			want[string(r.key)] = o
		}
	}
	for _, s := range k.consume(upper) {
		if old, twice := got[string(s.key)]; twice && old < cleaned && s.o < cleaned {
			k.t.Fatalf("key %s at %d and at %d, cleaned to %d", s.key, old, s.o, cleaned)
		}
		got[string(s.key)] = s.o
	}
	for key, o := range want {
		g, there := got[key]
		if there && g != o || !there && k.records[o].value != nil {
			k.t.Fatalf("key %s: last record at %d, read %d (%v)", key, o, g, there)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		k.t.Fatalf("keys from nowhere: %v", got)
	}
}

// checkIndex: the transaction indexes list every aborted transaction of which a
// batch is left, and none without its marker: it would never end for a reader, and
// hide what its producer did later.
func (k *keyed) checkIndex() {
	k.t.Helper()
	want, markers := map[kafka.Offset]bool{}, map[kafka.Offset]bool{}
	begun := map[kafka.ProducerID]bool{}
	for rest := k.readAll(k.l.StartOffset()); len(rest) > 0; {
		var b batch.Batch
		b, rest = nextBatch(k.t, rest)
		m, isMarker, err := producerstate.ParseMarker(b)
		ok(k.t, err)
		switch {
		case isMarker:
			if !m.Commit {
				want[b.LastOffset()] = begun[b.ProducerID()]
				markers[b.LastOffset()] = true
			}
			delete(begun, b.ProducerID())
		case b.Transactional() && !b.Control():
			begun[b.ProducerID()] = true
		}
	}
	list, err := k.l.AbortedTxns(k.l.StartOffset(), math.MaxInt64)
	ok(k.t, err)
	for _, a := range list {
		if !markers[a.LastOffset] {
			k.t.Fatalf("aborted transaction without a marker: %+v", a)
		}
		delete(want, a.LastOffset)
	}
	for o, left := range want {
		if left {
			k.t.Fatalf("aborted transaction to offset %d is in no index", o)
		}
	}
}

func (k *keyed) stableEnd() kafka.Offset {
	k.l.Producers().HighWatermark(k.l.EndOffset())
	if o := k.l.Producers().FirstUnstableOffset(); o >= 0 {
		return o
	}
	return k.l.EndOffset()
}

// noHoles: recovery would take one for lost records.
func (k *keyed) noHoles() {
	k.t.Helper()
	segs := k.l.list()
	for i, s := range segs[:len(segs)-1] {
		if end, err := (&loader{Log: k.l}).endOfFile(fileName(s.base, extLog), s.base); err != nil || end != segs[i+1].base {
			k.t.Fatalf("segment %d ends at %d, the next begins at %d (%v)", s.base, end, segs[i+1].base, err)
		}
	}
}

// Whatever the traffic, the size of the key map (HC-126) and the horizon: after
// each pass a consumer sees the same latest values, records keep their offsets,
// timestamps and headers, aborted ones stay hidden, nothing at or above the
// bounds changes, and a recovery from scratch gives the same log and the same
// producers. Leaving out c.txns.add in cleanSegment, the edge or lastOfProducer in
// cleanBatch, or letting all idle markers go at once, fails it.
func TestHC126CompactionAgainstAModel(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var prefix []func(*keyed)
			if seed%4 == 1 {
				prefix = append(prefix, (*keyed).prehistory)
			}
			k := newKeyed(t, memFS(t), seed, prefix...)
			for range 5 {
				k.traffic(5 + k.rnd.IntN(40))
				if k.rnd.IntN(2) == 0 {
					ok(t, k.l.Roll(k.now))
				}
				k.flush()
				k.limits.MapBytes = int64(8+k.rnd.IntN(30)) * keySlotBytes
				k.stable = kafka.NoOffset
				if k.rnd.IntN(4) == 0 {
					k.stable = kafka.Offset(k.rnd.Int64N(int64(k.l.EndOffset()) + 1))
				}
				d := k.dirt()
				above := k.readAll(d.Upper)
				k.mustCompact()
				if !bytes.Equal(above, k.readAll(d.Upper)) {
					t.Fatal("batches above the bound were touched")
				}
				if k.l.CleanedTo() > max(d.Upper, d.First) {
					t.Fatalf("cleaned to %d, allowed to %d", k.l.CleanedTo(), d.Upper)
				}
				k.noHoles()
				k.check(k.stableEnd(), k.l.CleanedTo())
			}
			before := k.readAll(0)
			state := k.l.Producers().Snapshot()
			k.rp = 0
			if k.rnd.IntN(2) == 0 {
				ok(t, k.l.Close())
			}
			k.env = NewEnv(NewFiles(k.fs, 4))
			k.env.ProducerExpirationMs.Store(1 << 60)
			for _, s := range k.l.list() { // from the batches alone
				_ = k.fs.Remove(k.dir + "/" + fileName(s.base, extSnapshot))
			}
			k.bed.open()
			if !bytes.Equal(before, k.readAll(0)) {
				t.Fatalf("recovery gives another log: %+v", k.rep)
			}
			if again := k.l.Producers().Snapshot(); !slices.EqualFunc(state, again, func(a, b producerstate.Entry) bool {
				return a.ProducerID == b.ProducerID && a.Epoch == b.Epoch && a.LastSequence == b.LastSequence && a.LastOffset == b.LastOffset && a.TxnFirstOffset == b.TxnFirstOffset
			}) {
				t.Fatalf("producers\n%+v, recovered as\n%+v", state, again)
			}
			k.check(k.stableEnd(), 0)
		})
	}
}

// A crash at every change of the disk during a pass, by the process's death or by
// the power's: the log reopens without an error, with the same latest values, and
// the next pass succeeds. Leaving out the SyncDir of finish, that behind the .swap
// names, or that behind the .deleted ones, fails it.
func TestCompactionCrashesAnywhere(t *testing.T) {
	for _, power := range []bool{false, true} {
		seeds := uint64(3)
		if testing.Short() {
			seeds = 1
		}
		for seed := range seeds {
			for n := 0; ; n++ {
				if !crashedPass(t, power, seed, n) {
					if n < 10 {
						t.Fatalf("a pass of %d operations", n)
					}
					break
				}
			}
		}
	}
}

// crashedPass tells whether the crash came before the pass was over.
func crashedPass(t *testing.T, power bool, seed uint64, n int) (crashed bool) {
	t.Helper()
	mem := memFS(t)
	fault := vfs.NewFault(mem)
	var prefix []func(*keyed)
	if seed == 2 {
		prefix = append(prefix, (*keyed).prehistory)
	}
	k := newKeyed(t, fault, seed, prefix...)
	k.codecs = []batch.Codec{batch.None, batch.None, batch.None, batch.Snappy}
	k.cfg.SegmentBytes = 600
	k.traffic(40)
	if seed == 1 { // the second pass of this log
		k.roll()
		k.mustCompact()
		k.now += 2000
		k.traffic(20)
	}
	k.cfg.SegmentBytes = 3000 // so that segments are put together
	for _, pid := range slices.Sorted(maps.Keys(k.open)) {
		k.end(pid, seed%2 == 0)
	}
	ok(t, k.l.Roll(k.now))
	k.flush()
	k.rp = k.l.RecoveryPoint()
	end := k.l.EndOffset()
	die := func(after int) {
		left := after
		fault.SetHook(func(op vfs.Op) error {
			if op.Kind&vfs.OpMutate == 0 {
				return nil
			}
			if left--; left < 0 {
				return errCrash
			}
			return nil
		})
	}
	crash := func() {
		fault.SetHook(nil)
		if power {
			mem.CrashPower(k.rnd)
		} else {
			mem.CrashProcess()
		}
		k.env = NewEnv(NewFiles(fault, 2))
		k.env.ProducerExpirationMs.Store(1 << 60)
	}
	die(n)
	_, err := k.compact()
	if err != nil && !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	crashed = err != nil
	crash()
	if k.rnd.IntN(2) == 0 { // and again while it recovers
		die(k.rnd.IntN(12))
		if err := k.tryOpen(); err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		crash()
	}
	k.bed.open()
	if len(k.rep.Cuts) > 0 || k.l.EndOffset() != end {
		t.Fatalf("power=%v seed %d, crash after %d: end %d, was %d, %+v", power, seed, n, k.l.EndOffset(), end, k.rep)
	}
	k.noHoles()
	k.check(end, 0)
	k.flush()
	k.mustCompact()
	k.check(end, k.l.CleanedTo())
	for _, e := range must1(fault.ReadDir(k.dir)) {
		if hasSuffix(e.Name, extCleaned) || hasSuffix(e.Name, extSwap) {
			t.Fatalf("%s is left", e.Name)
		}
	}
	return crashed
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
