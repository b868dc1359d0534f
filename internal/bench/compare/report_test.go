package compare

import (
	"encoding/json"
	"strings"
	"testing"

	"moldau/internal/bench"
)

func TestBetter(t *testing.T) {
	tests := []struct {
		a, b float64
		more bool
		want float64
		ok   bool
	}{
		{100, 200, true, 2, true}, {100, 50, false, 2, true}, {100, 50, true, 0.5, true}, {0, 5, true, 0, false}, {5, 0, false, 0, false},
	}
	for _, tt := range tests {
		got, ok := better(tt.a, tt.b, tt.more)
		if got != tt.want || ok != tt.ok {
			t.Errorf("better(%v, %v, %v) = %v, %v", tt.a, tt.b, tt.more, got, ok)
		}
	}
}

func TestReportTakesMediansAndRatios(t *testing.T) {
	servers := []Server{Kafka("k"), Moldau("m")}
	measured := map[string]samples{
		"kafka":  {"produce_1k_mb_s": {100, 300, 200}, "produce_1k_cpu": {6, 4}, "start_s": {5}},
		"moldau": {"produce_1k_mb_s": {900, 600, 600}, "produce_1k_cpu": {1}},
	}
	floor := []bench.FloorResult{{Mode: bench.FloorIn, Chunk: 4096, CPUPerGB: 0.5, MBPerSecond: 1500}}
	r := newReport(Machine{Load: "0.10"}, Options{Runs: 3}, servers, measured, floor)
	if got := r.Ratios; got["produce_1k_mb_s"] != 3 || got["produce_1k_cpu"] != 5 || len(got) != 2 {
		t.Errorf("ratios = %v", got)
	}
	var out strings.Builder
	r.WriteMarkdown(&out)
	for _, line := range []string{
		"| measure | unit | Apache Kafka 4.4 | moldau | moldau is better by |",
		"| produce 1 KiB, acks=all: throughput | MB/s | 200 | 600 | 3.00× |",
		"| produce 1 KiB, acks=all: broker CPU | CPU-s/GB | 5.00 | 1.00 | 5.00× |",
		"| start to ready, empty | s | 5.00 |  | |",
		"| in | 4096 | 0.500 | 1500 | 10.0× | 2.0× |",
		"share the",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

func TestEveryMetricHasItsOwnKey(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metrics() {
		if seen[m.key] || m.label == "" || m.unit == "" {
			t.Errorf("metric %+v", m)
		}
		seen[m.key] = true
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{1234.5: "1234", 45.67: "45.7", 4.567: "4.57", 0.4567: "0.457", 0: "0.00", 0.05: "0.05"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}
