package partition

import (
	"strconv"

	"moldau/internal/config"
)

// CleanerSettings are the broker's settings of compaction, log.cleaner.*. They
// are immutable.
type CleanerSettings struct {
	// Threads is how many logs are cleaned at a time; 0 if the cleaner is off.
	Threads int
	// MapBytes is the memory for the keys of one log, BufferBytes that for its
	// reads and again for its writes: each thread's share.
	MapBytes    int64
	BufferBytes int
	LoadFactor  float64
	// BytesPerSecond bounds what all threads read and write together.
	BytesPerSecond float64
	BackoffMs      int64
}

// maxMapBytes is the largest share of one thread, as in Kafka.
const maxMapBytes = 1<<31 - 1

// CleanerSettingsOf derives them from the settings in force.
func CleanerSettingsOf(l config.Layers) *CleanerSettings {
	text := func(name string) string { v, _ := l.BrokerValue("log.cleaner." + name); return v }
	float := func(name string, otherwise float64) float64 {
		f, err := strconv.ParseFloat(text(name), 64)
		if err != nil {
			return otherwise
		}
		return f
	}
	// Integers are read as floats: none is so large that it would lose digits
	// that matter, and one that does not parse counts as unset.
	s := &CleanerSettings{
		Threads:    int(float("threads", 1)),
		LoadFactor: float("io.buffer.load.factor", 0.9), BytesPerSecond: float("io.max.bytes.per.second", 0),
		BackoffMs: int64(float("backoff.ms", 15_000)),
	}
	share := float64(max(s.Threads, 1))
	s.MapBytes = int64(min(float("dedupe.buffer.size", 128<<20)/share, maxMapBytes))
	s.BufferBytes = int(float("io.buffer.size", 512<<10) / share / 2)
	if text("enable") == "false" {
		s.Threads = 0
	}
	return s
}
