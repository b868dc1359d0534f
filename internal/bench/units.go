package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unit is a suffix of a size and the number of bytes it stands for.
type unit struct {
	suffix string
	bytes  float64
}

// units lists the suffixes that ParseSize knows, longest first, so that the
// first match is the right one.
func units() []unit {
	return []unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
		{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9},
		{"B", 1},
	}
}

// ParseSize reads a number of bytes: "100", "1KiB", "20MB", "1.5GB", with an
// optional "/s" behind it. KiB, MiB and GiB are powers of 1024, all others
// powers of 1000.
func ParseSize(text string) (int64, error) {
	number := strings.TrimSuffix(strings.TrimSpace(text), "/s")
	factor := 1.0
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(value) || value < 0 || value*factor > 1<<62 {
		return 0, fmt.Errorf("size %q: want a number of bytes such as 100, 1KiB, 20MB or 1GiB", text)
	}
	return int64(value * factor), nil
}

// FormatSize writes a number of bytes for people, with decimal units.
func FormatSize(bytes int64) string {
	switch v := float64(bytes); {
	case bytes >= 1e9:
		return fmt.Sprintf("%.2f GB", v/1e9)
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", v/1e6)
	case bytes >= 1e3:
		return fmt.Sprintf("%.1f kB", v/1e3)
	}
	return fmt.Sprintf("%d B", bytes)
}

// FormatLatency writes a latency with three significant digits or so.
func FormatLatency(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f µs", float64(d)/1e3)
}
