package bench

import (
	"context"
	"time"
)

// Clock is the time a pacer follows: a monotonic reading since some fixed
// moment, and a way to wait for one.
type Clock interface {
	// Now returns the time since the clock's start.
	Now() time.Duration
	// SleepUntil returns once Now is at least at, or when ctx ends.
	SleepUntil(ctx context.Context, at time.Duration)
}

// Pacer hands out the records of an open-loop schedule: record i is due at
// i/rate, whatever happened before. A closed loop (rate 0) has every record due
// at the moment it is asked for.
//
// A pacer is used by one goroutine.
type Pacer struct {
	clock     Clock
	perSecond float64 // records; 0 = closed loop
	start     time.Duration
	next      int64
}

// NewPacer starts a schedule now. recordsPerSecond 0 means full speed.
func NewPacer(clock Clock, recordsPerSecond float64) *Pacer {
	return &Pacer{clock: clock, perSecond: recordsPerSecond, start: clock.Now()}
}

// Next waits until the next record is due and returns when it was due and what
// time it is now. It never skips records: a pacer that fell behind returns at
// once until it has caught up, with due times that lie in the past.
func (p *Pacer) Next(ctx context.Context) (due, now time.Duration) {
	now = p.clock.Now()
	if p.perSecond <= 0 {
		return now, now
	}
	due = p.start + time.Duration(float64(p.next)*(float64(time.Second)/p.perSecond))
	p.next++
	if due > now {
		p.clock.SleepUntil(ctx, due)
		now = p.clock.Now()
	}
	return due, now
}

// wallClock is the real Clock.
type wallClock struct{ origin time.Time }

// newWallClock starts a clock at zero, now.
func newWallClock() *wallClock { return &wallClock{origin: time.Now()} }

// Now is part of Clock.
func (c *wallClock) Now() time.Duration { return time.Since(c.origin) }

// SleepUntil is part of Clock. Timers of this granularity wake up to a
// millisecond late on busy machines; the records that became due meanwhile are
// then sent together and their latency counts from their due time.
func (c *wallClock) SleepUntil(ctx context.Context, at time.Duration) {
	wait := at - c.Now()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
