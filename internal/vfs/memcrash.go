package vfs

import (
	"math/rand/v2"
	"slices"
)

// SectorBytes is the unit in which a disk writes or does not write.
const SectorBytes = 512

// CrashProcess is the death of the process: every completed operation
// survives, every handle and lock of before is dead.
func (m *Mem) CrashProcess() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.die()
}

func (m *Mem) die() {
	m.gen++
	clear(m.locks)
}

// CrashPower is the loss of power. For each file written since its last sync,
// rnd decides whether nothing, everything, or any mix of sectors and any size
// in between has reached the disk; what the disk had allocated but not written
// reads as zeros. For each name created, renamed or removed since the last
// SyncDir of its folder, rnd decides whether that has happened. What is left is
// durable afterwards. Handles and locks are dead, as after CrashProcess.
func (m *Mem) CrashPower(rnd *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.die()
	for _, n := range inOrder(m.dirty) {
		n.file.tear(rnd)
	}
	clear(m.dirty)
	m.undoNames(rnd)
	m.used = 0
	m.sumUsed(m.root)
}

func inOrder(set map[*memNode]struct{}) []*memNode {
	nodes := make([]*memNode, 0, len(set))
	for n := range set {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *memNode) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return nodes
}

// undoNames replays the pending operations of each folder on what the disk
// knew, leaving some out.
func (m *Mem) undoNames(rnd *rand.Rand) {
	dirs := inOrder(m.pending)
	lost := map[*dirOp]bool{}
	for _, d := range dirs {
		for _, o := range d.ops {
			if _, decided := lost[o]; !decided {
				lost[o] = rnd.Uint64()&1 == 0
			}
			if !lost[o] {
				o.apply()
			}
		}
	}
	for _, d := range dirs {
		d.ops = nil
		clear(d.entries)
		for name, n := range d.durable {
			d.entries[name] = n
		}
	}
	clear(m.pending)
}

func (m *Mem) sumUsed(n *memNode) {
	m.used += int64(len(n.file.data))
	for _, c := range n.entries {
		m.sumUsed(c)
	}
}

// tear decides what of the unsynced content is on the disk.
func (c *memContent) tear(rnd *rand.Rand) {
	switch rnd.Uint64() % 4 {
	case 0: // nothing
		c.data = append(c.data[:0], c.durable...)
	case 1: // everything
	default:
		c.tearSectors(rnd)
	}
	c.durable = append(c.durable[:0], c.data...)
	c.ranges = c.ranges[:0]
}

func (c *memContent) tearSectors(rnd *rand.Rand) {
	size, was := int64(len(c.data)), int64(len(c.durable))
	if lo, hi := min(size, was), max(size, was); lo < hi && rnd.Uint64()&1 == 0 {
		size = lo + int64(rnd.Uint64N(uint64(hi-lo)+1))
	}
	torn := resize(slices.Clone(c.durable), size)
	for _, r := range c.ranges {
		for at := r.from; at < min(r.to, size); {
			end := min((at/SectorBytes+1)*SectorBytes, r.to, size)
			if rnd.Uint64()&1 == 0 && at < int64(len(c.data)) {
				copy(torn[at:end], c.data[at:])
			}
			at = end
		}
	}
	c.data = torn
}
