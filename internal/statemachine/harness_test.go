package statemachine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// set asks the fake core to set keys; its answer tells how many keys there are.
type set struct {
	keys  []string
	value int64
	pad   int  // bytes in each value
	park  bool // answer only when let go
}

type letGo struct{}

// at asks the fake core for one key.
type at struct{ key string }

// fake is a core: keys with numbers.
type fake struct {
	state  map[string]int64
	open   map[kafka.ProducerID]map[string]int64
	parked []uint64 // soft state
	undo   []func()
	mark   int
	active bool

	deadline kafka.Mono
	fired    int
	busy     func() // what a deadline costs
	onRevert func(code kafka.ErrorCode, out *coordinator.Effects)
	steps    int
	codes    []kafka.ErrorCode // of Revert and Refuse
}

func newFake() *fake {
	return &fake{state: map[string]int64{}, open: map[kafka.ProducerID]map[string]int64{}, deadline: kafka.Never}
}

func (f *fake) put(key string, v int64, present bool) {
	was, had := f.state[key]
	if f.active {
		f.undo = append(f.undo, func() {
			if delete(f.state, key); had {
				f.state[key] = was
			}
		})
	}
	if delete(f.state, key); present {
		f.state[key] = v
	}
}

func (f *fake) Replay(_ kafka.Offset, producer kafka.ProducerID, key, value record.Message) error {
	k, ok := key.(*record.OffsetCommitKey)
	if !ok {
		return fmt.Errorf("a %s", key.Kind())
	}
	if value == nil {
		f.put(k.Topic, 0, false)
		return nil
	}
	v := value.(*record.OffsetCommitValue)
	if producer == kafka.NoProducerID {
		f.put(k.Topic, int64(v.Offset), true)
		return nil
	}
	if f.open[producer] == nil {
		f.open[producer] = map[string]int64{}
	}
	f.open[producer][k.Topic] = int64(v.Offset)
	return nil
}

func (f *fake) EndTransaction(producer kafka.ProducerID, commit bool) {
	for k, v := range f.open[producer] {
		if commit {
			f.put(k, v, true)
		}
	}
	delete(f.open, producer)
}

func (f *fake) Loaded(kafka.Now, *coordinator.Effects) { f.active = true }

func records(s set) (out []coordinator.Record) {
	for _, k := range s.keys {
		key, value := record.NewOffsetCommitKey(), record.NewOffsetCommitValue()
		key.Topic, value.Offset, value.Metadata = k, kafka.Offset(s.value), strings.Repeat("x", s.pad)
		out = append(out, coordinator.Record{Key: key, Value: value, Version: 3})
	}
	return out
}

func (f *fake) Step(_ kafka.Now, event any, out *coordinator.Effects) {
	f.mark = len(f.undo)
	f.steps++
	switch e := event.(type) {
	case coordinator.DeadlineReached:
		f.deadline = kafka.Never
		if f.fired++; f.busy != nil {
			f.busy()
		}
	case letGo:
		f.release(out, nil)
	case set:
		out.Records = append(out.Records, records(e)...)
	case coordinator.Request:
		switch b := e.Body.(type) {
		case at:
			out.Replies = append(out.Replies, coordinator.Reply{Token: e.Token, Body: f.state[b.key]})
		case set:
			out.Records = append(out.Records, records(b)...)
			if b.park {
				f.parked = append(f.parked, e.Token)
				f.undo = append(f.undo, func() { f.parked = slices.DeleteFunc(f.parked, func(t uint64) bool { return t == e.Token }) })
				return
			}
			out.Replies = append(out.Replies, coordinator.Reply{Token: e.Token, Body: "ok"})
		}
	}
}

func (f *fake) release(out *coordinator.Effects, body any) {
	for _, t := range f.parked {
		out.Replies = append(out.Replies, coordinator.Reply{Token: t, Body: body})
	}
	f.parked = nil
}

func (f *fake) Deadline() kafka.Mono { return f.deadline }
func (f *fake) Appended()            { f.undo, f.mark = f.undo[:0], 0 }

func (f *fake) backTo(n int, code kafka.ErrorCode, out *coordinator.Effects) {
	parked := slices.Clone(f.parked)
	for i := len(f.undo) - 1; i >= n; i-- {
		f.undo[i]()
	}
	f.undo = f.undo[:n]
	for _, t := range parked { // as a real core: who joined by a step that is void is told
		if !slices.Contains(f.parked, t) {
			out.Replies = append(out.Replies, coordinator.Reply{Token: t, Body: code})
		}
	}
	f.mark = len(f.undo)
	f.codes = append(f.codes, code)
	if f.onRevert != nil {
		f.onRevert(code, out)
	}
}

func (f *fake) Revert(_ kafka.Now, code kafka.ErrorCode, out *coordinator.Effects) {
	f.backTo(0, code, out)
}

func (f *fake) Refuse(_ kafka.Now, code kafka.ErrorCode, out *coordinator.Effects) {
	f.backTo(f.mark, code, out)
}

func (f *fake) hash() string {
	keys := make([]string, 0, len(f.state))
	for k, v := range f.state {
		keys = append(keys, fmt.Sprint(k, "=", v))
	}
	sort.Strings(keys)
	return strings.Join(keys, " ")
}

// memory is a log in memory.
type memory struct {
	mu       sync.Mutex
	epoch    kafka.Epoch
	batches  []batch.Batch
	end, hw  kafka.Offset
	hold     bool // the high watermark does not follow
	limit    int
	fail     func() kafka.ErrorCode // of the next append
	written  bool                   // a failed append has written all the same
	watchers map[int]func()
	watches  int
	appends  int
	async    func(func())
	reading  func() // called by Read
}

func newMemory() *memory {
	return &memory{epoch: 7, limit: 4096, watchers: map[int]func(){}, async: func(f func()) { go f() }}
}

func (l *memory) Append(epoch kafka.Epoch, base kafka.Offset, _ kafka.WallMs, batches ...batch.Batch) (kafka.Offset, kafka.ErrorCode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch != l.epoch || base != l.end {
		return l.end, kafka.ErrNotLeaderForPartition
	}
	code := kafka.ErrorCode(0)
	if l.fail != nil {
		code = l.fail()
	}
	if code != 0 && !l.written {
		return l.end, code
	}
	l.appends++
	for _, b := range batches {
		if b.BaseOffset() != l.end || len(b) > l.limit {
			return l.end, kafka.ErrInvalidRecord
		}
		l.batches = append(l.batches, bytes.Clone(b))
		l.end = b.NextOffset()
	}
	if !l.hold {
		l.hw = l.end
	}
	return l.end, code
}

func (l *memory) commit(to kafka.Offset) {
	l.mu.Lock()
	l.hw = to
	ws := l.watchers
	l.watchers = map[int]func(){}
	l.mu.Unlock()
	for _, w := range ws {
		l.async(w)
	}
}

var errElsewhere = errors.New("led elsewhere")

func (l *memory) Span(epoch kafka.Epoch) (kafka.Offset, kafka.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch != l.epoch {
		return 0, 0, errElsewhere
	}
	return 0, l.end, nil
}

func (l *memory) Read(epoch kafka.Epoch, from kafka.Offset, maxBytes int, buf []byte) ([]byte, error) {
	if l.reading != nil {
		l.reading()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch != l.epoch {
		return nil, errElsewhere
	}
	for _, b := range l.batches {
		if b.LastOffset() < from {
			continue
		}
		if len(buf) > 0 && len(buf)+len(b) > maxBytes {
			break
		}
		buf = append(buf, b...)
	}
	return buf, nil
}

func (l *memory) HighWatermark() kafka.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hw
}

func (l *memory) MaxBatchBytes() int { return l.limit }

func (l *memory) Watch(news func()) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches++
	id := l.watches
	l.watchers[id] = news
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, id)
	}
}

// answered is an Asker of tests.
type answered struct {
	mu     sync.Mutex
	waits  int
	n      int
	body   any
	code   kafka.ErrorCode
	done   chan struct{}
	inStep func()
	gone   bool
}

func ask() *answered { return &answered{done: make(chan struct{})} }

func (a *answered) Gone() bool { return a.gone }

func (a *answered) Waits() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits++
}

func (a *answered) Answer(body any, code kafka.ErrorCode) {
	a.mu.Lock()
	a.n++
	if a.n == 1 {
		a.body, a.code = body, code
		close(a.done)
	}
	a.mu.Unlock()
	if a.inStep != nil {
		a.inStep()
	}
}

func (a *answered) want(t *testing.T, body any, code kafka.ErrorCode) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n != 1 || a.body != body || a.code != code {
		t.Errorf("answered %d times, last with %v %v; want once %v %v", a.n, a.body, a.code, body, code)
	}
}

func (a *answered) unanswered(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n != 0 {
		t.Errorf("answered early with %v %v", a.body, a.code)
	}
}

// world runs machines in one goroutine, with a clock that the test moves.
type world struct {
	t     *testing.T
	now   kafka.Now
	ready []func()
	rings map[int]ringing
	n     int
	log   *memory
	lines bytes.Buffer
	core  *fake // of the newest load
	m     *Machine
}

type ringing struct {
	at kafka.Mono
	f  func()
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, rings: map[int]ringing{}, log: newMemory(), now: kafka.Now{Mono: 1, Wall: 1_700_000_000_000}}
	w.log.async = w.later
	return w
}

func (w *world) later(f func()) { w.ready = append(w.ready, f) }

// settle runs what is ready.
func (w *world) settle() {
	for n := 0; len(w.ready) > 0; n++ {
		if n > 10_000 {
			w.t.Fatal("it never ends")
		}
		f := w.ready[0]
		w.ready = w.ready[1:]
		f()
	}
}

// At implements Timer.
func (w *world) At(at kafka.Mono, f func()) func() {
	w.n++
	id := w.n
	w.rings[id] = ringing{at, f}
	return func() { delete(w.rings, id) }
}

func (w *world) pass(d time.Duration) {
	w.now.Mono = w.now.Mono.Add(d)
	w.now.Wall += kafka.WallMs(d.Milliseconds())
	for again := true; again; {
		again = false
		for id, r := range w.rings {
			if r.at <= w.now.Mono {
				delete(w.rings, id)
				w.later(r.f)
				again = true
			}
		}
		w.settle()
	}
}

func (w *world) options() Options {
	return Options{
		Name: kafka.TopicPartition{Topic: kafka.ConsumerOffsetsTopic, Partition: 3}, Epoch: 7, Kind: record.GroupLog,
		NewCore: func() coordinator.Core { w.core = newFake(); return w.core },
		Log:     w.log, Timer: w, Go: w.later, Now: func() kafka.Now { return w.now },
		Logger: slog.New(slog.NewTextHandler(&w.lines, nil)), CommitTimeout: 5 * time.Second, LoadBufferBytes: 256,
	}
}

// start loads a machine.
func (w *world) start() *world {
	w.m = New(w.options())
	w.m.Start()
	w.settle()
	return w
}

func (w *world) ask(body any) *answered {
	a := ask()
	w.m.Submit(coordinator.Request{Body: body}, a)
	return a
}

// together submits so that all come into one turn.
func (w *world) together(bodies ...any) []*answered {
	w.m.mu.Lock()
	w.m.running = true
	w.m.mu.Unlock()
	var out []*answered
	for _, b := range bodies {
		out = append(out, w.ask(b))
	}
	w.m.run()
	w.settle()
	return out
}

// reloaded is the state that another machine loads from the log.
func (w *world) reloaded() string {
	o := w.options()
	f := newFake()
	o.NewCore = func() coordinator.Core { return f }
	m := New(o)
	m.Start()
	w.settle()
	if !f.active {
		w.t.Fatalf("not loaded: %s", w.lines.String())
	}
	m.Resign()
	w.settle()
	return f.hash()
}
