package groups

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/statemachine"
)

// Config says what to run.
type Config struct {
	Seed   uint64
	Events int       // while faults last
	Trace  io.Writer // nil: none
}

// Counts say what happened.
type Counts struct {
	Events, Crashes, Resigned, Truncated, Appends, Refused, HalfWritten        int
	Delayed, Lost, Duplicated, Joined, Synced, Commits, Fetches, Fenced, Pause int
	Loads, Compared                                                            int
}

// Add adds up runs.
func (c *Counts) Add(o Counts) {
	c.Events += o.Events
	c.Crashes += o.Crashes
	c.Resigned += o.Resigned
	c.Truncated += o.Truncated
	c.Appends += o.Appends
	c.Refused += o.Refused
	c.HalfWritten += o.HalfWritten
	c.Delayed += o.Delayed
	c.Lost += o.Lost
	c.Duplicated += o.Duplicated
	c.Joined += o.Joined
	c.Synced += o.Synced
	c.Commits += o.Commits
	c.Fetches += o.Fetches
	c.Fenced += o.Fenced
	c.Pause += o.Pause
	c.Loads += o.Loads
	c.Compared += o.Compared
}

// Minimums fails if something happened too seldom to have been tried.
func (c *Counts) Minimums() error {
	for name, least := range map[string][2]int{
		"crashes": {c.Crashes, 50}, "resignations": {c.Resigned, 50}, "truncations": {c.Truncated, 10},
		"refused appends": {c.Refused, 500}, "half written appends": {c.HalfWritten, 20},
		"generations joined": {c.Joined, 2000}, "assignments": {c.Synced, 1500}, "commits": {c.Commits, 10_000},
		"fetches": {c.Fetches, 1500}, "fenced": {c.Fenced, 50}, "comparisons": {c.Compared, 500}, "duplicates": {c.Duplicated, 500},
	} {
		if got := least[0]; int64(got)*1_000_000 < int64(least[1])*int64(c.Events) {
			return fmt.Errorf("%s: %d in %d events, fewer than %d per million", name, got, c.Events, least[1])
		}
	}
	return nil
}

// Result is what a run gives.
type Result struct {
	Counts    Counts
	Hash      uint64
	Violation error
}

// world is everything that exists in a run.
type world struct {
	cfg       Config
	rng       *rand.Rand
	now       kafka.Now
	queue     actions
	order     uint64
	counts    Counts
	hash      uint64
	violation error
	faults    bool

	log     *simLog
	broker  *broker
	clients []*client
	values  int64 // unique values for commits
	uuids   uint64

	// What checkers remember.
	assigned map[generationKey]string          // whose assignment it is
	owners   map[generationKey]map[int32]owner // who owns a partition
}

type generationKey struct {
	group      string
	generation int32
}

type owner struct{ member, instance string }

type action struct {
	at    kafka.Mono
	order uint64
	do    func()
}

type actions []action

func (a actions) Len() int { return len(a) }
func (a actions) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a actions) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *actions) Push(x any)   { *a = append(*a, x.(action)) }
func (a *actions) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = action{}
	*a = (*a)[:last]
	return x
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now.Mono.Add(d), do) }

func (w *world) at(at kafka.Mono, do func()) {
	w.order++
	heap.Push(&w.queue, action{max(at, w.now.Mono), w.order, do})
}

// chance is one in n while faults last.
func (w *world) chance(n int) bool { return w.faults && w.rng.IntN(n) == 0 }

// ms draws a time in milliseconds, from lo up to hi.
func (w *world) ms(lo, hi int) time.Duration {
	return time.Duration(lo)*time.Millisecond + time.Duration(w.rng.IntN((hi-lo)*1000+1))*time.Microsecond
}

func (w *world) trace(format string, args ...any) {
	h := fnv.New64a()
	fmt.Fprintf(h, format, args...)
	w.hash = w.hash*1099511628211 ^ h.Sum64() ^ uint64(w.now.Mono)
	if w.cfg.Trace != nil {
		fmt.Fprintf(w.cfg.Trace, "%12.6f ", float64(w.now.Mono)/1e9)
		fmt.Fprintf(w.cfg.Trace, format+"\n", args...)
	}
}

func (w *world) violate(format string, args ...any) {
	if w.violation == nil {
		w.violation = fmt.Errorf("seed %d at %.6f s: "+format, append([]any{w.cfg.Seed, float64(w.now.Mono) / 1e9}, args...)...)
		w.trace("VIOLATION %v", w.violation)
	}
}

// step lets the next thing happen.
func (w *world) step() bool {
	if len(w.queue) == 0 || w.violation != nil {
		return false
	}
	a := heap.Pop(&w.queue).(action)
	w.now.Wall += kafka.WallMs(a.at/1e6 - w.now.Mono/1e6)
	w.now.Mono = a.at
	w.counts.Events++
	a.do()
	return w.violation == nil
}

// broker is the process in which a coordinator runs; what belongs to one that
// died does nothing any more.
type broker struct {
	w       *world
	machine *statemachine.Machine
	core    *group.Coordinator
	dead    bool
}

func (b *broker) do(f func()) func() {
	return func() {
		if !b.dead {
			f()
		}
	}
}

// At implements statemachine.Timer.
func (b *broker) At(at kafka.Mono, ring func()) (cancel func()) {
	cancelled := false
	b.w.at(at, b.do(func() {
		if !cancelled {
			ring()
		}
	}))
	return func() { cancelled = true }
}

// elect makes a coordinator in the log's epoch.
func (w *world) elect() {
	b := &broker{w: w}
	w.broker = b
	opts := group.Options{
		MinSessionMs: 1000, MaxSessionMs: 1_800_000, MaxSize: 1000, InitialRebalanceDelayMs: int32(w.rng.IntN(3) * 200),
		NewMemberJoinTimeoutMs: 300_000, MaxMetadataSize: 4096, RetentionMs: 7 * 24 * 3600 * 1000, RetentionCheckMs: 600_000,
		UUID: func() kafka.UUID {
			w.uuids++
			return kafka.UUID{12: byte(w.uuids >> 24), 13: byte(w.uuids >> 16), 14: byte(w.uuids >> 8), 15: byte(w.uuids)}
		},
	}
	b.machine = statemachine.New(statemachine.Options{
		Name:  kafka.TopicPartition{Topic: "__consumer_offsets"},
		Epoch: w.log.epoch, Kind: record.GroupLog,
		NewCore: func() coordinator.Core {
			b.core = group.New(opts)
			w.counts.Loads++
			return b.core
		},
		Log: w.log, Timer: b, Go: func(f func()) { w.after(w.ms(0, 3), b.do(f)) },
		Now: func() kafka.Now { return w.now }, Logger: slog.New(slog.DiscardHandler),
		CommitTimeout: 5 * time.Second, LoadBufferBytes: 4096,
	})
	b.machine.Start()
}

// fail lets the coordinator lose its leadership, or die, now and then.
func (w *world) fail() {
	w.after(w.ms(2000, 40_000), func() {
		if !w.faults {
			return
		}
		if w.rng.IntN(2) == 0 {
			w.die()
		} else {
			w.counts.Resigned++
			w.trace("coordinator resigns")
			w.broker.machine.Resign()
			w.log.lead()
			w.elect()
		}
		w.fail()
	})
}

// die ends the coordinator's process. Nobody hears from it any more, and of what
// was not committed some is lost.
func (w *world) die() {
	w.counts.Crashes++
	w.trace("coordinator dies")
	w.broker.dead = true
	w.log.cut()
	w.elect()
}

// compare checks that the live state is that of the log. Between two actions
// nothing of an active coordinator is pending.
func (w *world) compare() {
	w.after(w.ms(300, 900), func() {
		b := w.broker
		b.machine.Submit(coordinator.Request{Body: &group.List{}}, &probe{func(code kafka.ErrorCode) {
			if code != 0 {
				return // it is loading
			}
			w.counts.Compared++
			fresh := group.New(group.Options{})
			w.replay(fresh)
			if live, loaded := b.core.Kept(), fresh.Kept(); live != loaded {
				w.violate("live state:\n%s\nof the log:\n%s", live, loaded)
			}
		}})
		w.compare()
	})
}

// probe is answered and tells only whether it was.
type probe struct{ done func(kafka.ErrorCode) }

func (p *probe) Gone() bool                         { return false }
func (p *probe) Waits()                             {}
func (p *probe) Answer(_ any, code kafka.ErrorCode) { p.done(code) }

func (w *world) replay(c *group.Coordinator) {
	for _, b := range w.log.batches {
		err := b.EachRecord(func(r *recordOf) error {
			id, key, err := record.DecodeKey(record.GroupLog, r.Key)
			if err != nil {
				return err
			}
			var value record.Message
			if r.Value != nil {
				if value, _, err = record.DecodeValue(record.GroupLog, id, r.Value); err != nil {
					return err
				}
			}
			return c.Replay(b.BaseOffset()+kafka.Offset(r.OffsetDelta), kafka.NoProducerID, key, value)
		})
		if err != nil {
			w.violate("the log cannot be replayed: %v", err)
		}
	}
}

// checkSync sees an assignment that a member got.
func (w *world) checkSync(c *client, member string, generation int32, a assignment) {
	w.counts.Synced++
	if a.by == "" {
		return // nothing was assigned to it
	}
	if strings.HasPrefix(a.by, impostor) {
		w.violate("generation %d of %s has the assignments of a member that does not lead: %s", generation, c.group, a.by)
	}
	k := generationKey{c.group, generation}
	if by, ok := w.assigned[k]; ok && by != a.by {
		w.violate("generation %d of %s has the assignments of %s and of %s", generation, c.group, by, a.by)
	}
	w.assigned[k] = a.by
	if w.owners[k] == nil {
		w.owners[k] = map[int32]owner{}
	}
	for _, p := range a.partitions {
		is := owner{member, c.instance}
		was, taken := w.owners[k][p]
		if taken && was != is && (was.instance == "" || was.instance != is.instance) {
			w.violate("partition %d of generation %d of %s belongs to %v and to %v", p, generation, c.group, was, is)
		}
		w.owners[k][p] = is
	}
}

// checkCommit sees an acknowledged commit.
func (w *world) checkCommit(k commitKey, value int64) {
	w.counts.Commits++
	if at := w.log.find(k, value); at >= w.log.hw {
		w.violate("commit %d for %v is acknowledged, but not committed: at %d, high watermark %d", value, k, at, w.log.hw)
	}
}

// checkFetch sees a fetched offset; known was committed when it was asked for.
func (w *world) checkFetch(k commitKey, known commit, value int64) {
	w.counts.Fetches++
	if at := w.log.find(k, value); at < known.at || at >= w.log.hw {
		w.violate("offset %d of %v is fetched, at %d; %d at %d was committed before; high watermark %d", value, k, at, known.value, known.at, w.log.hw)
	}
}

// settleTime is how long groups have to settle after the last fault.
const settleTime = time.Minute

// Run runs one world.
func Run(cfg Config) Result {
	w := &world{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x67726f757073)), now: kafka.Now{Mono: 1, Wall: 1_700_000_000_000}, faults: true,
		assigned: map[generationKey]string{}, owners: map[generationKey]map[int32]owner{},
	}
	w.log = &simLog{w: w, watches: map[int]func(){}, commits: map[commitKey][]commit{}, max: 20_000 + w.rng.IntN(100_000)}
	w.elect()
	w.fail()
	w.compare()
	groups := 1 + w.rng.IntN(3)
	for g := range groups {
		for range 1 + w.rng.IntN(6) {
			w.newClient(fmt.Sprintf("g%d", g))
		}
	}
	w.disturb()
	for w.counts.Events < cfg.Events && w.step() {
	}
	w.settle()
	return Result{Counts: w.counts, Hash: w.hash, Violation: w.violation}
}

// settle ends the faults and waits until every group has all its consumers.
func (w *world) settle() {
	w.faults = false
	w.trace("faults end")
	for _, c := range w.clients {
		c.paused = false
		c.resume()
	}
	end := w.now.Mono.Add(settleTime)
	for w.violation == nil && w.now.Mono < end && w.step() {
	}
	byGroup := map[string]map[int32]int{}
	for i, c := range w.clients {
		if c.gone {
			continue
		}
		if c.state != working {
			w.violate("client %d of %s is not working after %s: %s", i, c.group, settleTime, c.state)
		}
		if byGroup[c.group] == nil {
			byGroup[c.group] = map[int32]int{}
		}
		for _, p := range c.owned {
			byGroup[c.group][p]++
		}
	}
	for g, parts := range byGroup {
		for p := range int32(partitions) {
			if parts[p] != 1 {
				w.violate("partition %d of %s has %d owners in the end", p, g, parts[p])
			}
		}
	}
}

// disturb pauses, crashes, restarts and adds consumers now and then.
func (w *world) disturb() {
	w.after(w.ms(500, 4000), func() {
		if !w.faults {
			return
		}
		c := w.clients[w.rng.IntN(len(w.clients))]
		switch w.rng.IntN(5) {
		case 0:
			c.pause(w.ms(100, 20_000))
		case 1:
			c.crash()
			w.after(w.ms(0, 15_000), func() { w.replace(c) })
		case 2:
			c.leave()
			w.after(w.ms(0, 5000), func() { w.replace(c) })
		case 3:
			if c.instance != "" && !c.gone { // the same instance twice
				n := w.newClient(c.group)
				n.instance = c.instance
			}
		case 4:
			if len(w.clients) < 40 {
				w.newClient(c.group)
			}
		}
		w.disturb()
	})
}

// replace starts a consumer in place of one that is gone.
func (w *world) replace(c *client) {
	if !c.gone {
		return
	}
	for _, o := range w.clients {
		if c.instance != "" && o.instance == c.instance && !o.gone {
			return
		}
	}
	w.newClient(c.group).instance = c.instance
}

// request gives a request to the coordinator.
func (w *world) request(body any, client string, a statemachine.Asker) {
	w.broker.machine.Submit(coordinator.Request{Body: body, ClientID: client, Host: "/10.0.0.1"}, a)
}
