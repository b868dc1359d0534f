package bench

import (
	"strings"
	"testing"
	"time"
)

func TestRecorderPercentiles(t *testing.T) {
	a, b := NewRecorder(), NewRecorder()
	for i := 1; i <= 1000; i++ {
		r := a
		if i%2 == 0 {
			r = b
		}
		r.Record(time.Duration(i) * time.Millisecond)
	}
	a.Add(b)
	got := a.Percentiles()
	near := func(name string, got, want float64) {
		if got < want*0.998 || got > want*1.002 {
			t.Errorf("%s = %v ms, want about %v", name, got, want)
		}
	}
	near("p50", got.P50Ms, 500)
	near("p90", got.P90Ms, 900)
	near("p99", got.P99Ms, 990)
	near("p99.9", got.P999Ms, 999)
	near("max", got.MaxMs, 1000)
	if got.Count != 1000 {
		t.Errorf("count = %d", got.Count)
	}
}

func TestRecorderBoundsWhatItIsGiven(t *testing.T) {
	r := NewRecorder()
	if r.Percentiles() != nil {
		t.Error("an empty recorder has percentiles")
	}
	r.Record(-time.Second)
	r.Record(time.Hour)
	got := r.Percentiles()
	if got.Count != 2 || got.P50Ms != 0 || got.MaxMs < 300_000 || got.MaxMs > 301_000 {
		t.Errorf("percentiles = %+v", got)
	}
}

func TestResultText(t *testing.T) {
	r := Result{
		Test: "produce", Topic: "t", Partitions: 3, Records: 1000, Bytes: 1_024_000, Seconds: 2, MBPerSecond: 0.512,
		RecordsPerSecond: 500, TargetMBPerSecond: 1,
		Ack:    &Percentiles{Count: 1000, P50Ms: 0.25, P90Ms: 1.5, P99Ms: 20, P999Ms: 300, P9999Ms: 1500, MaxMs: 12000},
		Broker: &BrokerUsage{CPUSeconds: 1.5, CPUPerGB: 1464.84, PeakRSSBytes: 60e6, EndRSSBytes: 50e6, PeakIsLifetime: true},
		Notes:  []string{"a remark"}, ClientCPUSeconds: 0.5, ClientCPUPerGB: 488.28,
	}
	var out strings.Builder
	r.Write(&out)
	want := strings.TrimPrefix(`
produce t (3 partitions): 1000 records, 1.0 MB in 2.00 s
throughput   0.5 MB/s, 500 records/s (target 1.0 MB/s)
latency            p50       p90       p99     p99.9    p99.99       max
  ack           250 µs   1.50 ms   20.0 ms  300.0 ms    1.50 s    12.0 s
broker       1.50 CPU-s, 1464.84 CPU-s/GB, RSS peak 60.0 MB, now 50.0 MB (peak since its start)
client       0.50 CPU-s, 488.28 CPU-s/GB
note: a remark
`, "\n")
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}
