package seglog

import (
	"fmt"
	"math"

	"moldau/internal/kafka"
)

// Dirt tells what there is to clean in a compacted log.
type Dirt struct {
	// First is the first dirty offset: compaction has seen all before it.
	First kafka.Offset
	// Upper is where compaction must stop: the base of a segment.
	Upper kafka.Offset
	// CleanBytes and DirtyBytes are the sizes of the segments before First, and
	// from there to Upper.
	CleanBytes, DirtyBytes int64
	// Overdue: something dirty is older than max.compaction.lag.ms.
	Overdue bool
	// Expired: tombstones or markers that an earlier pass marked may go now.
	Expired bool
	// Invalid is what the checkpoint said, if it could not be true; else NoOffset.
	Invalid kafka.Offset
}

// Ratio is the dirty part of what could be cleaned, 0 to 1.
func (d Dirt) Ratio() float64 {
	if d.CleanBytes+d.DirtyBytes == 0 {
		return 0
	}
	return float64(d.DirtyBytes) / float64(d.CleanBytes+d.DirtyBytes)
}

// Due tells whether the log is to be cleaned.
func (d Dirt) Due(c *Config) bool {
	return d.DirtyBytes > 0 && (d.Overdue || d.Ratio() > c.MinCleanableRatio) || d.Expired
}

// CleanedTo is the offset up to which compaction has gone, for the checkpoint
// file cleaner-offset-checkpoint; 0 if it never has. Owner only.
func (l *Log) CleanedTo() kafka.Offset { return l.cleanedTo }

// Dirt measures what may be cleaned now: whole segments below the active one,
// below stable (the last stable offset, which no high watermark lies under), on
// the disk for sure, and older than min.compaction.lag.ms. A checkpoint that lies
// outside the log is put back to its start. (LogCleanerManager.cleanableOffsets,
// LogToClean.) Owner only.
func (l *Log) Dirt(now kafka.WallMs, stable kafka.Offset) (Dirt, error) {
	d := Dirt{Invalid: kafka.NoOffset}
	if err := l.usable(); err != nil {
		return d, err
	}
	start := l.StartOffset()
	if l.cleanedTo < start || l.cleanedTo > l.EndOffset() {
		if l.cleanedTo > l.EndOffset() {
			d.Invalid = l.cleanedTo
		}
		l.cleanedTo = start
	}
	d.First = l.cleanedTo
	c, segs := l.config.Load(), l.list()
	d.Upper = min(stable, l.active().base, l.recoveryPoint)
	from := max(floorSegment(segs, d.First), 0)
	for i := from; i < len(segs)-1 && c.MinCompactionLagMs > 0; i++ {
		ts, err := l.newest(segs[i])
		if err != nil {
			return d, err
		}
		if int64(ts) > int64(now)-c.MinCompactionLagMs {
			d.Upper = min(d.Upper, segs[i].base)
			break
		}
	}
	d.Upper = segs[max(floorSegment(segs, d.Upper), 0)].base
	oldest := kafka.WallMs(math.MaxInt64)
	for i, s := range segs[:len(segs)-1] {
		switch {
		case segs[i+1].base <= d.First:
			d.CleanBytes += s.size.Load()
		case s.base < d.Upper:
			d.DirtyBytes += s.size.Load()
		}
		if i >= from && segs[i+1].base > d.First && c.MaxCompactionLagMs != math.MaxInt64 {
			ts, err := l.firstTimestamp(s)
			if err != nil {
				return d, err
			}
			if ts > 0 {
				oldest = min(oldest, ts)
			}
		}
	}
	d.Overdue = oldest < now-kafka.WallMs(max(c.MaxCompactionLagMs, 0))
	d.Expired = l.horizonMs > 0 && l.horizonMs <= now && segs[0].base < min(d.First, d.Upper)
	return d, nil
}

// firstTimestamp is the largest timestamp of a segment's first batch. Owner only.
func (l *Log) firstTimestamp(s *segment) (kafka.WallMs, error) {
	if s.firstTs != tsUnknown || s.size.Load() == 0 {
		return max(s.firstTs, kafka.NoTimestamp), nil
	}
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return 0, err
	}
	defer h.unpin()
	w := newWalker(h.file, 0, s.size.Load(), make([]byte, headBytes))
	e, err := w.next()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", l.path(s.base, extLog), err)
	}
	s.firstTs = e.maxTs
	return e.maxTs, nil
}
