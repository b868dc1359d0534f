package seglog

import (
	"os"
	"path/filepath"
	"testing"

	"moldau/internal/kafka"
)

func FuzzIndexes(f *testing.F) {
	files, _ := filepath.Glob("testdata/golden/metadata/*.index")
	for _, name := range files {
		a, _ := os.ReadFile(name)
		b, _ := os.ReadFile(name[:len(name)-len(extIndex)] + extTime)
		f.Add(a, b, int64(1<<20))
	}
	f.Add(make([]byte, 80), make([]byte, 120), int64(100))
	f.Fuzz(func(t *testing.T, offsets, times []byte, size int64) {
		ix, err := parseIndexes(offsets, times, size)
		if err != nil {
			return
		}
		for _, rel := range []int64{-1, 0, 5, 1 << 31, 1 << 40} {
			if p := ix.floorOffset(rel); p < 0 || p > 0 && p >= size {
				t.Errorf("position %d of %d", p, size)
			}
			ix.floorPosition(rel)
			ix.floorTime(kafka.WallMs(rel))
			ix.truncated(rel)
		}
		ix.lastPosition()
		ix.lastTime()
		if _, err := checkOffsets(ix.offsets.view(), size); err != nil {
			t.Error(err)
		}
	})
}

func FuzzEpochs(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n3 17\n"))
	f.Add([]byte("0\n2\n3 17\n0 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseEpochs(data)
		if err != nil {
			return
		}
		for i := 1; i < len(list); i++ {
			if list[i].Epoch <= list[i-1].Epoch || list[i].Start <= list[i-1].Start {
				t.Fatal(list)
			}
		}
		again, err := parseEpochs(list.appendTo(nil))
		if err != nil || len(again) != len(list) {
			t.Error(again, err)
		}
	})
}

// Any bytes as a segment: opening cuts or refuses, and what is left can be read
// from end to end and opens again without a cut.
func FuzzSegment(f *testing.F) {
	files, _ := filepath.Glob("testdata/golden/*/*.log")
	for _, name := range files {
		if data, _ := os.ReadFile(name); len(data) > 0 && len(data) < 8192 {
			f.Add(data, uint8(0))
		}
	}
	two := append(mkBatch(0, 0, 2, testNow), mkBatch(2, 1, 2, testNow)...)
	f.Add([]byte(two), uint8(1))
	f.Add(append(oldMessage(0, 3, 0, "x"), oldMessage(1, 4, 5, "y")...), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, rp uint8) {
		m := memFS(t)
		b := newBed(t, m)
		ok(t, m.MkdirAll(b.dir))
		patchNew(t, m, seg(b, 0, extLog))
		patch(t, m, seg(b, 0, extLog), func([]byte) []byte { return data })
		b.rp = kafka.Offset(rp)
		if b.tryOpen() != nil {
			return
		}
		end := b.l.EndOffset()
		for from := kafka.Offset(0); from < end; {
			r, err := b.l.Read(from, end, 1, true)
			ok(t, err)
			if r.Len == 0 {
				t.Fatalf("nothing at %d of %d", from, end)
			}
			e, err := parseHead(data[r.Position:], r.Position, int64(len(data)))
			ok(t, err)
			from = e.next()
			r.Release()
		}
		b.l.OffsetForTimestamp(0, end)
		b.l.MaxTimestamp()
		ok(t, b.l.Close())
		b.rp = 0
		b.open()
		if len(b.rep.Cuts) > 0 || b.l.EndOffset() != end {
			t.Errorf("opens differently: %+v, end %d, want %d", b.rep, b.l.EndOffset(), end)
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	data, _ := os.ReadFile("testdata/golden/transactions/00000000000000000000.txnindex")
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseAborted(data)
		if err != nil {
			return
		}
		var again []byte
		for _, x := range list {
			again = appendAborted(again, x)
		}
		if string(again) != string(data) {
			t.Error("encoded differently")
		}
	})
}
