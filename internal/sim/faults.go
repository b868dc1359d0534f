package sim

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/vfs"
)

// errDisk is what injected disk errors are.
var errDisk = errors.New("injected disk error")

const dayMs = 24 * 3600 * 1000

// fault is something nasty that happens now and then.
type fault uint8

const (
	processCrash fault = iota
	powerLoss
	blackout // all nodes lose power at once: only the disks are left
	partition
	lossyNet
	pause
	wallStep
	diskError
	fullDisk
	connectionLost
	orderlyStop
)

// allFaults lists them, the frequent ones more than once.
var allFaults = []fault{
	processCrash, powerLoss, powerLoss, blackout, partition, partition, lossyNet, pause, wallStep, diskError, fullDisk, connectionLost, orderlyStop,
}

// scheduleFault does something nasty now and then, while faults last.
func (w *World) scheduleFault() {
	w.after(w.between(20*time.Millisecond, w.swarm.every), func() {
		if !w.faults {
			return
		}
		if len(w.swarm.faults) > 0 {
			w.fault(pick(w, w.swarm.faults...), pick(w, w.nodes...))
		}
		w.scheduleFault()
	})
}

func (w *World) fault(f fault, n *node) {
	switch f {
	case processCrash:
		n.crash(false)
	case powerLoss:
		n.crash(true)
	case blackout:
		if w.rng.IntN(4) == 0 {
			for _, n := range w.nodes {
				n.crash(true)
			}
		}
	case partition:
		if w.rng.IntN(2) == 0 {
			w.net.heal()
		} else {
			w.net.partition()
		}
	case lossyNet:
		w.net.loss = 0
		if w.rng.IntN(2) == 0 {
			w.net.loss = 0.4 * w.rng.Float64()
		}
	case pause:
		w.pauseFor(n, w.between(10*time.Millisecond, 6*w.swarm.pace))
	case wallStep:
		// The wall clock steps; nothing may depend on it (Trap 15).
		n.skewMs += pick[kafka.WallMs](w, -dayMs, dayMs, 1000, -1000)
	case diskError:
		n.failDisk()
	case fullDisk:
		n.fillDisk(w.between(100*time.Millisecond, 10*w.swarm.pace))
	case orderlyStop:
		life := n.life
		n.do(life, func() {
			if n.broker != nil {
				n.broker.step(lifecycle.ShutDown{})
			} else {
				n.leave()
			}
		})
	case connectionLost:
		if n.broker != nil {
			n.do(n.life, func() { n.broker.step(lifecycle.Disconnected{}) })
		}
		w.net.breakConnection(pick(w, w.nodes...), n)
	}
}

func (w *World) pauseFor(n *node, d time.Duration) {
	if !n.alive || n.paused {
		return
	}
	n.paused = true
	life := n.life
	w.after(d, func() {
		if n.life == life {
			n.resume()
		}
	})
}

// failDisk makes one of the next operations of a kind fail.
func (n *node) failDisk() {
	kind := pick(n.w, vfs.OpSync, vfs.OpWrite, vfs.OpRename, vfs.OpSyncDir, vfs.OpMutate)
	n.fault.Fail(vfs.Rule{Kinds: kind, Nth: 1 + n.w.rng.IntN(20), Err: errDisk})
}

// fillDisk leaves hardly any room for a while, whatever becomes of the process.
func (n *node) fillDisk(d time.Duration) {
	n.full++
	full := n.full
	n.fault.SetBudget(int64(n.w.rng.IntN(2000)))
	n.w.after(d, func() {
		if n.full == full {
			n.freeDisk()
		}
	})
}

func (n *node) freeDisk() {
	n.full = 0
	n.fault.SetBudget(-1)
}

// injected tells whether an error is our own doing.
func injected(err error) bool {
	return errors.Is(err, errDisk) || errors.Is(err, unix.ENOSPC)
}
