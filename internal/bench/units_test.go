package bench

import (
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	tests := []struct {
		text string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"100", 100, true}, {"100B", 100, true}, {"1KiB", 1024, true}, {"1kB", 1000, true},
		{"20MB", 20_000_000, true}, {"20MB/s", 20_000_000, true}, {"20 MB", 20_000_000, true}, {"1.5GB", 1_500_000_000, true},
		{"1GiB", 1 << 30, true}, {"2M", 2_000_000, true},
		{"", 0, false}, {"MB", 0, false}, {"-1", 0, false}, {"ten", 0, false}, {"NaN", 0, false}, {"1e300", 0, false}, {"1TB", 0, false},
	}
	for _, tt := range tests {
		got, err := ParseSize(tt.text)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("ParseSize(%q) = %d, %v; want %d, ok %v", tt.text, got, err, tt.want, tt.ok)
		}
	}
}

func TestFormat(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 999: "999 B", 1024: "1.0 kB", 20_000_000: "20.0 MB", 1_500_000_000: "1.50 GB"} {
		if got := FormatSize(bytes); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", bytes, got, want)
		}
	}
	latencies := map[time.Duration]string{
		0: "0 µs", 999 * time.Microsecond: "999 µs", 1500 * time.Microsecond: "1.50 ms", 25 * time.Millisecond: "25.0 ms",
		1200 * time.Millisecond: "1.20 s", 75 * time.Second: "75.0 s",
	}
	for d, want := range latencies {
		if got := FormatLatency(d); got != want {
			t.Errorf("FormatLatency(%v) = %q, want %q", d, got, want)
		}
	}
}
