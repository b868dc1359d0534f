package statemachine

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"moldau/internal/batch"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// Log is the log of the machine's partition on this broker.
type Log interface {
	// Append writes the batches as the leader of that epoch, as a produce with
	// acks=all, if the log ends at base; all of them or none. end is where the log
	// ends afterwards, also if a code says that nothing was written, or not as
	// durably as it should be.
	Append(epoch kafka.Epoch, base kafka.Offset, now kafka.WallMs, batches ...batch.Batch) (end kafka.Offset, code kafka.ErrorCode)
	// Span is where the log starts and ends, committed or not; it fails if this
	// broker does not lead in that epoch.
	Span(epoch kafka.Epoch) (start, end kafka.Offset, err error)
	// Read gives whole batches from the one that holds from, as far as the log
	// goes, maxBytes of them or one; in buf if they fit.
	Read(epoch kafka.Epoch, from kafka.Offset, maxBytes int, buf []byte) ([]byte, error)
	// HighWatermark is the offset below which records are committed.
	HighWatermark() kafka.Offset
	// MaxBatchBytes bounds a batch (max.message.bytes).
	MaxBatchBytes() int
	// Watch calls news once, on another goroutine, at the next news of the high
	// watermark, unless cancel is called before. Look at it after Watch.
	Watch(news func()) (cancel func())
}

// Timer rings at a time.
type Timer interface {
	// At calls ring once at that time, on another goroutine, unless cancel is
	// called before.
	At(at kafka.Mono, ring func()) (cancel func())
}

// Asker is who has submitted a request.
type Asker interface {
	// Gone tells whether nobody waits for the answer any more. It is asked right
	// before the core would get the request: what a dead connection has left behind
	// must not be done after what its client has sent since (Trap 13).
	Gone() bool
	// Waits says that the request will be answered later than in the step in which
	// the core got it: nothing of its body is used any more.
	Waits()
	// Answer gives the core's answer, or a code if there is none: that of the
	// failed append, RECORD_LIST_TOO_LARGE, REQUEST_TIMED_OUT if it was not
	// committed in time, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR. Called
	// once, perhaps before Submit returns, perhaps on the goroutine of another
	// client: it must not block.
	Answer(body any, code kafka.ErrorCode)
}

// Options make a Machine.
type Options struct {
	Name    kafka.TopicPartition
	Epoch   kafka.Epoch
	Kind    record.CoordinatorLog
	NewCore func() coordinator.Core
	Log     Log
	Timer   Timer
	Go      func(func()) // starts a goroutine
	Now     func() kafka.Now
	Logger  *slog.Logger

	CommitTimeout   time.Duration // offsets.commit.timeout.ms
	LoadBufferBytes int           // offsets.load.buffer.size
	Codec           batch.Codec   // of the batches (offsets.topic.compression.codec)
}

const (
	// maxTurns is how many turns a runner works before it hands over.
	maxTurns = 4
	// maxTurnEvents bounds the events of a turn, which share one append.
	maxTurnEvents = 1000
	// maxDeadlines is how long a turn may work on what is due while requests wait.
	maxDeadlines = 5 * time.Millisecond
	// maxQueued bounds the requests that wait for the runner. Each connection
	// brings one at a time, so that this takes many clients.
	maxQueued = 100_000
	// maxNotes bounds the events that wait for the end of loading.
	maxNotes = 1000
	// maxReverts is how often in a row what a core says to a failure may fail.
	maxReverts = 3
	// reloadBackoff is the least time between two reloads.
	reloadBackoff = time.Second
)

type phase uint8

const (
	loading phase = iota
	active
	failed // until the log can be read, or the next leader epoch
	resigned
)

type event struct {
	request coordinator.Request
	asker   Asker // nil: not a request
	note    any
}

// Machine is the coordinator of one partition in one leader epoch.
type Machine struct {
	opts Options

	mu      sync.Mutex
	phase   phase
	running bool
	queue   []event
	notes   []any // for the end of loading
	poked   bool  // the runner must look at what follows
	loaded  *loadResult
	news    bool
	rang    bool

	// What follows is the runner's.
	core      coordinator.Core // nil: not active
	lastToken uint64
	asked     map[uint64]Asker // requests that the core has not answered
	out, back coordinator.Effects
	write     writer
	held      held
	failing   bool   // the last append failed
	failure   string // why the log could not be read
	turn      []event

	armed     kafka.Mono
	stopTimer func()
	stopWatch func()
	reloadAt  kafka.Mono // not before
}

// New makes a Machine that is loading; Start begins with that.
func New(o Options) *Machine {
	return &Machine{opts: o, asked: map[uint64]Asker{}, armed: kafka.Never}
}

// Start begins to load, on a goroutine of its own.
func (m *Machine) Start() { m.opts.Go(m.load) }

// Epoch is the leader epoch for which the Machine was made.
func (m *Machine) Epoch() kafka.Epoch { return m.opts.Epoch }

// refusal is what a request is told that cannot be taken. Called with mu held.
func (m *Machine) refusal() kafka.ErrorCode {
	switch {
	case m.phase == loading, m.phase == active && len(m.queue) >= maxQueued:
		return kafka.ErrCoordinatorLoadInProgress // the client comes back
	case m.phase != active:
		return kafka.ErrNotCoordinator
	}
	return 0
}

// Submit asks the core. The token of r is the Machine's to choose. The work is
// done on the caller's goroutine, if nobody else is at it.
func (m *Machine) Submit(r coordinator.Request, a Asker) {
	m.mu.Lock()
	if code := m.refusal(); code != 0 {
		m.mu.Unlock()
		a.Answer(nil, code)
		return
	}
	m.queue = append(m.queue, event{request: r, asker: a})
	idle := !m.running
	m.running = true
	m.mu.Unlock()
	if idle {
		m.run()
	}
}

// Notify gives the core an event that nobody waits for. It does not work on the
// caller's goroutine. While the core is loaded the event waits.
func (m *Machine) Notify(note any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.phase == active:
		m.queue = append(m.queue, event{note: note})
		m.start()
	case m.phase == loading && len(m.notes) < maxNotes:
		m.notes = append(m.notes, note)
	case m.phase == loading:
		m.opts.Logger.Warn("too much happened while a coordinator was loading; it will not know all of it", "partition", m.opts.Name)
	}
}

// Resign ends the Machine: this broker does not lead the partition any more, or
// in another epoch. Everything that waits fails with NOT_COORDINATOR, on another
// goroutine; nothing is taken from now on.
func (m *Machine) Resign() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase, m.poked = resigned, true
	m.start()
}

// start makes a fresh goroutine the runner if there is none. Called with mu held.
func (m *Machine) start() {
	if !m.running {
		m.running = true
		m.opts.Go(m.run)
	}
}

// poke has the runner look at what set has set; it works on the caller's
// goroutine if nobody else is at it.
func (m *Machine) poke(set func()) {
	m.mu.Lock()
	set()
	m.poked = true
	idle := !m.running
	m.running = true
	m.mu.Unlock()
	if idle {
		m.run()
	}
}

// run is the runner: it works until there is nothing to do, or it has done
// enough for others.
func (m *Machine) run() {
	for range maxTurns {
		now, ok := m.next()
		if !ok {
			return
		}
		m.work(now)
	}
	m.opts.Go(m.run)
}

// signals are what has come in beside events.
type signals struct {
	phase      phase
	loaded     *loadResult
	news, rang bool
}

// next takes the events of a turn into m.turn. It reports false, and the runner
// is none any more, if there is nothing to do.
func (m *Machine) next() (signals, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 && !m.poked {
		m.running = false
		return signals{}, false
	}
	n := min(len(m.queue), maxTurnEvents)
	m.turn = append(m.turn[:0], m.queue[:n]...)
	rest := copy(m.queue, m.queue[n:])
	clear(m.queue[rest:])
	m.queue = m.queue[:rest]
	s := signals{m.phase, m.loaded, m.news, m.rang}
	m.poked, m.loaded, m.news, m.rang = false, nil, false, false
	return s, true
}

// work does a turn.
func (m *Machine) work(s signals) {
	if s.rang {
		m.armed, m.stopTimer = kafka.Never, nil
	}
	if s.news {
		m.stopWatch = nil
	}
	switch {
	case s.phase == resigned:
		m.drop()
	case s.loaded != nil:
		m.begin(s.loaded)
	}
	for i := range m.turn {
		m.step(&m.turn[i])
	}
	clear(m.turn)
	m.deadlines()
	m.flush()
	m.release()
	m.arm()
}

// deadlines does what is due. The requests of this turn, and those that come
// meanwhile, wait for some of it only: a session must not end because its
// heartbeats had to.
func (m *Machine) deadlines() {
	began := m.opts.Now().Mono
	for n := 0; m.core != nil && n < maxTurnEvents; n++ {
		now := m.opts.Now().Mono
		if m.core.Deadline() > now {
			return
		}
		if now.Sub(began) > maxDeadlines && m.requestsWait() {
			return
		}
		m.step(&event{note: coordinator.DeadlineReached{}})
	}
}

// requestsWait tells whether there are requests in this turn or for the next,
// which then comes at once.
func (m *Machine) requestsWait() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := len(m.turn) > 0 || len(m.queue) > 0
	m.poked = m.poked || wait
	return wait
}

// drop lets go of the core and of everything that waits.
func (m *Machine) drop() {
	m.core = nil
	m.write = writer{buf: m.write.buf}
	for _, r := range m.held.takeAll() {
		r.asker.Answer(nil, kafka.ErrNotCoordinator)
	}
	for _, token := range slices.Sorted(maps.Keys(m.asked)) {
		m.asked[token].Answer(nil, kafka.ErrNotCoordinator)
	}
	clear(m.asked)
	if m.stopWatch != nil {
		m.stopWatch()
		m.stopWatch = nil
	}
	if m.stopTimer != nil {
		m.stopTimer()
		m.armed, m.stopTimer = kafka.Never, nil
	}
}

// enter changes the phase, unless the Machine has resigned meanwhile.
func (m *Machine) enter(p phase) (ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == resigned {
		return false
	}
	m.phase = p
	return true
}

// reload starts over from the log, because state and log may differ.
func (m *Machine) reload(why string, args ...any) {
	m.drop()
	if !m.enter(loading) {
		return
	}
	m.opts.Logger.Error("coordinator is loaded again: "+why, append([]any{"partition", m.opts.Name, "epoch", m.opts.Epoch}, args...)...)
	now, at := m.opts.Now().Mono, m.reloadAt
	m.reloadAt = max(now, at).Add(reloadBackoff)
	if now >= at {
		m.opts.Go(m.load)
	} else {
		m.opts.Timer.At(at, func() { m.opts.Go(m.load) })
	}
}

// arm sets the timer for what comes first. One that rings too early costs one
// look: a deadline that moves back with every heartbeat leaves it alone.
func (m *Machine) arm() {
	want := kafka.Never
	if m.core != nil {
		want = m.core.Deadline()
	}
	want = min(want, m.held.due())
	if want >= m.armed {
		return
	}
	if m.stopTimer != nil {
		m.stopTimer()
	}
	m.armed = want
	m.stopTimer = m.opts.Timer.At(want, func() { m.poke(func() { m.rang = true }) })
}
