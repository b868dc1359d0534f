package sim

import "time"

// swarm is what distinguishes one seed from the next: sizes, limits, and which
// faults are on. A fault that is always on hides what happens without it.
type swarm struct {
	controllers, brokers int
	spares               int   // controllers that are no voters at first
	combined             bool  // controllers are brokers, too
	kraft                int16 // kraft.version at format
	level                int16 // metadata.version at format
	elr                  bool

	// pace is the election timeout, latency what most messages take less than.
	// With short timeouts and a slow net, elections collide.
	pace, latency time.Duration
	// every is between which times a fault happens.
	every time.Duration

	segmentBytes  int64
	fetchBytes    int
	snapshotBytes int64
	retention     int64 // bytes of log and snapshots that stay; −1 is all
	fastFailover  bool
	voterChanges  bool // the operator is at work
	autoJoin      bool

	drop, duplicate, late float64 // of messages
	slowSync, slowDisk    float64
	drift                 bool
	faults                []fault // those that are on
}

// draw decides about a run.
func (w *World) draw() swarm {
	s := swarm{
		controllers: 3, brokers: 2, kraft: 1, level: latestLevel, elr: true,
		pace: time.Second, latency: 3 * time.Millisecond, every: time.Second,
		segmentBytes: 1 << 20, fetchBytes: 1 << 20, snapshotBytes: 20000, retention: -1,
	}
	s.controllers = pick(w, 3, 3, 5)
	s.brokers = w.rng.IntN(4)
	s.combined = s.brokers == 0 || w.rng.IntN(4) == 0
	s.kraft = pick[int16](w, 0, 1, 1)
	s.level = pick[int16](w, 7, 14, 17, 25, latestLevel, latestLevel)
	s.elr = s.level >= 23 && w.rng.IntN(2) == 0
	if w.cfg.Calm {
		return s
	}
	s.voterChanges, s.autoJoin = w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	s.spares = w.rng.IntN(3)
	s.pace = pick(w, time.Second, 300*time.Millisecond, 60*time.Millisecond)
	s.latency = pick(w, 3*time.Millisecond, 20*time.Millisecond)
	s.every = pick(w, 300*time.Millisecond, time.Second, 3*time.Second)
	s.segmentBytes = pick[int64](w, 2048, 4096, 1<<20)
	s.fetchBytes = pick(w, 300, 1000, 4096, 1<<20)
	if s.pace < 10*s.latency {
		s.fetchBytes = max(s.fetchBytes, 4096) // else replication is slower than the registrations that time out
	}
	s.snapshotBytes = pick[int64](w, 300, 3000, 20000)
	if s.retention = pick[int64](w, -1, 6000, 20000); s.retention >= 0 {
		s.fetchBytes = max(s.fetchBytes, 1000) // else snapshots are gone before they are downloaded
	}
	s.fastFailover = w.rng.IntN(2) == 0
	rate := func(p float64) float64 {
		if w.rng.IntN(2) == 0 {
			return 0
		}
		return p * w.rng.Float64()
	}
	s.drop, s.duplicate, s.late = rate(0.1), rate(0.04), rate(0.04)
	s.slowSync, s.slowDisk = rate(0.2), rate(0.5)
	s.drift = w.rng.IntN(2) == 0
	for _, f := range allFaults {
		if w.rng.IntN(5) < 3 {
			s.faults = append(s.faults, f)
		}
	}
	return s
}
