package sim

import (
	"fmt"
	"time"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/record"
)

// workload proposes records to whoever thinks it leads.
type workload struct {
	w       *World
	serial  int
	waiting []proposal
}

// proposal waits for its offset to commit, on the node that took it.
type proposal struct {
	n          *node
	life       int
	base, last kafka.Offset
	epoch      kafka.Epoch
	sum        uint64
}

func (l *workload) schedule() {
	l.w.after(l.w.between(time.Millisecond, 40*time.Millisecond), func() {
		for _, n := range l.w.nodes {
			if n.alive && !n.paused && n.led != kafka.NoEpoch {
				l.propose(n)
			}
		}
		l.schedule()
	})
}

// keys is how many keys the replicated state has.
const keys = 40

func keyName(i int) string { return fmt.Sprintf("key%d", i) }

func (l *workload) propose(n *node) {
	base := n.core.EndOffset()
	bl := batch.NewBuilder(nil, base, n.led)
	for range 1 + l.w.rng.IntN(4) {
		l.serial++
		m := record.NewFeatureLevel()
		m.Name = keyName(l.w.rng.IntN(keys))
		m.FeatureLevel = int16(l.serial)
		bl.Add(n.clock().Wall, nil, record.AppendMetadata(nil, m, 0))
	}
	b := bl.Finish()
	n.step(raft.Propose{Epoch: n.led, Batches: []raft.Batch{{Base: base, Last: b.LastOffset(), Epoch: n.led, Bytes: b}}})
}

// proposed learns whether the core took the proposal.
func (l *workload) proposed(n *node, ev raft.Propose, rejected error) {
	if rejected != nil {
		return
	}
	b := ev.Batches[0]
	l.waiting = append(l.waiting, proposal{n: n, life: n.life, base: b.Base, last: b.Last, epoch: b.Epoch, sum: checksum(b.Bytes)})
	if n.alive {
		l.committed(n, n.core.HighWatermark())
	}
}

// committed acknowledges what has become committed while its node still leads.
func (l *workload) committed(n *node, hw kafka.Offset) {
	keep := l.waiting[:0]
	for _, p := range l.waiting {
		if p.n != n || p.life != n.life || p.last >= hw {
			keep = append(keep, p)
			continue
		}
		l.w.check.acked.ack(n, p.base, p.epoch, p.sum)
	}
	l.waiting = keep
}

// lost forgets the proposals of a node that leads no more: their fate is unknown.
func (l *workload) lost(n *node) {
	keep := l.waiting[:0]
	for _, p := range l.waiting {
		if p.n != n {
			keep = append(keep, p)
		}
	}
	l.waiting = keep
}
