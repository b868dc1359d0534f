package bench

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxTrackedLatency bounds what a histogram distinguishes; anything above counts
// as this.
const maxTrackedLatency = 5 * time.Minute

// Recorder collects latencies in an HDR histogram with three digits. It belongs
// to one goroutine at a time.
type Recorder struct{ h *hdrhistogram.Histogram }

// NewRecorder returns an empty recorder, 1 µs to 5 min.
func NewRecorder() *Recorder {
	return &Recorder{h: hdrhistogram.New(1, int64(maxTrackedLatency/time.Microsecond), 3)}
}

// Record counts one latency. Values below 1 µs count as 0, values above the
// range as its end.
func (r *Recorder) Record(d time.Duration) {
	d = min(max(d, 0), maxTrackedLatency)
	_ = r.h.RecordValue(int64(d / time.Microsecond)) // in range: cannot fail
}

// Add merges another recorder into r.
func (r *Recorder) Add(other *Recorder) { r.h.Merge(other.h) }

// Percentiles is what a latency table shows. The JSON unit is milliseconds.
type Percentiles struct {
	Count  int64   `json:"count"`
	MeanMs float64 `json:"mean_ms"`
	P50Ms  float64 `json:"p50_ms"`
	P90Ms  float64 `json:"p90_ms"`
	P99Ms  float64 `json:"p99_ms"`
	P999Ms float64 `json:"p99.9_ms"`
	// P9999Ms is meaningful from about 100,000 records on.
	P9999Ms float64 `json:"p99.99_ms"`
	MaxMs   float64 `json:"max_ms"`
}

// Percentiles sums the recorder up; nil when it holds nothing.
func (r *Recorder) Percentiles() *Percentiles {
	if r.h.TotalCount() == 0 {
		return nil
	}
	at := func(q float64) float64 { return float64(r.h.ValueAtQuantile(q)) / 1e3 }
	return &Percentiles{
		Count: r.h.TotalCount(), MeanMs: r.h.Mean() / 1e3,
		P50Ms: at(50), P90Ms: at(90), P99Ms: at(99), P999Ms: at(99.9), P9999Ms: at(99.99),
		MaxMs: float64(r.h.Max()) / 1e3,
	}
}

// writeLatencies prints one row per named table; nil tables are left out.
func writeLatencies(w io.Writer, rows []latencyRow) {
	const layout = "%-12s %9s %9s %9s %9s %9s %9s\n"
	header := false
	for _, row := range rows {
		if row.table == nil {
			continue
		}
		if !header {
			fmt.Fprintf(w, layout, "latency", "p50", "p90", "p99", "p99.9", "p99.99", "max")
			header = true
		}
		ms := func(v float64) string { return FormatLatency(time.Duration(v * float64(time.Millisecond))) }
		t := row.table
		fmt.Fprintf(w, layout, row.name, ms(t.P50Ms), ms(t.P90Ms), ms(t.P99Ms), ms(t.P999Ms), ms(t.P9999Ms), ms(t.MaxMs))
	}
}

// latencyRow is one named line of a latency table.
type latencyRow struct {
	name  string
	table *Percentiles
}
