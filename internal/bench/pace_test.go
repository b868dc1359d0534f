package bench

import (
	"context"
	"testing"
	"time"
)

// fakeClock moves only when told, or when somebody sleeps.
type fakeClock struct {
	now    time.Duration
	late   time.Duration // how much too late a sleeper wakes
	sleeps int
}

func (c *fakeClock) Now() time.Duration { return c.now }

func (c *fakeClock) SleepUntil(_ context.Context, at time.Duration) {
	c.sleeps++
	c.now = max(c.now, at+c.late)
}

func TestPacerKeepsItsScheduleWhateverHappens(t *testing.T) {
	clock := &fakeClock{now: time.Second}
	pacer := NewPacer(clock, 1000) // one per millisecond
	for i := range 3 {
		due, now := pacer.Next(t.Context())
		if want := time.Second + time.Duration(i)*time.Millisecond; due != want || now != want {
			t.Fatalf("record %d: due %v at %v, want %v", i, due, now, want)
		}
	}
	clock.now += 10 * time.Millisecond // the sender was blocked
	slept := clock.sleeps
	for i := 3; i <= 12; i++ {
		due, now := pacer.Next(t.Context())
		// Fails if due is taken from now instead of the schedule (coordinated omission).
		if want := time.Second + time.Duration(i)*time.Millisecond; due != want {
			t.Fatalf("record %d: due %v, want %v", i, due, want)
		}
		if now != clock.now || now < due {
			t.Fatalf("record %d: handed out at %v, due %v", i, now, due)
		}
	}
	if clock.sleeps != slept {
		t.Errorf("slept %d times while behind", clock.sleeps-slept)
	}
	if due, now := pacer.Next(t.Context()); now != due || clock.sleeps != slept+1 {
		t.Errorf("after catching up: due %v at %v, %d sleeps", due, now, clock.sleeps-slept)
	}
}

func TestPacerDoesNotDrift(t *testing.T) {
	clock := &fakeClock{late: 900 * time.Microsecond}
	pacer := NewPacer(clock, 3)
	var due time.Duration
	for range 3_000_001 {
		due, _ = pacer.Next(t.Context())
	}
	if want := 1_000_000 * time.Second; (due - want).Abs() > time.Millisecond {
		t.Errorf("record 3,000,000 at 3/s is due at %v, want %v", due, want)
	}
}

func TestPacerAtFullSpeedNeverSleeps(t *testing.T) {
	clock := &fakeClock{}
	pacer := NewPacer(clock, 0)
	for range 10 {
		clock.now += time.Millisecond
		if due, now := pacer.Next(t.Context()); due != clock.now || now != clock.now {
			t.Fatalf("due %v at %v, want %v", due, now, clock.now)
		}
	}
	if clock.sleeps != 0 {
		t.Errorf("slept %d times", clock.sleeps)
	}
}
