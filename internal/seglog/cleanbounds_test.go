package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// write appends one record in a batch of its own; an empty value is a tombstone.
func (k *keyed) write(key, value string) {
	k.t.Helper()
	o := k.l.EndOffset()
	r := &stored{key: []byte(key), ts: k.now}
	if value != "" {
		r.value = []byte(value)
	}
	k.records[o] = r
	bl := batch.NewBuilder(nil, o, 1)
	bl.Add(r.ts, r.key, r.value, batch.Header{Key: "at", Value: fmt.Append(nil, o)})
	ok(k.t, k.l.Append(k.now, bl.Finish()))
}

func (k *keyed) roll() {
	k.t.Helper()
	ok(k.t, k.l.Roll(k.now))
	k.flush()
}

// Compaction stays below the last stable offset, the active segment, what is
// durable and min.compaction.lag.ms. Without one of the four in Log.Dirt a case
// fails.
func TestHC125Bounds(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	for range 4 { // segments at 0, 10, 20, 30; the last one is active and empty
		for i := range 10 {
			k.write(fmt.Sprint("k", i), "v")
		}
		if k.l.EndOffset() < 40 {
			ok(t, k.l.Roll(k.now))
			k.now += 1000
		}
	}
	ok(t, k.l.Roll(k.now))
	k.flush()
	for _, c := range []struct {
		name         string
		stable       kafka.Offset
		durable, lag int64
		want         kafka.Offset
	}{
		{"the active segment", 40, 40, 0, 40},
		{"uncommitted", 35, 40, 0, 30},
		{"uncommitted at a segment's base", 20, 40, 0, 20},
		{"nothing committed", 0, 40, 0, 0},
		{"not flushed", 40, 29, 0, 20},
		{"too young", 40, 40, 1500, 20},
		{"all too young", 40, 40, 100_000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k.cfg.MinCompactionLagMs = c.lag
			k.l.recoveryPoint = kafka.Offset(c.durable)
			d, err := k.l.Dirt(k.now, c.stable)
			ok(t, err)
			if d.Upper != c.want {
				t.Fatalf("cleans up to %d, want %d", d.Upper, c.want)
			}
		})
	}
}

// The first pass gives tombstones a horizon, whatever the records' own times; a
// later one removes them, even if nothing was written since, and their timestamps
// stay. Deleting by the record's timestamp fails the second step; not remembering
// the horizon the third.
func TestHC127Tombstones(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	k.cfg.DeleteRetentionMs = 5000
	k.write("a", "1")
	k.now -= 365 * 24 * 3600 * 1000
	k.write("a", "")
	k.now = testNow
	k.roll()
	k.mustCompact()
	got := k.consume(2)
	if len(got) != 1 || got[0].o != 1 || got[0].horizon != testNow+5000 {
		t.Fatalf("after the first pass: %+v", got)
	}
	k.now += 4999
	if d := k.dirt(); d.Due(k.cfg) {
		t.Fatalf("due before the horizon: %+v", d)
	}
	k.now++
	if k.mustCompact() == nil {
		t.Fatal("no pass after the horizon")
	}
	if got := k.consume(2); len(got) > 0 {
		t.Fatalf("after the horizon: %+v", got)
	}
	if d := k.dirt(); d.Due(k.cfg) {
		t.Fatalf("due again: %+v", d)
	}
	k.noHoles()
}

// Wherever log start, checkpoint and active segment lie, one pass leaves nothing
// due. Not putting the checkpoint back to the log start in Dirt fails it.
func TestHC128NothingIsDueAfterAPass(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		k := newKeyed(t, memFS(t), rnd.Uint64())
		k.cfg.SegmentBytes = 1 << 20
		for range 1 + rnd.IntN(5) {
			for range rnd.IntN(6) {
				k.write(fmt.Sprint("k", rnd.IntN(4)), "v")
			}
			if rnd.IntN(4) == 0 { // a segment of nothing but markers
				k.roll()
				k.end(9, rnd.IntN(2) == 0)
			}
			k.roll()
		}
		for range rnd.IntN(4) { // the log start may lie in the active segment
			k.write("last", "v")
		}
		end := int64(k.l.EndOffset())
		ok(t, k.l.AdvanceStart(kafka.Offset(rnd.Int64N(end+1))))
		k.l.cleanedTo = kafka.Offset(rnd.Int64N(end + 5))
		k.mustCompact()
		if d := k.dirt(); d.Due(k.cfg) {
			t.Fatalf("due after a pass: %+v, log %d to %d, %+v", d, k.l.StartOffset(), k.l.EndOffset(), k.l.Segments())
		}
		if c := k.l.CleanedTo(); c < k.l.StartOffset() || c > k.l.EndOffset() {
			t.Fatalf("checkpoint %d outside of the log", c)
		}
	}
}

// A pass that cannot get anywhere says so, instead of being tried for ever.
func TestHC128TooLittleMemory(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	bl := batch.NewBuilder(nil, 0, 1)
	for i := range 10 {
		bl.Add(testNow, fmt.Append(nil, i), []byte("v"))
	}
	ok(t, k.l.Append(testNow, bl.Finish()))
	k.roll()
	for _, bytes := range []int64{0, 10, 9 * keySlotBytes} {
		k.limits.MapBytes = bytes
		if _, err := k.compact(); !errors.Is(err, ErrUncleanable) || !strings.Contains(err.Error(), "log.cleaner.dedupe.buffer.size") {
			t.Fatalf("%d bytes: %v", bytes, err)
		}
	}
	k.limits.MapBytes = 13 * keySlotBytes
	k.mustCompact()
}

func TestOverdueLogsAreDue(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	k.cfg.MinCleanableRatio = 0.9
	k.write("a", "1")
	k.roll()
	k.mustCompact() // all dirty
	k.write("a", "2")
	k.roll()
	if d := k.dirt(); d.Ratio() != 0.5 || d.Due(k.cfg) {
		t.Fatalf("%+v", d)
	}
	k.cfg.MaxCompactionLagMs = 500
	k.now += 500
	if k.dirt().Due(k.cfg) {
		t.Fatal("due at its lag")
	}
	k.now++
	if !k.dirt().Due(k.cfg) {
		t.Fatal("not due beyond its lag")
	}
	k.cfg.MaxCompactionLagMs = math.MaxInt64
}

// Readers that go on while segments are swapped see every key, in order, whatever
// descriptors are open; what they have pinned stays. Opening a segment's file by
// its name without asking whether it is gone fails it, and so does publishing the
// list of segments after the renames.
func TestReadersDuringSwap(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	k.env = NewEnv(NewFiles(k.fs, 1))
	k.l.env = k.env
	k.cfg.SegmentBytes = 400
	for i := range 60 {
		k.write(fmt.Sprint("old", i), "value")
	}
	k.roll()
	pinned, err := k.l.Read(0, k.l.EndOffset(), 200, true)
	ok(t, err)
	before := make([]byte, pinned.Len)
	_, err = pinned.ReadAt(before, 0)
	ok(t, err)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := readThrough(k.l); err != nil {
					t.Error(err)
					return
				}
				if _, _, err := k.l.OffsetForTimestamp(testNow, math.MaxInt64); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	for round := range 40 {
		for i := range 20 {
			k.write(fmt.Sprint("k", (round+i)%25), fmt.Sprint(round))
		}
		k.roll()
		k.mustCompact()
	}
	close(stop)
	readers.Wait()
	after := make([]byte, pinned.Len)
	if _, err := pinned.ReadAt(after, 0); err != nil && err != io.EOF || !bytes.Equal(before, after) {
		t.Fatal("pinned range changed")
	}
	pinned.Release()
	k.check(k.stableEnd(), k.l.CleanedTo())
}

func readThrough(l *Log) error {
	end := l.EndOffset()
	for from := kafka.Offset(0); from < end; {
		r, err := l.Read(from, end, 300, true)
		if err != nil || r.Len == 0 {
			return err
		}
		buf := make([]byte, r.Len)
		if _, err := r.ReadAt(buf, 0); err != nil && err != io.EOF {
			return err
		}
		r.Release()
		for len(buf) > 0 {
			var b batch.Batch
			if b, buf, err = batch.Next(buf); err != nil {
				return err
			}
			if !b.Valid() || b.NextOffset() <= from {
				return fmt.Errorf("batch at %d behind %d, valid %v", b.BaseOffset(), from, b.Valid())
			}
			from = b.NextOffset()
		}
	}
	return nil
}

// What a JVM leaves that is killed in each phase of a swap of two segments into
// one (trap 12): the pass is undone while a .cleaned file is there, else finished.
func TestTrap12InterruptedSwap(t *testing.T) {
	for _, c := range []struct {
		name     string
		cleaned  []string // endings that are still .cleaned
		swap     []string // that are .swap
		final    []string // that have their name
		oldGone  bool     // the segment behind the first is .deleted
		finished bool
	}{
		{"being written", []string{extLog}, nil, nil, false, false},
		{"being renamed", []string{extTime}, []string{extLog, extIndex}, nil, false, false},
		{"to be swapped", nil, []string{extLog, extIndex, extTime}, nil, false, true},
		{"old ones deleted", nil, []string{extLog, extIndex, extTime}, nil, true, true},
		{"log in its place", nil, []string{extIndex, extTime}, []string{extLog}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := memFS(t)
			k := newKeyed(t, m, 1)
			for i := range 10 {
				k.write(fmt.Sprint("k", i%3), fmt.Sprint("v", i))
				if i%4 == 3 {
					k.roll()
				}
			}
			d := k.dirt()
			pass, err := k.l.PrepareCleaning(d, k.now)
			ok(t, err)
			ok(t, pass.Map(k.limits))
			g, err := pass.Next()
			ok(t, err)
			if len(g.group) != 2 {
				t.Fatalf("%d segments in a group", len(g.group))
			}
			move := func(exts []string, to string) {
				for _, ext := range exts {
					ok(t, m.Rename(k.l.path(0, ext+extCleaned), k.l.path(0, ext)+to))
				}
			}
			move(c.swap, extSwap)
			move(c.final, "")
			for _, ext := range []string{extLog, extIndex, extTime} {
				if !strings.Contains(strings.Join(c.cleaned, " "), ext) {
					_ = m.Remove(k.l.path(0, ext+extCleaned))
				}
			}
			if c.oldGone {
				for _, ext := range []string{extLog, extIndex, extTime} {
					ok(t, m.Rename(k.l.path(4, ext), k.l.path(4, ext+extDeleted)))
				}
			}
			k.rp = k.l.RecoveryPoint()
			k.env = NewEnv(NewFiles(m, 4))
			k.bed.open()
			if segs := len(k.l.Segments()); c.finished != (segs == 2) {
				t.Fatalf("%d segments: %+v", segs, k.rep)
			}
			k.check(10, 0)
			list, err := m.ReadDir(k.dir)
			ok(t, err)
			for _, e := range list {
				if hasSuffix(e.Name, extCleaned) || hasSuffix(e.Name, extSwap) || hasSuffix(e.Name, extDeleted) {
					t.Errorf("%s is left", e.Name)
				}
			}
		})
	}
}

// A folder whose segments Kafka's cleaner wrote (golden) goes through a pass of
// ours: the same record for every key.
func TestGoldenCompactedLogIsCleanedAgain(t *testing.T) {
	m := copyFolder(t, "testdata/golden/compacted")
	k := newKeyed(t, memFS(t), 1)
	k.bed = newBed(t, m)
	k.clean = true
	k.cfg.MinCleanableRatio, k.cfg.DeleteRetentionMs = 0, 1000
	k.bed.open()
	latest := func() map[string]string {
		out := map[string]string{}
		for rest := k.readAll(k.l.StartOffset()); len(rest) > 0; {
			var b batch.Batch
			var err error
			b, rest, err = batch.Next(rest)
			ok(t, err)
			ok(t, b.EachRecord(func(r *batch.Record) error {
				delete(out, string(r.Key))
				if r.Value != nil {
					out[string(r.Key)] = fmt.Sprintf("%d %s %d", b.BaseOffset()+kafka.Offset(r.OffsetDelta), r.Value, int64(b.BaseTimestamp())+r.TimestampDelta)
				}
				return nil
			}))
		}
		return out
	}
	want := latest()
	if len(want) == 0 {
		t.Fatal("no keys")
	}
	ok(t, k.l.Roll(testNow))
	k.flush()
	for range 2 {
		if k.mustCompact() == nil {
			t.Fatal("nothing to clean")
		}
		if got := latest(); !maps.Equal(want, got) {
			t.Fatalf("read\n%v, before\n%v", got, want)
		}
		k.l.cleanedTo = 0
		k.now += 2000
	}
	ok(t, k.l.Close())
}

// A pass, or a read_committed reader, that comes while the active segment's
// transaction index grows sees the whole entries; in a segment that is rolled, half
// an entry is damage.
func TestHalfAnEntryOfTheActiveTransactionIndex(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	for range 2 {
		k.put(3, true)
		k.end(3, false)
		if k.l.active().base == 0 {
			k.roll()
		}
	}
	f, err := k.fs.Open(k.l.path(k.l.active().base, extTxn), vfs.ReadWrite)
	ok(t, err)
	_, err = f.WriteAt(make([]byte, txnEntry/2), txnEntry)
	ok(t, err)
	ok(t, f.Close())
	if list, err := k.l.AbortedTxns(0, math.MaxInt64); err != nil || len(list) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	k.mustCompact()
	k.roll()
	var corrupt *CorruptError
	if _, err := k.l.AbortedTxns(0, math.MaxInt64); !errors.As(err, &corrupt) || corrupt.Position != txnEntry {
		t.Fatal(err)
	}
}

// DeleteRecords and retention in the middle of a pass make it void, at whatever
// step they come, and nothing else; an advanced log start alone does not. Without
// the wrapping in void a segment that was deleted looks like one that was lost.
func TestSegmentsAreDeletedUnderAPass(t *testing.T) {
	for step := range 6 {
		k := newKeyed(t, memFS(t), 1)
		k.env = NewEnv(NewFiles(k.fs, 1))
		k.l.env = k.env
		k.cfg.SegmentBytes = 200
		for i := range 8 {
			k.write(fmt.Sprint("k", i%3), fmt.Sprint(i))
			k.roll()
		}
		remove := func(at int) {
			if at == step%3 {
				ok(t, k.l.AdvanceStart(5))
				if step < 3 {
					jobs, err := k.l.Retain(k.now, 8)
					ok(t, err)
					for _, j := range jobs {
						ok(t, j.Run())
					}
				}
			}
		}
		pass := func() error {
			c, err := k.l.PrepareCleaning(k.dirt(), k.now)
			ok(t, err)
			remove(0)
			if err := c.Map(k.limits); err != nil {
				return err
			}
			remove(1)
			for {
				g, err := c.Next()
				if err != nil {
					return err
				}
				if g == nil {
					return k.l.CleaningDone(c)
				}
				remove(2)
				if _, err = k.l.Swap(g, k.now); err != nil {
					return err
				}
			}
		}
		if err := pass(); step < 3 && !errors.Is(err, ErrChanged) || step >= 3 && err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if k.l.Offline() != nil || k.l.StartOffset() != 5 {
			t.Fatal(k.l.Offline(), k.l.StartOffset())
		}
		k.mustCompact()
		if d := k.dirt(); d.Due(k.cfg) {
			t.Fatalf("step %d: due again: %+v", step, d)
		}
		want := []kafka.Offset{5, 6, 7}
		for _, s := range k.consume(8) {
			if len(want) == 0 || s.o != want[0] {
				t.Fatalf("step %d: read %d", step, s.o)
			}
			want = want[1:]
		}
		if len(want) > 0 {
			t.Fatalf("step %d: %v are missing", step, want)
		}
	}
}

// A tombstone in the segment in which the key table became full gets its horizon
// from the pass that removes what it hides, not from the one before: a reader who
// has seen the old value has delete.retention.ms to see the tombstone (Kafka marks
// it in the first). Filtering batches above the end fails it.
func TestHC127TombstoneAboveTheEndOfAPass(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	k.cfg.DeleteRetentionMs = 5000
	k.limits.MapBytes = 5 * keySlotBytes // 4 keys
	k.write("x", "old")
	k.roll()
	k.mustCompact()
	for i := range 4 {
		k.write(fmt.Sprint("k", i), "v")
	}
	k.write("x", "")
	k.roll()
	if c := k.mustCompact(); c.End() != 5 {
		t.Fatalf("pass to %d", c.End())
	}
	k.now += 6000
	k.mustCompact()
	got := k.consume(6)
	if last := got[len(got)-1]; len(got) != 5 || last.o != 5 || last.horizon != k.now+5000 {
		t.Fatalf("%+v", got)
	}
	k.now += 5000
	k.mustCompact()
	if got := k.consume(6); len(got) != 4 {
		t.Fatalf("%+v", got)
	}
}

// A delete.retention.ms that reaches beyond all time keeps tombstones and markers
// for ever. Adding it to now without care makes them go with the next pass.
func TestHC127TombstonesForEver(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	for _, ms := range []int64{math.MaxInt64, math.MaxInt64 - int64(testNow), math.MaxInt64 - int64(testNow) - 10} {
		k.cfg.DeleteRetentionMs = ms
		k.write(fmt.Sprint("k", ms), "")
		k.end(5, false)
		k.roll()
		before := len(k.consume(k.l.EndOffset()))
		for range 3 {
			k.mustCompact()
			k.l.cleanedTo = 0
			k.now++
		}
		if got := len(k.consume(k.l.EndOffset())); got != before {
			t.Fatalf("%d records of %d with %d", got, before, ms)
		}
	}
}

// Null keys go, empty ones are keys, and keys of a megabyte work in the smallest
// buffers, with every codec.
func TestOddKeys(t *testing.T) {
	for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
		k := newKeyed(t, memFS(t), 1)
		k.cfg.SegmentBytes = 8 << 20
		k.limits.BufferBytes, k.limits.MapBytes = 1, 5*keySlotBytes
		large := func(b byte) []byte { return bytes.Repeat([]byte{b}, 1<<20-100) }
		keys := [][]byte{nil, {}, large('x'), {}, nil, large('y'), large('x')}
		for i, key := range keys {
			bl := batch.NewBuilder(nil, k.l.EndOffset(), 1)
			bl.Add(k.now, key, fmt.Append(nil, i))
			ok(t, k.l.Append(k.now, compressed(t, bl.Finish(), codec)))
		}
		k.roll()
		c := k.mustCompact()
		if c.Stats.KeylessRecords != 2 || c.Stats.Keys != 3 {
			t.Fatalf("%s: %+v", codec, c.Stats)
		}
		var got []kafka.Offset
		var w batch.Workspace
		for rest := k.readAll(0); len(rest) > 0; {
			var b batch.Batch
			var err error
			b, rest, err = batch.Next(rest)
			ok(t, err)
			ok(t, w.EachKeyed(b, 2<<20, func(r batch.Keyed) bool {
				got = append(got, r.Offset)
				if !bytes.Equal(r.Key, keys[r.Offset]) {
					t.Fatalf("%s: key at %d", codec, r.Offset)
				}
				return true
			}))
		}
		if fmt.Sprint(got) != "[3 5 6]" {
			t.Fatalf("%s: %v stay", codec, got)
		}
	}
}
