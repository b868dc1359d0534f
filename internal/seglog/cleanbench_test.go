package seglog

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// BenchmarkCompaction cleans a log of 64 MB of 200-byte records over keys that
// occur twice or ten times, on the disk. MB/s is of the log; it is read twice
// (for the keys, then to copy).
func BenchmarkCompaction(b *testing.B) {
	for _, codec := range []batch.Codec{batch.None, batch.LZ4, batch.Zstd} {
		for _, times := range []int{2, 10} {
			b.Run(fmt.Sprintf("%s/%d-per-key", codec, times), func(b *testing.B) { benchCompaction(b, codec, times) })
		}
	}
}

func benchCompaction(b *testing.B, codec batch.Codec, times int) {
	const total, perBatch = 300_000, 100
	for b.Loop() {
		b.StopTimer()
		k := newKeyed(b, vfs.OS{}, 1)
		k.bed = newBed(b, vfs.OS{})
		k.dir = b.TempDir() + "/t-0"
		k.cfg.SegmentBytes, k.cfg.IndexIntervalBytes, k.cfg.MinCleanableRatio = 16<<20, 4096, 0
		k.bed.open()
		rnd := rand.New(rand.NewPCG(1, 1))
		value := make([]byte, 180)
		for range total / perBatch {
			bl := batch.NewBuilder(nil, k.l.EndOffset(), 1)
			for range perBatch {
				for i := range value {
					value[i] = byte('a' + rnd.IntN(8))
				}
				bl.Add(testNow, fmt.Appendf(nil, "key-%012d", rnd.IntN(total/times)), value)
			}
			ok(b, k.l.Append(testNow, compressed(b, bl.Finish(), codec)))
		}
		k.roll()
		size := k.l.SizeBytes()
		k.limits.MapBytes, k.limits.BufferBytes = 128<<20, 256<<10
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.StartTimer()
		c := k.mustCompact()
		b.StopTimer()
		runtime.ReadMemStats(&after)
		b.SetBytes(size)
		b.ReportMetric(float64(c.Stats.MapMemory)/(1<<20), "MB-map")
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), "MB-allocated")
		b.ReportMetric(float64(c.Stats.RecordsRead)/1e3, "krecords")
		ok(b, k.l.Close())
		if k.l.CleanedTo() != kafka.Offset(total) {
			b.Fatal("not all was cleaned")
		}
		b.StartTimer()
	}
}
