package sim

import (
	"errors"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// errDisk is what injected disk errors are.
var errDisk = errors.New("injected disk error")

const dayMs = 24 * 3600 * 1000

// scheduleFault does something nasty now and then, while faults last.
func (w *World) scheduleFault() {
	w.after(w.between(20*time.Millisecond, 1500*time.Millisecond), func() {
		if !w.faults {
			return
		}
		w.fault()
		w.scheduleFault()
	})
}

func (w *World) fault() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(12) {
	case 0, 1:
		n.crash(true)
	case 2:
		n.crash(false)
	case 3, 4:
		w.net.partition()
	case 5, 6, 7:
		w.net.heal()
	case 8:
		w.net.loss = 0.3 * w.rng.Float64()
	case 9:
		if n.alive && !n.paused {
			n.pause()
			life := n.life
			w.after(w.between(10*time.Millisecond, 6*time.Second), func() {
				if n.life == life {
					n.resume()
				}
			})
		}
	case 10:
		// The wall clock steps; nothing may depend on it (Trap 15).
		n.skewMs += []kafka.WallMs{-dayMs, dayMs, 1000, -1000}[w.rng.IntN(4)]
	case 11:
		kinds := []vfs.OpKind{vfs.OpSync, vfs.OpWrite, vfs.OpRename, vfs.OpSyncDir, vfs.OpMutate}
		n.fault.Fail(vfs.Rule{Kinds: kinds[w.rng.IntN(len(kinds))], Nth: 1 + w.rng.IntN(20), Err: errDisk})
	}
	if w.chance(0.1) { // all at once: only the disk is left
		for _, n := range w.nodes {
			n.crash(true)
		}
	}
}
