package seglog

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

func TestEpochRules(t *testing.T) {
	var l epochs
	for _, e := range []EpochStart{{2, 6}, {2, 9}, {3, 11}, {7, 20}} {
		l, _ = l.assign(e.Epoch, e.Start)
	}
	if !slices.Equal(l, epochs{{2, 6}, {3, 11}, {7, 20}}) {
		t.Fatal(l)
	}
	for _, c := range []struct {
		epoch, want kafka.Epoch
		end         kafka.Offset
	}{{-1, -1, -1}, {0, 0, 6}, {1, 1, 6}, {2, 2, 11}, {3, 3, 20}, {5, 3, 20}, {7, 7, 30}, {8, -1, -1}} {
		if e, o := l.endOffset(c.epoch, 30); e != c.want || o != c.end {
			t.Errorf("epoch %d ends as %d at %d, want %d at %d", c.epoch, e, o, c.want, c.end)
		}
	}
	for o, want := range map[kafka.Offset]kafka.Epoch{5: -1, 6: 2, 10: 2, 11: 3, 25: 7} {
		if e := l.at(o); e != want {
			t.Errorf("offset %d is of epoch %d, want %d", o, e, want)
		}
	}
	type cut = func(kafka.Offset) (epochs, bool)
	for _, c := range []struct {
		f    cut
		o    kafka.Offset
		want epochs
	}{
		{l.truncateEnd, 20, epochs{{2, 6}, {3, 11}}}, {l.truncateEnd, 21, l}, {l.truncateEnd, 6, epochs{}},
		{l.truncateStart, 6, l}, {l.truncateStart, 7, epochs{{2, 7}, {3, 11}, {7, 20}}}, {l.truncateStart, 5, l},
		{l.truncateStart, 11, epochs{{3, 11}, {7, 20}}}, {l.truncateStart, 40, epochs{{7, 40}}},
	} {
		if got, _ := c.f(c.o); !slices.Equal(got, c.want) {
			t.Errorf("cut at %d: %v, want %v", c.o, got, c.want)
		}
	}
	if got, _ := l.assign(5, 10); !slices.Equal(got, epochs{{2, 6}, {5, 10}}) {
		t.Error("conflicting entries stay:", got)
	}
}

func TestTimestampLookup(t *testing.T) {
	b := newBed(t, memFS(t))
	b.cfg.SegmentBytes, b.cfg.IndexIntervalBytes = 700, 100
	b.open()
	stamps := []kafka.WallMs{}
	for i := range 60 {
		ts := testNow + kafka.WallMs(i*100+(i*37%5)*150) // not sorted
		o := b.l.EndOffset()
		ok(t, b.l.Append(testNow, mkBatch(o, kafka.Epoch(i/30), 3, ts)))
		stamps = append(stamps, ts, ts+1, ts+2)
	}
	naive := func(ts kafka.WallMs, from int) (kafka.Offset, bool) {
		for o := from; o < len(stamps); o++ {
			if stamps[o] >= ts {
				return kafka.Offset(o), true
			}
		}
		return 0, false
	}
	check := func() {
		t.Helper()
		for ts := testNow - 10; ts < testNow+7000; ts += 7 {
			want, exists := naive(ts, int(b.l.StartOffset()))
			got, found, err := b.l.OffsetForTimestamp(ts, b.l.EndOffset())
			ok(t, err)
			if found != exists || found && (got.Offset != want || got.Timestamp != stamps[want] || got.Epoch != kafka.Epoch(want/90)) {
				t.Fatalf("timestamp %d: %+v %v, want %d %v", ts, got, found, want, exists)
			}
		}
		top := slices.Max(stamps)
		if got, found, err := b.l.MaxTimestamp(); err != nil || !found || got.Timestamp != top || got.Offset != kafka.Offset(slices.Index(stamps, top)) {
			t.Errorf("max %+v %v", got, err)
		}
	}
	check()
	ok(t, b.l.Rest())
	if n := b.env.Files.Open(); n != 0 {
		t.Errorf("%d files open at rest", n)
	}
	check()
	ok(t, b.l.AdvanceStart(50))
	check()
	ok(t, b.l.Close())
	b.clean, b.start = true, 50
	b.open()
	check()
	if _, found, err := b.l.OffsetForTimestamp(testNow+5900, 60); found || err != nil {
		t.Error("beyond the upper bound", err)
	}
}

// Compressed batches are looked into, whatever they expand to. One that cannot be
// read is no damage of the file.
func TestTimestampLookupInCompressedBatch(t *testing.T) {
	b := newBed(t, memFS(t)).open()
	for i, codec := range []batch.Codec{batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
		bl := batch.NewBuilder(nil, kafka.Offset(10*i), 4)
		bl.Codec = codec
		for j := range 10 {
			bl.Add(kafka.WallMs(5000+10*i+j), []byte("key"), make([]byte, 100_000))
		}
		ok(t, b.l.Append(testNow, bl.Finish()))
	}
	for o := range kafka.Offset(40) {
		if got, found, err := b.l.OffsetForTimestamp(5000+kafka.WallMs(o), 40); err != nil || !found || got != (TimestampOffset{5000 + kafka.WallMs(o), o, 4}) {
			t.Error(o, got, found, err)
		}
	}
	bad := bytes.Clone(mkBatch(40, 4, 10, 6000))
	bad[22] = byte(batch.Gzip)
	x := batch.Batch(bad)
	x.SetMaxTimestamp(true, 6000) // a change, so that the checksum is made anew
	ok(t, b.l.Append(testNow, x))
	var damage *CorruptError
	if _, _, err := b.l.OffsetForTimestamp(6000, 50); !errors.Is(err, batch.ErrCorrupt) || errors.As(err, &damage) {
		t.Error(err)
	}
}

// In a compressed set of format v1 the first message with the timestamp is found,
// not the last of the set: whoever reads from there would miss those between. In one
// by log append time all messages have the set's. Fails if searchBatch answers for
// old formats without looking inside, or searchOld forgets the log start.
func TestTimestampLookupInOldSets(t *testing.T) {
	b := newBed(t, memFS(t))
	ok(t, b.fs.MkdirAll(b.dir))
	set := func(last kafka.Offset, attributes byte, outer kafka.WallMs, stamps ...kafka.WallMs) []byte {
		var inner []byte
		for i, ts := range stamps {
			inner = append(inner, oldEntry(1, 0, kafka.Offset(i), ts, nil, []byte("v"))...)
		}
		packed, err := batch.Compress(nil, batch.Gzip, -1, inner)
		ok(t, err)
		return oldEntry(1, attributes|byte(batch.Gzip), last, outer, nil, packed)
	}
	data := oldEntry(0, 0, 0, 0, nil, []byte("no timestamp"))
	data = append(data, set(4, 0, 140, 110, 120, 140, 130)...)              // 1 to 4
	data = append(data, set(7, 8, 200, 1, 2, 3)...)                         // 5 to 7, log append time
	data = append(data, oldEntry(1, 1, 8, 250, nil, []byte("not gzip"))...) // nobody can read it
	data = append(data, set(11, 0, 300, 210, 300, 300)...)                  // 9 to 11
	patchNew(t, b.fs, seg(b, 0, extLog))
	patch(t, b.fs, seg(b, 0, extLog), func([]byte) []byte { return data })
	b.open()
	for _, c := range []struct{ start, ts, want, stamp int64 }{
		{0, 100, 1, 110}, {0, 111, 2, 120}, {0, 121, 3, 140}, {0, 135, 3, 140}, {0, 141, 5, 200}, {0, 200, 5, 200},
		{0, 201, 8, 250}, {0, 251, 10, 300}, {2, 100, 2, 120}, {4, 100, 4, 130}, {4, 135, 5, 200}, {6, 150, 6, 200},
	} {
		ok(t, b.l.AdvanceStart(kafka.Offset(c.start)))
		got, found, err := b.l.OffsetForTimestamp(kafka.WallMs(c.ts), b.l.EndOffset())
		if want := (TimestampOffset{kafka.WallMs(c.stamp), kafka.Offset(c.want), kafka.NoEpoch}); err != nil || !found || got != want {
			t.Errorf("from %d, timestamp %d: %+v %v %v, want %+v", c.start, c.ts, got, found, err, want)
		}
	}
	if got, found, err := b.l.MaxTimestamp(); err != nil || !found || got != (TimestampOffset{300, 10, kafka.NoEpoch}) {
		t.Errorf("the largest is %+v %v %v", got, found, err)
	}
}

func TestTruncateFullyAndRestart(t *testing.T) {
	b := newBed(t, memFS(t)).open()
	b.append(3, 5, 5)
	jobs, err := b.l.TruncateFully(100, testNow)
	ok(t, err)
	if b.l.StartOffset() != 100 || b.l.EndOffset() != 100 || len(b.l.Epochs()) != 0 || b.l.Producers().EndOffset() != 100 {
		t.Error(b.l.StartOffset(), b.l.EndOffset(), b.l.Epochs())
	}
	b.append(4, 5)
	for _, j := range jobs {
		ok(t, j.Run())
	}
	ok(t, b.l.Close())
	b.open()
	if b.l.StartOffset() != 100 || b.l.EndOffset() != 105 || b.l.LatestEpoch() != 4 {
		t.Error(b.l.StartOffset(), b.l.EndOffset(), b.l.LatestEpoch())
	}
}

func TestAppendRefusesDisorder(t *testing.T) {
	b := newBed(t, memFS(t)).open()
	b.append(0, 5)
	for _, x := range []batch.Batch{mkBatch(4, 0, 1, 0), mkBatch(5, 0, 1, 0)[:70], nil} {
		if err := b.l.Append(testNow, x); err == nil {
			t.Errorf("appended %d bytes", len(x))
		}
	}
	ok(t, b.l.Append(testNow, mkBatch(9, 0, 1, 0)))
	if b.l.EndOffset() != 10 {
		t.Error(b.l.EndOffset())
	}
	if _, err := b.l.Read(6, 10, 1000, true); err != nil {
		t.Error("a gap is not out of range:", err)
	}
}

// Segments roll by size, by the timestamps of the records, and when offsets get
// too far from the base.
func TestRollRules(t *testing.T) {
	b := newBed(t, memFS(t))
	b.cfg.SegmentMs = 1000
	b.env.Jitter = func(n int64) int64 { return n / 2 }
	b.open()
	at := func(o kafka.Offset, ts kafka.WallMs, segments int) {
		t.Helper()
		ok(t, b.l.Append(testNow, mkBatch(o, 0, 1, ts)))
		if n := len(b.l.Segments()); n != segments {
			t.Fatalf("%d segments, want %d", n, segments)
		}
	}
	at(0, 5000, 1)
	at(1, 6000, 1)
	at(2, 6001, 2)
	at(3, 6000, 2)
	at(8+1<<31, 6000, 3)
	if got := b.l.Segments()[2].BaseOffset; got != 8+1<<31 {
		t.Error("base", got)
	}
	c := *b.cfg
	c.SegmentBytes = 100
	b.cfg = &c
	b.l.SetConfig(&c)
	at(9+1<<31, 6000, 4)
	ok(t, b.l.Close())
	b.clean = true
	b.open()
	at(11+1<<31, 6000, 5)
}

// The record with the largest timestamp is found although compaction has kept the
// batch of a larger one without its records, for its producer's sequence, and
// although the log start lies behind a larger one. Taking what the segments claim
// for the answer, as Kafka does, finds none.
func TestMaxTimestampBesideEmptyBatches(t *testing.T) {
	k := newKeyed(t, memFS(t), 1)
	produce := func(pid kafka.ProducerID, key string, ts kafka.WallMs) {
		bl := batch.NewBuilder(nil, k.l.EndOffset(), 1)
		if bl.ProducerID = pid; pid >= 0 {
			bl.ProducerEpoch, bl.BaseSequence = 0, 0
		}
		bl.Add(ts, []byte(key), []byte("v"))
		ok(t, k.l.Append(k.now, bl.Finish()))
	}
	produce(kafka.NoProducerID, "gone", testNow+9000)
	produce(kafka.NoProducerID, "old", testNow+7000)
	k.roll()
	produce(7, "a", testNow+5000) // superseded; kept empty
	produce(kafka.NoProducerID, "b", testNow+4000)
	produce(kafka.NoProducerID, "a", testNow+1000)
	k.roll()
	ok(t, k.l.AdvanceStart(2))
	expect := func(o kafka.Offset, ts kafka.WallMs) {
		t.Helper()
		got, found, err := k.l.MaxTimestamp()
		ok(t, err)
		if !found || got.Offset != o || got.Timestamp != ts {
			t.Fatalf("largest timestamp at %+v (%v), want %d at %d", got, found, ts, o)
		}
	}
	expect(2, testNow+5000)
	k.mustCompact()
	expect(3, testNow+4000)
	produce(kafka.NoProducerID, "c", testNow+4500)
	expect(5, testNow+4500)
}
