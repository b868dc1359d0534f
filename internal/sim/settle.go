package sim

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
)

// settle ends all faults and waits for what must come: progress of a majority,
// brokers in service, and every running node at the leader's high watermark
// (HC-011).
func (w *World) settle() {
	w.faults = false
	w.net.heal()
	for _, n := range w.nodes {
		n.freeDisk()
		n.fault.Heal()
		n.resume()
		if !n.alive {
			n.boot()
		}
	}
	limit := 60*w.swarm.pace + 10*time.Second
	target := w.check.prefix.end() + 3
	w.until(limit, "progress", func() bool { return w.check.prefix.end() >= target })
	w.quiet = true // with tiny limits a snapshot may be gone before it is downloaded
	target = w.check.prefix.end()
	w.until(limit, "every node at the high watermark, and all brokers in service", func() bool {
		return w.lowest() >= target && w.inService()
	})
	for _, n := range w.nodes {
		if w.failed == nil {
			w.check.images.compare(n.r.Image(), "at the end, a node")
			w.check.images.reload(n)
		}
	}
	w.check.linear.finish()
}

// inService tells whether every broker serves.
func (w *World) inService() bool {
	for _, n := range w.nodes {
		if !n.alive || n.broker != nil && n.broker.core.Phase() != lifecycle.Running {
			return false
		}
	}
	return true
}

func (w *World) lowest() kafka.Offset {
	low := w.check.prefix.end()
	for _, n := range w.nodes {
		if !n.alive {
			return 0
		}
		low = min(low, n.applied)
	}
	return low
}

// until goes on until something is reached, within a bound of virtual time.
func (w *World) until(limit time.Duration, what string, reached func() bool) {
	deadline := w.now.Add(limit)
	for w.failed == nil && !reached() {
		if w.now >= deadline || !w.step() {
			w.violate("liveness", "not within %v after the last fault: %s: %s", limit, what, w.describe())
		}
	}
}
