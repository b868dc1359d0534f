package seglog

import (
	"fmt"
	"runtime"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

func sizedBatch(size int) batch.Batch {
	bl := batch.NewBuilder(nil, 0, 0)
	bl.Add(1000, nil, make([]byte, size-batch.HeaderSize-12))
	return bl.Finish()
}

// Gate: 0 allocations per appended batch.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			bd := newBed(b, vfs.OS{})
			bd.dir = b.TempDir() + "/t-0"
			bd.cfg.IndexIntervalBytes = 4096
			bd.cfg.SegmentBytes, bd.cfg.RetentionBytes, bd.cfg.FileDeleteDelayMs = 256<<20, 0, 0
			bd.open()
			x := sizedBatch(size)
			b.SetBytes(int64(len(x)))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				x.SetBaseOffset(kafka.Offset(i))
				if err := bd.l.Append(testNow, x); err != nil {
					b.Fatal(err)
				}
				if i%(1<<14) == 0 {
					jobs, _ := bd.l.Retain(testNow, kafka.Offset(i))
					for _, j := range jobs {
						j.Run()
					}
				}
			}
		})
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	b := newBed(t, memFS(t))
	b.cfg.IndexIntervalBytes = 1 << 20
	b.open()
	x := sizedBatch(1 << 10)
	o := kafka.Offset(0)
	add := func() {
		x.SetBaseOffset(o)
		o++
		ok(t, b.l.Append(testNow, x))
	}
	for range 5000 {
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n > 0.1 { // memory of the file itself grows now and then
		t.Errorf("%v allocations per batch", n)
	}
}

func TestReadAtTheTailDoesNotAllocate(t *testing.T) {
	b := newBed(t, memFS(t)).open()
	b.append(0, 1, 1, 1, 1)
	if n := testing.AllocsPerRun(100, func() {
		r, err := b.l.Read(2, 4, 1<<20, true)
		if err != nil || r.Len == 0 {
			t.Fatal(err)
		}
		r.Release()
	}); n > 0 {
		t.Errorf("%v allocations per read", n)
	}
}

func BenchmarkReadTail(b *testing.B) {
	bd := newBed(b, vfs.OS{})
	bd.dir = b.TempDir() + "/t-0"
	bd.open()
	bd.append(0, make([]int, 0)...)
	for range 100 {
		bd.append(0, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := bd.l.Read(99, 100, 1<<20, true)
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

func BenchmarkReadOld(b *testing.B) {
	bd := newBed(b, vfs.OS{})
	bd.dir = b.TempDir() + "/t-0"
	bd.cfg.IndexIntervalBytes = 4096
	bd.open()
	for range 20000 {
		bd.append(0, 1)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r, err := bd.l.Read(kafka.Offset(i*7919%19000), 19900, 1<<20, true)
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

const manyLogs = 10_000

func makeLogs(b testing.TB, dir string, records int) *bed {
	bd := newBed(b, vfs.OS{})
	bd.env.Files = NewFiles(vfs.OS{}, 100)
	bd.cfg.IndexIntervalBytes = 4096
	for i := range manyLogs {
		bd.dir = fmt.Sprintf("%s/t-%d", dir, i)
		bd.open()
		for range records {
			ok(b, bd.l.Append(testNow, mkBatch(bd.l.EndOffset(), 0, 10, testNow)))
		}
		bd.l.closed = true // Close without its fsyncs, which are not measured here
		ok(b, bd.l.saveActive())
		ok(b, bd.l.takeSnapshot())
		ok(b, bd.l.writeFile(bd.dir+"/"+epochFile, bd.l.epochList().appendTo(nil), false))
		bd.env.Files.drop(bd.l.active())
	}
	return bd
}

// BenchmarkOpen10000Logs opens them one after the other, after a clean stop, and
// reports the memory of an idle log.
func BenchmarkOpen10000Logs(b *testing.B) {
	dir := b.TempDir()
	bd := makeLogs(b, dir, 5)
	logs := make([]*Log, manyLogs)
	b.ResetTimer()
	for range b.N {
		clear(logs)
		var before, after runtime.MemStats
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		for i := range logs {
			var err error
			logs[i], _, err = Open(Options{Env: bd.env, Dir: fmt.Sprintf("%s/t-%d", dir, i), Config: bd.cfg, Clean: true, Now: testNow})
			if err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/manyLogs, "B/log")
		b.ReportMetric(float64(bd.env.Files.Open()), "files")
		b.StartTimer()
	}
}
