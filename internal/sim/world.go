package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// Config is one run.
type Config struct {
	Seed uint64
	// Events is how long faults last; then they stop and the liveness checker
	// waits for progress.
	Events int
	// Calm switches faults off from the start.
	Calm bool
	// Trace, if not nil, gets a line for each event.
	Trace io.Writer
}

// Result of a run. Violation is nil if every checker is content.
type Result struct {
	Counts    Counts
	Hash      uint64
	Violation error
}

// World is one run in progress.
type World struct {
	cfg     Config
	rng     *rand.Rand
	now     kafka.Mono
	queue   queue
	swarm   swarm
	nodes   []*node // controllers, then brokers
	net     *network
	check   checkers
	clients []*client
	counts  Counts
	hash    uint64
	faults  bool
	quiet   bool // clients ask for nothing more
	failed  error
}

// Run does one run to its end.
func Run(cfg Config) Result {
	w := newWorld(cfg)
	w.begin()
	for w.failed == nil && w.counts.Events < cfg.Events && w.step() {
	}
	if w.failed == nil {
		w.settle()
	}
	return Result{Counts: w.counts, Hash: w.hash, Violation: w.failed}
}

func newWorld(cfg Config) *World {
	w := &World{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6d6f6c646175)), faults: !cfg.Calm}
	w.swarm = w.draw()
	w.net = newNetwork(w)
	w.check = newCheckers(w)
	return w
}

// begin formats and starts the nodes, and sets the clients and faults going.
func (w *World) begin() {
	s := &w.swarm
	for i := range w.controllerCount() + s.brokers {
		ctl := i < w.controllerCount()
		w.nodes = append(w.nodes, newNode(w, kafka.NodeID(i+1), ctl, !ctl || s.combined))
	}
	for i, n := range w.nodes {
		switch {
		case i < s.controllers:
			n.formatAs(w.firstVoters())
		case n.ctl:
			n.formatAs(raft.VoterSet{})
		}
		n.boot()
	}
	for i := range clients {
		c := newClient(w, firstClient+kafka.NodeID(i))
		w.clients = append(w.clients, c)
		c.pause()
	}
	if w.faults {
		w.scheduleFault()
		if w.swarm.voterChanges {
			w.scheduleOperator()
		}
	}
}

func (w *World) node(id kafka.NodeID) *node {
	if id < 1 || int(id) > len(w.nodes) {
		return nil
	}
	return w.nodes[id-1]
}

// controllerCount counts the controllers, those that are no voters at first
// included.
func (w *World) controllerCount() int { return w.swarm.controllers + w.swarm.spares }

func (w *World) controllers() []*node { return w.nodes[:w.controllerCount()] }

// step does the next thing.
func (w *World) step() bool {
	a, ok := w.queue.pop()
	if ok {
		w.now = max(w.now, a.at)
		a.do()
	}
	return ok
}

// after does something d later.
func (w *World) after(d time.Duration, do func()) { w.queue.push(w.now.Add(max(d, 0)), do) }

// event counts and traces one event: a delivered message, a completed disk
// operation or a fired deadline. b is NoNode if only one node is concerned.
func (w *World) event(what string, a, b kafka.NodeID) {
	w.counts.Events++
	h := w.hash ^ uint64(w.now)
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * 0x100000001b3
	}
	w.hash = (h ^ uint64(uint32(a)) ^ uint64(uint32(b))<<32) * 0x9e3779b97f4a7c15
	if w.cfg.Trace != nil {
		fmt.Fprintf(w.cfg.Trace, "%d %.3f ms %s %d %d\n", w.counts.Events, float64(w.now)/1e6, what, a, b)
	}
}

// note adds a line to the trace, if there is one.
func (w *World) note(format string, a ...any) {
	if w.cfg.Trace != nil {
		fmt.Fprintf(w.cfg.Trace, "    "+format+"\n", a...)
	}
}

func (w *World) violate(checker, format string, a ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf("seed %d, event %d, %d ms: %s: %s", w.cfg.Seed, w.counts.Events, w.now/1e6, checker, fmt.Sprintf(format, a...))
		w.note("VIOLATION %v", w.failed)
	}
}

// chance is true with probability p while faults last.
func (w *World) chance(p float64) bool { return w.faults && p > 0 && w.rng.Float64() < p }

// between draws from [lo, hi).
func (w *World) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

// pick draws one of a list.
func pick[T any](w *World, list ...T) T { return list[w.rng.IntN(len(list))] }

func (w *World) describe() string {
	s := ""
	for _, n := range w.nodes {
		s += fmt.Sprintf(" [node %d alive=%t", n.id, n.alive)
		if n.alive {
			d := n.r.Core().Describe(kafka.Now{})
			s += fmt.Sprintf(" %s epoch=%d leader=%d end=%d hw=%d applied=%d voters=%s", d.Role, d.Epoch, d.Leader, d.EndOffset, d.HighWatermark, n.applied, d.VoterSet)
		}
		if n.broker != nil {
			s += fmt.Sprintf(" broker phase=%d epoch=%d", n.broker.core.Phase(), n.broker.core.Epoch())
		}
		s += "]"
	}
	return s
}
