package sim

import (
	"errors"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// node is one replica: its disk lives on, its process dies and comes back.
type node struct {
	w     *World
	id    kafka.NodeID
	mem   *vfs.Mem
	fault *vfs.Fault

	life    int
	alive   bool
	stopped bool // ended by a fatal effect; not to be started again
	paused  bool
	backlog []raft.Event

	core    *raft.Core
	store   *quorum.Store
	net     *nodeNet
	timerID uint64
	skewMs  kafka.WallMs // wall clock minus true time
	drift   float64      // of the monotonic clock
	born    kafka.Mono

	image   image
	fetched image // of a downloaded snapshot
	applied kafka.Offset
	led     kafka.Epoch // NoEpoch unless told to lead
}

func (w *World) node(id kafka.NodeID) *node {
	if id < 1 || int(id) > len(w.nodes) {
		return nil
	}
	return w.nodes[id-1]
}

func newNode(w *World, id kafka.NodeID) *node {
	mem := vfs.NewMem()
	if err := errors.Join(mem.MkdirAll("data"), mem.SyncDir("")); err != nil {
		panic(err)
	}
	return &node{w: w, id: id, mem: mem, fault: vfs.NewFault(mem), led: kafka.NoEpoch}
}

func (w *World) voters() raft.VoterSet {
	var l []raft.Voter
	for i := range w.cfg.Nodes {
		l = append(l, raft.Voter{Key: raft.ReplicaKey{ID: kafka.NodeID(i + 1)}})
	}
	s, err := raft.NewVoterSet(l...)
	if err != nil {
		panic(err)
	}
	return s
}

// boot starts the process on what is on the disk.
func (n *node) boot() {
	n.life++
	n.alive, n.paused, n.led, n.applied = true, false, kafka.NoEpoch, 0
	n.backlog = nil
	n.born, n.drift = n.w.now, 1
	if n.w.faults {
		n.drift = 0.9 + 0.2*n.w.rng.Float64()
	}
	n.net = &nodeNet{n: n, replyTo: map[uint64]func(raft.Body){}}
	opts := quorum.StoreOptions{
		FS: n.fault, Dir: "data", Static: n.w.voters(), Flush: n.flush, Seal: n.seal,
		OpenLog: func(folder string) (quorum.Log, error) {
			return quorum.OpenSegments(n.fault, folder, quorum.LogConfig{SegmentBytes: 2048, SegmentMs: dayMs}, func() kafka.WallMs { return n.clock().Wall }, nil)
		},
	}
	n.image = newImage()
	store, rec, err := quorum.OpenStore(opts, func() func(record.Message, int16) error {
		n.image = newImage()
		return func(m record.Message, _ int16) error { n.image.set(m); return nil }
	})
	if err != nil {
		if errors.Is(err, errDisk) {
			n.crash(true)
			return
		}
		n.w.violate("recovery", "node %d does not start: %v", n.id, err)
		n.alive = false
		return
	}
	n.store, n.applied = store, rec.Snapshot.Offset
	n.w.check.booted(n, rec)
	n.core = raft.New(raft.Options{
		Self:               raft.ReplicaKey{ID: n.id, Dir: kafka.DirectoryID{15: byte(100 + n.id)}},
		CanBecomeVoter:     true,
		ElectionTimeout:    n.w.pace,
		ElectionBackoffMax: n.w.pace,
		FetchTimeout:       2 * n.w.pace,
		RequestTimeout:     2 * n.w.pace,
		RetryBackoff:       20 * time.Millisecond,
		FetchMaxWait:       n.w.pace / 2,
		FetchMaxBytes:      300,
		Seed:               n.w.rng.Uint64(),
	}, rec.Raft)
	n.step(raft.Start{})
}

// clock is the node's own view of time.
func (n *node) clock() kafka.Now {
	mono := kafka.Mono(float64(n.w.now-n.born) * n.drift)
	return kafka.Now{Mono: mono, Wall: kafka.WallMs(n.w.now/1e6) + n.skewMs + 1_700_000_000_000}
}

// step gives the core an event and performs the effects with the real code.
func (n *node) step(ev raft.Event) {
	if !n.alive || n.w.failed != nil {
		return
	}
	if n.paused {
		n.backlog = append(n.backlog, ev)
		return
	}
	now := n.clock()
	var out raft.Effects
	n.core.Step(now, ev, &out)
	n.w.check.stepped(n, ev, &out)
	if out.Truncate != nil {
		n.w.counts.Truncations++
	}
	if out.LeaderChange != nil {
		n.w.counts.Elections++
	}
	err := quorum.Perform(n.core, &out, now, quorum.Env{Disk: n.store, Net: n.net, Timer: n, App: n})
	switch {
	case err == nil:
	case errors.Is(err, errDisk):
		n.w.check.leaders.undone(&out)
		n.crash(n.w.rng.IntN(2) == 0) // a failed disk operation ends the process
	default:
		n.w.violate("fatal", "node %d: %v", n.id, err)
	}
	if ev, ok := ev.(raft.Propose); ok && err == nil {
		n.w.work.proposed(n, ev, out.Rejected)
	}
}

// flush completes some time later, in its own time; nothing else waits for it.
func (n *node) flush(f raft.Flush, job quorum.FlushJob) {
	life := n.life
	early := n.w.rng.IntN(2) == 0
	var err error
	do := func() {
		if err = job.Run(); err == nil {
			n.w.check.durable.covers(n, f.Offset)
		}
	}
	if early {
		do() // what is appended meanwhile is not covered
	}
	d := n.w.between(50*time.Microsecond, 5*time.Millisecond)
	if n.w.chance(0.05) {
		d = n.w.between(time.Millisecond, 2*time.Second)
	}
	n.w.after(d, func() {
		if n.life != life || !n.alive {
			return
		}
		if !early {
			do()
		}
		n.w.event("%d flushed %d", n.id, f.Offset)
		if err == nil {
			err = job.Done()
		}
		if err != nil {
			if !errors.Is(err, errDisk) {
				n.w.violate("disk", "node %d: flush: %v", n.id, err)
			}
			n.crash(n.w.rng.IntN(2) == 0)
			return
		}
		n.step(raft.Flushed{Flush: f})
	})
}

// Set implements quorum.Timer.
func (n *node) Set(at kafka.Mono) {
	n.timerID++
	if at == kafka.Never {
		return
	}
	id, life := n.timerID, n.life
	d := time.Duration(float64(at.Sub(n.clock().Mono))/n.drift) + time.Microsecond
	n.w.after(d, func() {
		if n.alive && n.life == life && n.timerID == id {
			n.w.event("%d deadline", n.id)
			n.step(raft.DeadlineReached{})
		}
	})
}

// crash ends the process; with power the disk loses and tears what was not
// synced.
func (n *node) crash(power bool) {
	if !n.alive {
		return
	}
	n.alive = false
	n.w.counts.Crashes++
	n.w.work.lost(n)
	n.fault.Heal()
	if power {
		n.mem.CrashPower(n.w.rng)
	} else {
		n.mem.CrashProcess()
	}
	n.w.after(n.w.between(10*time.Millisecond, 5*time.Second), func() {
		if !n.alive && !n.stopped && n.w.failed == nil {
			n.boot()
		}
	})
}

func (n *node) pause() { n.paused = true }

// resume lets a paused process go on with what has piled up.
func (n *node) resume() {
	if !n.paused {
		return
	}
	n.paused = false
	backlog := n.backlog
	n.backlog = nil
	for _, ev := range backlog {
		n.step(ev)
	}
}

// LeaderChanged implements quorum.App.
func (n *node) LeaderChanged(l raft.LeaderAndEpoch) { n.w.check.leaders.published(n, l) }

// Resigned implements quorum.App.
func (n *node) Resigned(kafka.Epoch) {
	n.led = kafka.NoEpoch
	n.w.work.lost(n)
}

// Led implements quorum.App.
func (n *node) Led(e kafka.Epoch) { n.led = e }

// seal verifies a downloaded snapshot some time later.
func (n *node) seal(job quorum.SealJob) {
	life, img := n.life, newImage()
	n.w.after(n.w.between(50*time.Microsecond, 20*time.Millisecond), func() {
		if n.life != life || !n.alive {
			return
		}
		sealed, err := job.Run(func(m record.Message, _ int16) error { img.set(m); return nil })
		n.w.event("%d sealed %v", n.id, job.ID)
		switch {
		case errors.Is(err, errDisk):
			n.crash(n.w.rng.IntN(2) == 0)
			return
		case err != nil:
			n.w.violate("snapshot", "node %d has downloaded a damaged one: %v", n.id, err)
			return
		}
		n.fetched = img
		n.step(raft.SnapshotSealed{ID: job.ID, Control: sealed.Control})
	})
}

// LoadSnapshot implements quorum.App.
func (n *node) LoadSnapshot(id kafka.OffsetAndEpoch) error {
	n.image, n.applied = n.fetched, id.Offset
	n.w.check.prefix.state(n, id.Offset, n.image.sum)
	return nil
}

var errViolated = errors.New("a checker has stopped the run")

// Committed implements quorum.App: it applies what has become committed.
func (n *node) Committed(hw kafka.Offset) error {
	if hw > n.applied {
		err := n.store.Batches(n.applied, hw, func(b raft.Batch) error {
			if b.Last >= hw {
				n.w.violate("boundary", "node %d: high watermark %d inside batch %d-%d", n.id, hw, b.Base, b.Last)
				return errViolated
			}
			n.w.check.prefix.applied(n, b)
			n.applied = b.Last + 1
			err := n.image.replay(b)
			n.w.check.prefix.state(n, n.applied, n.image.sum)
			return err
		})
		if err == nil && n.w.rng.IntN(200) == 0 {
			err = n.snapshot()
		}
		if err != nil {
			return err
		}
	}
	n.w.work.committed(n, hw)
	return nil
}
