package sim

import (
	"container/heap"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"moldau/internal/kafka"
)

// Config is one run.
type Config struct {
	Seed  uint64
	Nodes int
	// Events is how long faults last; then they stop and the liveness checker
	// waits for progress.
	Events int
	// Calm switches faults off from the start.
	Calm bool
}

// Counts is what happened in a run.
type Counts struct {
	Events, Elections, Commits, Truncations, Snapshots, Crashes int
}

// Add sums the counts of another run.
func (c *Counts) Add(o Counts) {
	c.Events += o.Events
	c.Elections += o.Elections
	c.Commits += o.Commits
	c.Truncations += o.Truncations
	c.Snapshots += o.Snapshots
	c.Crashes += o.Crashes
}

// Result of a run. Violation is nil if every checker is content.
type Result struct {
	Counts    Counts
	Hash      uint64
	Violation error
}

// World is one run in progress.
type World struct {
	cfg    Config
	rng    *rand.Rand
	now    kafka.Mono
	queue  queue
	order  uint64
	nodes  []*node
	net    *network
	check  checkers
	work   *workload
	counts Counts
	trace  hash.Hash64
	faults bool
	failed error

	// pace and latency differ by seed: with short timeouts and a slow net,
	// elections collide.
	pace    time.Duration // election timeout; the fetch timeout is twice that
	latency time.Duration // most messages take less
}

// action is something that will happen; life is that of the node it concerns,
// so that nothing of a crashed process comes back to its successor.
type action struct {
	at    kafka.Mono
	order uint64
	do    func()
}

type queue []action

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(action)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = action{}
	*q = old[:len(old)-1]
	return x
}

// Run does one run to its end.
func Run(cfg Config) Result {
	w := &World{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6d6f6c646175)),
		trace: fnv.New64a(), faults: !cfg.Calm,
	}
	w.pace, w.latency = time.Second, 3*time.Millisecond
	if !cfg.Calm {
		w.pace = []time.Duration{time.Second, 300 * time.Millisecond, 60 * time.Millisecond}[w.rng.IntN(3)]
		w.latency = []time.Duration{3 * time.Millisecond, 20 * time.Millisecond}[w.rng.IntN(2)]
	}
	w.net = newNetwork(w)
	w.check = newCheckers(w)
	w.work = &workload{w: w}
	for i := range cfg.Nodes {
		w.nodes = append(w.nodes, newNode(w, kafka.NodeID(i+1)))
	}
	for _, n := range w.nodes {
		n.boot()
	}
	w.work.schedule()
	if w.faults {
		w.scheduleFault()
	}
	for w.failed == nil && w.counts.Events < cfg.Events && w.step() {
	}
	if w.failed == nil {
		w.settle()
	}
	return Result{Counts: w.counts, Hash: w.trace.Sum64(), Violation: w.failed}
}

// after does something d later.
func (w *World) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, action{at: w.now.Add(max(d, 0)), order: w.order, do: do})
}

// step does the next thing.
func (w *World) step() bool {
	if len(w.queue) == 0 {
		return false
	}
	a := heap.Pop(&w.queue).(action)
	w.now = max(w.now, a.at)
	a.do()
	return true
}

// event counts and traces one event.
func (w *World) event(format string, a ...any) {
	w.counts.Events++
	fmt.Fprintf(w.trace, "%d ", w.now)
	fmt.Fprintf(w.trace, format, a...)
}

func (w *World) violate(checker, format string, a ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf("seed %d, event %d, %d ms: %s: %s", w.cfg.Seed, w.counts.Events, w.now/1e6, checker, fmt.Sprintf(format, a...))
	}
}

// chance is true with probability p while faults last.
func (w *World) chance(p float64) bool { return w.faults && w.rng.Float64() < p }

// between draws from [lo, hi).
func (w *World) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

// settleTime is within how much virtual time after the last fault the cluster
// must commit something new on every node: a few election timeouts.
const settleTime = 30 * time.Second

// settle ends all faults and waits for progress.
func (w *World) settle() {
	w.faults = false
	w.net.heal()
	for _, n := range w.nodes {
		n.resume()
		if !n.alive && !n.stopped {
			n.boot()
		}
	}
	target := w.check.prefix.end() + 3
	deadline := w.now.Add(settleTime)
	for w.failed == nil && w.now < deadline {
		done := true
		for _, n := range w.nodes {
			done = done && (n.alive && n.applied >= target)
		}
		if done {
			return
		}
		if !w.step() {
			break
		}
	}
	if w.failed == nil {
		w.violate("liveness", "no progress to offset %d within %v after the last fault: %s", target, settleTime, w.describe())
	}
}

func (w *World) describe() string {
	s := ""
	for _, n := range w.nodes {
		s += fmt.Sprintf(" [node %d alive=%t", n.id, n.alive)
		if n.alive {
			d := n.core.Describe(kafka.Now{})
			s += fmt.Sprintf(" %s epoch=%d leader=%d end=%d hw=%d", d.Role, d.Epoch, d.Leader, d.EndOffset, d.HighWatermark)
		}
		s += "]"
	}
	return s
}
