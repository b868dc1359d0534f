package statemachine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

func key(s string, v int64) set { return set{keys: []string{s}, value: v} }

// The log's codes, each of which must leave the state as the log has it.
var appendErrors = []kafka.ErrorCode{
	kafka.ErrNotEnoughReplicas, kafka.ErrNotLeaderForPartition, kafka.ErrKafkaStorageError, kafka.ErrMessageTooLarge,
	kafka.ErrRecordListTooLarge, kafka.ErrUnknownTopicOrPartition, kafka.ErrInvalidRecord, kafka.ErrRequestTimedOut,
}

// Trap 2. Fails without the Revert in flush, if replies of a failed append go
// out, or if Appended is called for what is not in the log.
func TestTrap2AFailedAppendLeavesTheStateOfTheLog(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t).start()
		code := kafka.ErrorCode(0)
		w.log.fail = func() kafka.ErrorCode {
			if code = 0; rnd.IntN(4) == 0 {
				code = appendErrors[rnd.IntN(len(appendErrors))]
			}
			// Sometimes the batch is in the log all the same: its flush failed.
			w.log.written = code == kafka.ErrKafkaStorageError && rnd.IntN(2) == 0
			return code
		}
		w.core.onRevert = func(_ kafka.ErrorCode, out *coordinator.Effects) {
			if rnd.IntN(3) == 0 {
				out.Records = append(out.Records, records(key("reverted", rnd.Int64N(100)))...)
			}
		}
		for range 30 {
			var bodies []any
			for range 1 + rnd.IntN(6) {
				s := set{value: rnd.Int64N(1000), pad: rnd.IntN(600)}
				for range rnd.IntN(5) {
					s.keys = append(s.keys, fmt.Sprint("k", rnd.IntN(10)))
				}
				bodies = append(bodies, s)
			}
			for i, a := range w.together(bodies...) {
				if a.n != 1 {
					t.Fatalf("seed %d: request %d was answered %d times", seed, i, a.n)
				}
			}
			if w.m.core == nil { // it has written what it did not want: loaded again, perhaps later
				w.pass(time.Second)
			}
			live := w.m.core.(*fake)
			if got, want := live.hash(), w.reloaded(); got != want {
				t.Fatalf("seed %d after %v: live %s, log %s", seed, code, got, want)
			}
			w.core = live
		}
	}
}

// Fails if a failed append leaves leadership, or its code is another's.
func TestAFailedAppendFailsItsBatchOnly(t *testing.T) {
	for _, code := range appendErrors {
		w := newWorld(t).start()
		w.together(key("a", 1))
		w.log.fail = func() kafka.ErrorCode { return code }
		before := w.core.hash()
		for _, a := range w.together(key("a", 2), key("b", 3), at{"a"}) {
			a.want(t, nil, code)
		}
		if got := w.core.hash(); got != before {
			t.Errorf("%v: state is %s, was %s", code, got, before)
		}
		w.log.fail = nil
		w.together(key("a", 4))[0].want(t, "ok", 0)
		w.together(at{"a"})[0].want(t, int64(4), 0)
	}
}

// What was decided before the first record of the turn rests on the log alone.
// Fails if take does not settle.
func TestAReplyBeforeTheFailedRecordsStands(t *testing.T) {
	w := newWorld(t).start()
	w.log.fail = func() kafka.ErrorCode { return kafka.ErrNotEnoughReplicas }
	a := w.together(at{"a"}, key("a", 1))
	a[0].want(t, int64(0), 0)
	a[1].want(t, nil, kafka.ErrNotEnoughReplicas)
}

// A core that answers each failure with records that fail, too. Fails without
// the bound in flush.
func TestRevertsEnd(t *testing.T) {
	w := newWorld(t).start()
	w.log.fail = func() kafka.ErrorCode { return kafka.ErrNotEnoughReplicas }
	w.core.onRevert = func(_ kafka.ErrorCode, out *coordinator.Effects) {
		out.Records = append(out.Records, records(key("again", 1))...)
	}
	w.together(key("a", 1))[0].want(t, nil, kafka.ErrNotEnoughReplicas)
	if !strings.Contains(w.lines.String(), "loaded again") {
		t.Error(w.lines.String())
	}
	w.log.fail = nil
	w.together(key("a", 1))[0].want(t, "ok", 0)
}

// Trap 1: answers rest on what was decided before them, committed or not. Fails
// if a reply without records goes out at once.
func TestTrap1RepliesWaitForTheTip(t *testing.T) {
	w := newWorld(t).start()
	w.log.hold = true
	a := w.ask(key("a", 1))
	b := w.ask(at{"a"})
	w.settle()
	a.unanswered(t)
	b.unanswered(t)
	w.log.commit(1)
	w.settle()
	a.want(t, "ok", 0)
	b.want(t, int64(1), 0)
	c, d := w.ask(key("a", 2)), w.ask(key("a", 3))
	w.log.commit(2)
	w.settle()
	c.want(t, "ok", 0)
	d.unanswered(t)
	w.m.Resign()
	w.settle()
	d.want(t, nil, kafka.ErrNotCoordinator)
}

// offsets.commit.timeout.ms. Fails without the due time of held replies.
func TestARequestNotCommittedInTimeFails(t *testing.T) {
	w := newWorld(t).start()
	w.log.hold = true
	a := w.ask(key("a", 1))
	w.pass(3 * time.Second)
	b := w.ask(at{"a"})
	w.pass(1999 * time.Millisecond)
	a.unanswered(t)
	w.pass(time.Millisecond)
	a.want(t, nil, kafka.ErrRequestTimedOut)
	b.unanswered(t)
	w.log.commit(1)
	w.settle()
	b.want(t, int64(1), 0) // the state stays
	if got, want := w.core.hash(), w.reloaded(); got != want {
		t.Errorf("live %s, log %s", got, want)
	}
}

// One event never splits over batches; two batches go in one write. Fails if put
// does not rewind, or flush appends twice.
func TestBatchesAreBoundedAndEventsWhole(t *testing.T) {
	w := newWorld(t).start()
	big := set{keys: []string{"p", "q", "r"}, value: 1, pad: 900}
	small := set{keys: []string{"s"}, value: 1, pad: 900}
	for _, a := range w.together(small, small, big, big, small) {
		a.want(t, "ok", 0)
	}
	var counts []int32
	for _, b := range w.log.batches {
		counts = append(counts, b.Count())
	}
	if fmt.Sprint(counts) != "[2 3 4]" || w.log.appends != 2 {
		t.Errorf("batches of %v records in %d writes", counts, w.log.appends)
	}
	if got, want := w.core.hash(), w.reloaded(); got != want {
		t.Errorf("live %s, log %s", got, want)
	}
}

// Records that fit into no batch are refused alone. Fails if Revert is called
// instead of Refuse, or the refused records were replayed.
func TestAnEventThatIsTooLargeIsRefusedAlone(t *testing.T) {
	w := newWorld(t).start()
	huge := set{keys: []string{"a", "b", "c", "d", "e"}, value: 9, pad: 900}
	parked := huge
	parked.park = true
	a := w.together(key("a", 1), huge, key("b", 2), parked, at{"a"})
	a[0].want(t, "ok", 0)
	a[1].want(t, nil, kafka.ErrRecordListTooLarge)
	a[2].want(t, "ok", 0)
	a[3].want(t, kafka.ErrRecordListTooLarge, 0) // the core's own answer
	a[4].want(t, int64(1), 0)
	if got := w.core.hash(); got != "a=1 b=2" || got != w.reloaded() {
		t.Errorf("live %s, log %s", got, w.reloaded())
	}
}

// What a refused record was encoded in is not kept, for a hundred partitions and as
// long as they live. Fails if encode keeps w.value.
func TestMemoryOfRefusedRecordsIsNotKept(t *testing.T) {
	w := newWorld(t).start()
	w.ask(set{keys: []string{"a"}, value: 9, pad: 30_000}).want(t, nil, kafka.ErrRecordListTooLarge)
	w.ask(key("b", 2)).want(t, "ok", 0)
	if kept := cap(w.m.write.value) + cap(w.m.write.buf); kept > 4*w.log.limit {
		t.Errorf("%d bytes are kept, a batch may have %d", kept, w.log.limit)
	}
}

// A request that waits in the core gives its frame back; one that is answered
// does not hear of it. Fails without Waits.
func TestWaitsTellsOfRequestsInTheCore(t *testing.T) {
	w := newWorld(t).start()
	a, b := w.ask(set{park: true}), w.ask(at{"a"})
	if a.waits != 1 || b.waits != 0 {
		t.Errorf("told %d and %d times", a.waits, b.waits)
	}
	w.m.Notify(letGo{})
	w.settle()
	a.want(t, nil, 0)
}

// Trap 13: fails if step does not ask.
func TestTrap13WhoIsGoneChangesNothing(t *testing.T) {
	w := newWorld(t).start()
	w.ask(key("a", 2))
	dead := ask()
	dead.gone = true
	w.m.Submit(coordinator.Request{Body: key("a", 1)}, dead)
	dead.want(t, nil, kafka.ErrNotCoordinator)
	w.ask(at{"a"}).want(t, int64(2), 0)
}

func TestDeadlines(t *testing.T) {
	w := newWorld(t).start()
	w.core.deadline = w.now.Mono.Add(time.Second)
	w.ask(at{"a"}) // arms
	w.pass(999 * time.Millisecond)
	if w.core.fired != 0 {
		t.Fatal("early")
	}
	w.core.deadline = w.now.Mono.Add(time.Second) // moved back
	w.pass(time.Millisecond)
	if w.core.fired != 0 {
		t.Fatal("at the old time")
	}
	w.pass(time.Second)
	if w.core.fired != 1 {
		t.Fatalf("fired %d times", w.core.fired)
	}
}

func logged(l *memory, b *batch.Builder) {
	l.batches = append(l.batches, b.Finish())
	l.end = l.batches[len(l.batches)-1].NextOffset()
}

func (l *memory) builder() *batch.Builder { return batch.NewBuilder(nil, l.end, 3) }

func addTo(b *batch.Builder, s set) {
	for _, r := range records(s) {
		b.Add(1, record.AppendKey(nil, r.Key), record.AppendValue(nil, r.Value, r.Version))
	}
}

func marker(l *memory, producer kafka.ProducerID, t record.ControlType) {
	b := l.builder()
	b.Control, b.Transactional, b.ProducerID, b.ProducerEpoch = true, true, producer, 0
	b.Add(1, record.ControlKey(t), record.AppendControl(nil, record.NewEndTxnMarker(), 0))
	logged(l, b)
}

// Everything that a log can hold. HC-103: fails if record does not skip unknown
// kinds, or skips unknown versions.
func TestHC103Loading(t *testing.T) {
	w := newWorld(t)
	for i, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
		b := w.log.builder()
		b.Codec = codec
		addTo(b, set{keys: []string{fmt.Sprint("c", i), "last"}, value: int64(i), pad: 100})
		logged(w.log, b)
	}
	for producer := range kafka.ProducerID(3) {
		b := w.log.builder()
		b.Transactional, b.ProducerID, b.ProducerEpoch = true, producer, 0
		addTo(b, key(fmt.Sprint("txn", producer), int64(producer)))
		logged(w.log, b)
	}
	marker(w.log, 0, record.ControlCommit)
	marker(w.log, 1, record.ControlAbort)
	marker(w.log, 9, record.ControlCommit)
	b := w.log.builder()
	addTo(b, key("gone", 1))
	b.Add(1, []byte{0, 99, 1, 2}, []byte{0, 0}) // an unknown kind
	b.Add(1, []byte{0, 99, 3}, nil)
	b.Add(1, record.AppendKey(nil, records(key("gone", 0))[0].Key), nil)
	logged(w.log, b)
	w.start()
	const want = "c0=0 c1=1 c2=2 c3=3 c4=4 last=4 txn0=0"
	if got := w.core.hash(); got != want || len(w.core.open) != 1 {
		t.Errorf("loaded %s with %d open transactions\n%s", got, len(w.core.open), w.lines.String())
	}
	if n := strings.Count(w.lines.String(), "unknown kind"); n != 1 {
		t.Errorf("%d lines about the unknown kind", n)
	}
	if n := strings.Count(w.lines.String(), "coordinator loaded"); n != 1 || !strings.Contains(w.lines.String(), "records=20") {
		t.Error(w.lines.String())
	}
	w.ask(key("new", 1)).want(t, "ok", 0)

	b = w.log.builder()
	b.Add(1, record.AppendKey(nil, records(key("x", 0))[0].Key), []byte{0, 99, 1})
	logged(w.log, b)
	w.start()
	w.ask(at{"new"}).want(t, nil, kafka.ErrNotCoordinator)
	if !strings.Contains(w.lines.String(), "cannot be loaded") {
		t.Error(w.lines.String())
	}
}

// Fails if loading does not tell clients to come back, or does not end with the
// leadership.
func TestRequestsWhileLoading(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		b := w.log.builder()
		addTo(b, set{keys: []string{"a"}, value: 1, pad: 300})
		logged(w.log, b)
	}
	w.m = New(w.options())
	w.m.Start()
	w.ask(at{"a"}).want(t, nil, kafka.ErrCoordinatorLoadInProgress)
	w.m.Notify(key("noted", 1))
	w.settle()
	w.ask(at{"noted"}).want(t, int64(1), 0)

	reads := 0
	w.log.reading = func() {
		if reads++; reads == 3 {
			w.m.Resign()
		}
	}
	w.start()
	if reads != 3 {
		t.Errorf("%d reads after the leadership was lost in the third", reads)
	}
	w.ask(at{"a"}).want(t, nil, kafka.ErrNotCoordinator)
	if w.m.core != nil {
		t.Error("the core is kept")
	}
	w.log.reading, w.log.epoch = nil, 8
	w.start()
	w.ask(at{"a"}).want(t, nil, kafka.ErrNotCoordinator)
}

// Fails if drop forgets somebody.
func TestLostLeadershipFailsEverythingThatWaits(t *testing.T) {
	w := newWorld(t).start()
	w.log.hold = true
	parked, held := w.ask(set{park: true}), w.ask(key("a", 1))
	w.m.Resign()
	w.ask(at{"a"}).want(t, nil, kafka.ErrNotCoordinator)
	w.settle()
	parked.want(t, nil, kafka.ErrNotCoordinator)
	held.want(t, nil, kafka.ErrNotCoordinator)
	if len(w.log.watchers) != 0 || len(w.rings) != 0 {
		t.Errorf("%d watches and %d timers are left", len(w.log.watchers), len(w.rings))
	}
}

// Somebody else has written: fails without the comparison of ends.
func TestAStrangersRecordsAreLoaded(t *testing.T) {
	w := newWorld(t).start()
	w.ask(key("a", 1))
	b := w.log.builder()
	addTo(b, key("a", 5))
	logged(w.log, b)
	w.log.commit(w.log.end)
	a := w.ask(key("b", 1))
	w.settle()
	a.want(t, nil, kafka.ErrNotCoordinator)
	w.ask(at{"a"}).want(t, int64(5), 0)
}

// A runner hands over after some turns. Fails if run goes on for ever.
func TestTheRunnerHandsOver(t *testing.T) {
	w := newWorld(t).start()
	turns := 0
	var more func()
	more = func() { // each answer brings the next request
		if turns++; turns < 100 {
			a := ask()
			a.inStep = more
			w.m.Submit(coordinator.Request{Body: at{"a"}}, a)
		}
	}
	more()
	if turns > 2*maxTurns {
		t.Errorf("one client served %d turns", turns)
	}
	w.settle()
	if turns != 100 {
		t.Errorf("%d turns", turns)
	}
}

// The combiner with real goroutines: every request is answered once, and what
// was acknowledged is in the log. Run with -race.
func TestConcurrentSubmits(t *testing.T) {
	w := newWorld(t)
	log := newMemory()
	log.limit = 1 << 20
	o := w.options()
	start := time.Now()
	o.Log, o.Go, o.Timer = log, func(f func()) { go f() }, realTimer{start}
	o.Now = func() kafka.Now { return kafka.Now{Mono: kafka.Mono(time.Since(start)), Wall: 1} }
	fails := 0
	log.fail = func() kafka.ErrorCode { // under the log's mutex
		if fails++; fails%7 == 0 {
			return kafka.ErrNotEnoughReplicas
		}
		return 0
	}
	m := New(o)
	m.Start()
	const clients, each = 16, 200
	acked := make([]int64, clients)
	var work sync.WaitGroup
	for c := range clients {
		work.Add(1)
		go func() {
			defer work.Done()
			for i := int64(1); i <= each; i++ {
				a := ask()
				m.Submit(coordinator.Request{Body: key(fmt.Sprint("k", c), i)}, a)
				<-a.done
				switch a.code {
				case 0:
					acked[c] = i
				case kafka.ErrCoordinatorLoadInProgress:
					i--
				}
			}
		}()
	}
	work.Wait()
	f := newFake()
	o.NewCore = func() coordinator.Core { return f }
	l := newLoader(New(o), f)
	if err := l.run(); err != nil {
		t.Fatal(err)
	}
	for c, v := range acked {
		if got := f.state[fmt.Sprint("k", c)]; got != v {
			t.Errorf("client %d: the log has %d, acknowledged was %d", c, got, v)
		}
	}
	t.Logf("%d requests in %d writes", clients*each, log.appends)
	m.Resign()
}

type realTimer struct{ start time.Time }

func (r realTimer) At(at kafka.Mono, f func()) func() {
	t := time.AfterFunc(time.Duration(at)-time.Since(r.start), f)
	return func() { t.Stop() }
}

// Entries of formats v0 and v1, whose last commit may be older than Kafka 0.11. Fails
// if loading takes them for damage.
func TestLoadingOldFormats(t *testing.T) {
	w := newWorld(t)
	l := newLoader(New(w.options()), newFake())
	var log []byte
	for magic := range byte(2) {
		r := records(key(fmt.Sprint("old", magic), int64(magic)))[0]
		log = append(log, oldEntry(int64(5+magic), magic, record.AppendKey(nil, r.Key), record.AppendValue(nil, r.Value, r.Version))...)
	}
	log = append(log, oldEntry(9, 1, []byte{0, 99, 3}, nil)...)
	for _, want := range []kafka.Offset{6, 7, 10} {
		next, rest, err := l.entry(log)
		if err != nil || next != want {
			t.Fatalf("next is %d, %v; want %d", next, err, want)
		}
		log = rest
	}
	if got := l.core.(*fake).hash(); got != "old0=0 old1=1" {
		t.Errorf("loaded %s", got)
	}
	bad := oldEntry(5, 1, []byte("k"), []byte("v"))
	bad[len(bad)-1]++
	if _, _, err := l.entry(bad); !errors.Is(err, batch.ErrCorrupt) {
		t.Errorf("a damaged entry: %v", err)
	}
}

func oldEntry(offset int64, magic byte, key, value []byte) []byte {
	o := binary.BigEndian.AppendUint64(nil, uint64(offset))
	o = append(o, 0, 0, 0, 0, 0, 0, 0, 0, magic, 0)
	if magic == 1 {
		o = binary.BigEndian.AppendUint64(o, 1_500_000_000_000)
	}
	for _, b := range [][]byte{key, value} {
		n := uint32(len(b))
		if b == nil {
			n = 1<<32 - 1
		}
		o = append(binary.BigEndian.AppendUint32(o, n), b...)
	}
	binary.BigEndian.PutUint32(o[8:], uint32(len(o)-12))
	binary.BigEndian.PutUint32(o[12:], crc32.ChecksumIEEE(o[16:]))
	return o
}

// A walk over all groups does not hold up requests: sessions would end because
// their heartbeats wait. Fails if deadlines are worked off without a look at the
// queue.
func TestRequestsDoNotWaitForAllThatIsDue(t *testing.T) {
	w := newWorld(t).start()
	const steps, came = 500, 100
	answeredAt := 0
	w.core.busy = func() {
		w.now.Mono = w.now.Mono.Add(time.Millisecond)
		if w.core.fired < steps {
			w.core.deadline = w.now.Mono
		}
		if w.core.fired == came {
			a := ask()
			a.inStep = func() { answeredAt = w.core.fired }
			w.m.Submit(coordinator.Request{Body: at{"a"}}, a)
		}
	}
	w.core.deadline = w.now.Mono
	w.ask(at{"b"}).want(t, int64(0), 0)
	w.settle()
	if answeredAt < came || answeredAt > came+10 {
		t.Errorf("a request that came at step %d was served at step %d", came, answeredAt)
	}
	if w.core.fired != steps {
		t.Errorf("%d of %d steps are done", w.core.fired, steps)
	}
}

// A log that could not be read is read again: it was not there yet, for want of
// space. Fails if a machine that failed waits for another leader epoch.
func TestALogThatCannotBeReadIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.log.epoch = 8 // so that nothing can be read
	w.start()
	for range 3 {
		w.ask(at{"a"}).want(t, nil, kafka.ErrNotCoordinator)
		w.pass(loadRetry)
	}
	if n := strings.Count(w.lines.String(), "cannot be loaded"); n != 1 {
		t.Errorf("%d lines about it", n)
	}
	w.log.epoch = 7
	w.pass(loadRetry)
	w.ask(key("a", 1)).want(t, "ok", 0)

	w.log.epoch = 8
	w.start()
	w.m.Resign()
	w.settle()
	w.log.epoch = 7
	w.pass(loadRetry)
	w.ask(at{"a"}).want(t, nil, kafka.ErrNotCoordinator)
}
