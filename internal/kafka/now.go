package kafka

import "time"

// Mono is a reading of the monotonic clock: nanoseconds since some moment
// before the process began to work. It never falls. Sessions, elections and
// waits use it; it means nothing outside the process.
type Mono int64

// Add gives the moment d later, saturating instead of wrapping.
func (m Mono) Add(d time.Duration) Mono {
	sum := m + Mono(d)
	if d > 0 && sum < m {
		return Never
	}
	return sum
}

// Sub gives the time from o to m.
func (m Mono) Sub(o Mono) time.Duration { return time.Duration(m - o) }

// Never is the deadline that does not come.
const Never Mono = 1<<63 - 1

// WallMs is a wall-clock time in milliseconds since 1970 UTC. It can step in
// both directions. Record timestamps and retention use it. −1 means none.
type WallMs int64

// NoTimestamp stands for "no timestamp".
const NoTimestamp WallMs = -1

// Now is the pair of clocks that an event carries into a core.
type Now struct {
	Mono Mono
	Wall WallMs
}
