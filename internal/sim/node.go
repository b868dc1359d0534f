package sim

import (
	"math/rand/v2"
	"time"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

// node is one process: its disk lives on, the process dies and comes back.
type node struct {
	w     *World
	id    kafka.NodeID
	ctl   bool // has the controller role
	dir   kafka.DirectoryID
	mem   *vfs.Mem
	fault *vfs.Fault
	full  int // counts how often the disk was filled; 0 while there is room
	// generation counts the disks that the node has had.
	generation int

	life    int
	alive   bool
	paused  bool
	backlog []func()

	r      *quorum.Replica
	net    *nodeNet
	broker *broker // nil without that role
	member *member // nil without the controller role
	// busy counts the wakes since wokenAt, within a millisecond.
	busy    int
	wokenAt kafka.Mono
	wakeAt  kafka.Mono // true time at which it is going to be woken
	rnd     *rand.Rand // of this life's controller core

	skewMs kafka.WallMs // wall clock minus true time
	drift  float64      // of the monotonic clock
	born   kafka.Mono

	applied kafka.Offset // end of what this life has published
	// The last step: the flush that it starts, the epoch that it begins.
	flushing *raft.Flush
	begins   *raft.LeaderChange
}

func newNode(w *World, id kafka.NodeID, ctl, brk bool) *node {
	n := &node{w: w, id: id, ctl: ctl, dir: kafka.DirectoryID{14: 1, 15: byte(id)}}
	n.newDisk()
	if ctl {
		n.member = &member{n: n}
	}
	if brk {
		n.broker = &broker{n: n}
	}
	return n
}

// firstVoters is the voter set of controller.quorum.voters or format.
func (w *World) firstVoters() raft.VoterSet {
	var l []raft.Voter
	for _, n := range w.nodes[:w.swarm.controllers] {
		v := n.voter()
		if w.swarm.kraft == 0 {
			v.Key.Dir, v.MaxKRaft = kafka.DirectoryID{}, 0
		}
		l = append(l, v)
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
	n.alive, n.paused, n.applied, n.wakeAt = true, false, 0, kafka.Never
	n.backlog, n.begins, n.flushing, n.busy, n.wokenAt = nil, nil, nil, 0, 0
	n.born, n.drift = n.w.now, 1
	if n.w.faults && n.w.swarm.drift {
		n.drift = 0.9 + 0.2*n.w.rng.Float64()
	}
	n.rnd = rand.New(rand.NewPCG(n.w.rng.Uint64(), uint64(n.id)))
	n.net = &nodeNet{n: n, life: n.life, replyTo: map[uint64]func(raft.Body){}}
	n.noteDisk()
	r, err := quorum.OpenReplica(n.options(), executor{n, n.life})
	if err != nil {
		if injected(err) {
			n.crash(true)
			return
		}
		n.w.violate("recovery", "node %d does not start: %v", n.id, err)
		n.alive = false
		return
	}
	n.r = r
	n.w.note("%d boots: end %d, snapshot %d", n.id, r.Core().EndOffset(), r.Image().Provenance().EndOffset)
	n.w.check.booted(n)
	r.Subscribe(n.published)
	if n.broker != nil {
		n.broker.boot()
	}
	if n.member != nil {
		n.member.boot()
	}
	r.Start()
	n.after()
}

// options are what the server would tell its quorum.
func (n *node) options() quorum.Options {
	s := &n.w.swarm
	o := quorum.Options{
		FS: n.fault, Dir: "data", Net: n.net, Clock: n.clock, Watch: n.watch, Warn: n.warn,
		Raft: raft.Options{
			ClusterID: clusterID, Self: raft.ReplicaKey{ID: n.id, Dir: n.dir}, Endpoints: n.endpoints(), MaxKRaft: 1, AutoJoin: s.autoJoin, CanBecomeVoter: n.ctl,
			ElectionTimeout: s.pace, ElectionBackoffMax: s.pace, FetchTimeout: 2 * s.pace, RequestTimeout: 2 * s.pace,
			RetryBackoff: 20 * time.Millisecond, FetchMaxWait: s.pace / 2, FetchMaxBytes: s.fetchBytes, SnapshotMaxBytes: s.fetchBytes,
			FastFailover: s.fastFailover, Seed: n.w.rng.Uint64(),
		},
		Log:       quorum.LogConfig{SegmentBytes: s.segmentBytes, SegmentMs: dayMs},
		Snapshots: quorum.SnapshotConfig{MaxBytes: s.snapshotBytes, MaxIntervalMs: 3600_000, RetentionBytes: s.retention, RetentionMs: -1},
	}
	if s.kraft == 0 {
		o.Static = n.w.firstVoters()
	}
	for _, c := range n.w.nodes[:s.controllers] {
		o.Raft.Bootstrap = append(o.Raft.Bootstrap, -c.id)
	}
	if n.ctl {
		o.Controller = &controller.Options{
			NodeID: n.id, ClusterID: clusterID, Features: features(), Rules: rules{}, Random: n.rnd.Uint64,
			SessionTimeout: 5 * s.pace, MaxIdleInterval: 2 * s.pace,
			DefaultPartitions: 2, DefaultReplicationFactor: 1, MinInSyncReplicas: 1,
		}
	}
	return o
}

// warn hears of torn tails; among nodes that check what they send nothing
// arrives that cannot be parsed.
func (n *node) warn(msg string, err error) {
	if msg == "fetched records dropped" {
		n.w.violate("network", "node %d: %v", n.id, err)
	}
	n.w.note("%d warns: %s: %v", n.id, msg, err)
}

const wallZero = 1_700_000_000_000

// clock is the node's own view of time.
func (n *node) clock() kafka.Now {
	mono := kafka.Mono(float64(n.w.now-n.born) * n.drift)
	return kafka.Now{Mono: mono, Wall: kafka.WallMs(n.w.now/1e6) + n.skewMs + wallZero}
}

// do lets a life of the node do something, now or when its pause ends.
func (n *node) do(life int, f func()) {
	switch {
	case !n.alive || n.life != life || n.w.failed != nil:
	case n.paused:
		n.backlog = append(n.backlog, f)
	default:
		f()
		n.after()
	}
}

// after looks at what a call has left: the process may be dead.
func (n *node) after() {
	if !n.alive {
		return
	}
	if err := n.r.Err(); err != nil {
		if !injected(err) {
			n.w.violate("fatal", "node %d: %v", n.id, err)
			return
		}
		n.w.check.leaders.undone(n.begins)
		n.crash(n.w.rng.IntN(2) == 0) // a failed disk operation ends the process
		return
	}
	n.wakeBy(n.r.Deadline())
	if n.broker != nil {
		n.wakeBy(n.broker.core.Deadline())
	}
	if n.member != nil {
		n.wakeBy(n.member.core.Deadline())
	}
}

// wakeBy sees to it that the node is woken at a time of its own clock.
func (n *node) wakeBy(deadline kafka.Mono) {
	if deadline == kafka.Never {
		return
	}
	at := max(n.born+kafka.Mono(float64(deadline)/n.drift)+1000, n.w.now)
	if at >= n.wakeAt {
		return
	}
	n.wakeAt = at
	life := n.life
	n.w.queue.push(at, func() {
		if n.life == life && n.wakeAt == at {
			n.wakeAt = kafka.Never
			n.do(life, n.wake)
		}
	})
}

func (n *node) wake() {
	now := n.clock().Mono
	if n.busy++; n.busy > 1000 { // HC-018
		n.w.violate("idle", "node %d is woken without end: its deadline stays in the past: %s", n.id, n.w.describe())
	}
	if now > n.wokenAt+kafka.Mono(time.Millisecond) {
		n.busy, n.wokenAt = 0, now
	}
	if n.r.Deadline() <= now {
		n.w.event("deadline", n.id, kafka.NoNode)
		n.r.Wake()
		n.w.check.quorum.woken(n)
	}
	if n.broker != nil && n.alive && n.r.Err() == nil && n.broker.core.Deadline() <= now {
		n.w.event("deadline", n.id, n.id)
		n.broker.due()
	}
	if n.member != nil && n.alive && n.r.Err() == nil && n.member.core.Deadline() <= now {
		n.w.event("deadline", n.id, n.id)
		n.member.step(lifecycle.ControllerDeadline{})
	}
}

// resume lets a paused process go on with what has piled up.
func (n *node) resume() {
	if !n.paused {
		return
	}
	n.paused = false
	backlog, life := n.backlog, n.life
	n.backlog = nil
	for _, f := range backlog {
		n.do(life, f)
	}
}

// crash ends the process; with power the disk loses and tears what was not
// synced.
func (n *node) crash(power bool) {
	if !n.alive {
		return
	}
	n.alive = false
	n.w.counts.Crashes++
	n.w.note("%d crashes, power %t", n.id, power)
	n.noteDisk()
	n.fault.Heal()
	if n.full > 0 {
		n.fault.SetBudget(0)
	}
	if power {
		n.mem.CrashPower(n.w.rng)
	} else {
		n.mem.CrashProcess()
		for _, o := range n.w.nodes {
			n.w.net.breakConnection(o, n)
		}
		if n.broker != nil {
			n.broker.disconnected()
		}
	}
	n.w.after(n.w.between(10*time.Millisecond, 5*n.w.swarm.pace), func() {
		if !n.alive && n.w.failed == nil {
			n.boot()
		}
	})
}

// leave is an orderly end of the process; it comes back.
func (n *node) leave() {
	life := n.life
	n.w.after(0, func() {
		n.do(life, func() {
			n.w.event("leaves", n.id, kafka.NoNode)
			n.r.Shutdown()
			if n.r.Err() == nil {
				n.r.Abandon()
				if err := n.r.Close(); err != nil && !injected(err) {
					n.w.violate("shutdown", "node %d: %v", n.id, err)
				}
			}
			n.crash(false)
		})
	})
}

// watch sees each step of the raft core before its effects are performed.
func (n *node) watch(ev raft.Event, out *raft.Effects) {
	if out.Flush != nil {
		n.flushing = out.Flush
	}
	n.begins = out.LeaderChange
	n.w.check.stepped(n, ev, out)
}

// published is told of every change that the replica regards as committed.
func (n *node) published(delta *metadata.Delta, img *metadata.Image) {
	n.w.check.published(n, delta, img)
	n.applied = img.Provenance().EndOffset
	if n.broker != nil {
		n.broker.moved(img)
	}
	if n.member != nil {
		n.member.moved(img)
	}
}

// executor is a life's disk in virtual time; it implements quorum.Executor.
type executor struct {
	n    *node
	life int
}

// Flush implements quorum.Executor. The sync takes effect at its beginning or
// at its end; what is appended meanwhile may or may not be covered.
func (e executor) Flush(work func() error, done func(error)) {
	n, w := e.n, e.n.w
	w.check.durable.begins(n, n.flushing.Offset)
	var err error
	sync := func() {
		if err = work(); err == nil {
			w.check.durable.ends(n)
		}
	}
	early := w.rng.IntN(2) == 0
	if early {
		sync()
	}
	d := w.between(50*time.Microsecond, 5*time.Millisecond)
	if w.chance(w.swarm.slowSync) {
		d = w.between(time.Millisecond, 3*w.swarm.pace)
	}
	w.after(d, func() {
		if n.life != e.life || !n.alive {
			return
		}
		if !early {
			sync()
		}
		w.event("flushed", n.id, kafka.NoNode)
		n.do(e.life, func() { done(err) })
	})
}

// Background implements quorum.Executor.
func (e executor) Background(work func() error, done func(error)) {
	n, w := e.n, e.n.w
	d := w.between(time.Millisecond, 20*time.Millisecond)
	if w.chance(w.swarm.slowDisk) {
		d = w.between(time.Millisecond, 5*w.swarm.pace)
	}
	w.after(d, func() {
		if n.life != e.life || !n.alive {
			return
		}
		err := work()
		w.event("written", n.id, kafka.NoNode)
		n.do(e.life, func() { done(err) })
	})
}
