package batch

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"moldau/internal/kafka"
)

// What Append leaves has the records that were kept, with their offsets,
// timestamps and headers, in every codec, with and without a delete horizon; the
// rest of the header stays. Not shifting the timestamps when the horizon takes the
// place of the base timestamp fails it.
func TestHC127AppendKeepsRecordsAsTheyWere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var w Workspace
	for i := range 400 {
		codec := Codec(i % 5)
		bl := NewBuilder(nil, kafka.Offset(rnd.IntN(1000)), 7)
		bl.ProducerID, bl.ProducerEpoch, bl.BaseSequence = 5, 2, 40
		n := 1 + rnd.IntN(20)
		for j := range n {
			value := bytes.Repeat([]byte{byte(j)}, rnd.IntN(100))
			if rnd.IntN(3) == 0 {
				value = nil
			}
			bl.Add(kafka.WallMs(rnd.Int64N(1<<42)), fmt.Append(nil, j), value, Header{Key: "h", Value: []byte{byte(j)}})
		}
		plain := bl.Finish()
		b := Batch(bytes.Clone(plain))
		if codec != None {
			rules := Rules{MaxBatchBytes: 1 << 20, MaxRecordBytes: 1 << 20, Recompress: true, Codec: codec, Level: defaultLevel(codec), BeforeMaxMs: 1 << 60, AfterMaxMs: 1 << 60}
			b.SetBaseOffset(0)
			out, bad := w.Produced(b, 9, &rules, 0)
			if bad.Code != 0 {
				t.Fatalf("%+v", bad)
			}
			b = bytes.Clone(out)
			b.SetBaseOffset(plain.BaseOffset())
			b.SetLeaderEpoch(plain.LeaderEpoch())
		}
		keep := map[kafka.Offset]bool{}
		tombstones := false
		var want []string
		newest := kafka.NoTimestamp
		text := func(b Batch, r *Record) string {
			return fmt.Sprint(b.BaseOffset()+kafka.Offset(r.OffsetDelta), int64(b.BaseTimestamp())+r.TimestampDelta, r.Key, r.Value == nil, r.Value, r.Headers)
		}
		_ = plain.EachRecord(func(r *Record) error {
			if o := plain.BaseOffset() + kafka.Offset(r.OffsetDelta); rnd.IntN(3) > 0 {
				keep[o] = true
				tombstones = tombstones || r.Value == nil
				want = append(want, text(plain, r))
				newest = max(newest, plain.BaseTimestamp()+kafka.WallMs(r.TimestampDelta))
			}
			return nil
		})
		f := Filter{Keep: func(k Keyed) bool { return keep[k.Offset] }, HorizonMs: kafka.WallMs(rnd.Int64N(1 << 42)), Mark: rnd.IntN(4) == 0, LimitBytes: 1 << 20}
		out, kept, err := w.Append([]byte("before"), b, &f)
		if err != nil || int(kept) != len(want) || !bytes.HasPrefix(out, []byte("before")) {
			t.Fatalf("kept %d of %d: %v", kept, len(want), err)
		}
		if kept == 0 {
			continue
		}
		got, rest, err := Next(out[len("before"):])
		if err != nil || len(rest) > 0 || !got.Valid() || got.Codec() != codec || got.BaseOffset() != b.BaseOffset() || got.LastOffset() != b.LastOffset() ||
			got.LastSequence() != b.LastSequence() || got.ProducerID() != 5 || got.LeaderEpoch() != 7 || got.MaxTimestamp() != newest && int(kept) < n {
			t.Fatalf("%v %v", err, got[:HeaderSize])
		}
		if mark := tombstones || f.Mark; got.HasDeleteHorizon() != mark || mark && got.BaseTimestamp() != f.HorizonMs {
			t.Fatalf("horizon %v at %d, want %v", got.HasDeleteHorizon(), got.BaseTimestamp(), mark)
		}
		records, err := w.DecompressAll(codec, got.Records(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		if err := Each(records, got.Count(), func(r *Record) error { have = append(have, text(got, r)); return nil }); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			t.Fatalf("kept\n%v, want\n%v", have, want)
		}
	}
}

// Records that are cut short or say wrong lengths are ErrCorrupt, whatever byte is
// changed; never a panic.
func TestAppendOfDamagedRecords(t *testing.T) {
	bl := NewBuilder(nil, 10, 1)
	for i := range 5 {
		bl.Add(kafka.WallMs(i), fmt.Append(nil, "key", i), []byte("value"), Header{Key: "h"})
	}
	good := bl.Finish()
	var w Workspace
	f := Filter{Keep: func(k Keyed) bool { return k.Offset%2 == 0 }, HorizonMs: 1 << 50, Mark: true, LimitBytes: 1 << 20}
	for at := HeaderSize; at < len(good); at++ {
		for _, x := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			b := Batch(bytes.Clone(good))
			b[at] = x
			if _, _, err := w.Append(nil, b, &f); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d = %x: %v", at, x, err)
			}
		}
	}
	if _, _, err := w.Append(nil, Batch(good[:len(good)-1]), &f); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("cut short: %v", err)
	}
}

func TestAppendEmptyKeepsOffsetsAndSequences(t *testing.T) {
	bl := NewBuilder(nil, 10, 3)
	bl.ProducerID, bl.ProducerEpoch, bl.BaseSequence, bl.Transactional = 9, 1, 5, true
	bl.Add(100, []byte("k"), nil)
	bl.Add(200, []byte("k"), nil)
	b := bl.Finish()
	e, rest, err := Next(AppendEmpty(nil, b))
	if err != nil || len(rest) > 0 || !e.Valid() || e.Count() != 0 || len(e.Records()) != 0 || e.BaseOffset() != 10 || e.LastOffset() != 11 ||
		e.LastSequence() != 6 || e.ProducerID() != 9 || e.ProducerEpoch() != 1 || e.LeaderEpoch() != 3 || !e.Transactional() || e.MaxTimestamp() != 200 || e.BaseTimestamp() != kafka.NoTimestamp {
		t.Fatalf("%v %v", err, e)
	}
}
