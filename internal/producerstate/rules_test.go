package producerstate

import (
	"fmt"
	"testing"

	"moldau/internal/kafka"
)

// log drives a Table as an owner of a log does.
type log struct {
	Table
	end kafka.Offset
	ctx Context
}

func (l *log) header(id kafka.ProducerID, epoch kafka.ProducerEpoch, seq kafka.Sequence, n int32) Header {
	return Header{
		ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq, LastSequence: seq.Add(n - 1),
		BaseOffset: l.end, LastOffset: l.end + kafka.Offset(n) - 1, MaxTimestamp: 1000 + kafka.WallMs(l.end),
	}
}

// send gives "append", "dup <base offset>" or the error's name.
func (l *log) send(id kafka.ProducerID, epoch kafka.ProducerEpoch, seq kafka.Sequence, n int32) string {
	h := l.header(id, epoch, seq, n)
	ctx := l.ctx
	ctx.LogHeldRecords = l.end > 0
	switch v := l.Check(h, ctx); v.Kind {
	case Duplicate:
		return fmt.Sprintf("dup %d", v.BaseOffset)
	case Reject:
		return v.Code.String()
	}
	l.Update(h)
	l.end = h.LastOffset + 1
	return "append"
}

type step struct {
	id    kafka.ProducerID
	epoch kafka.ProducerEpoch
	seq   kafka.Sequence
	n     int32
	want  string
}

func run(t *testing.T, l *log, steps ...step) {
	t.Helper()
	for i, s := range steps {
		if got := l.send(s.id, s.epoch, s.seq, s.n); got != s.want {
			t.Errorf("step %d (%+v): %s", i, s, got)
		}
	}
}

const (
	outOfOrder = "OUT_OF_ORDER_SEQUENCE_NUMBER"
	badEpoch   = "INVALID_PRODUCER_EPOCH"
)

// HC-076. Without "!known && !ctx.LogHeldRecords" in checkSequence the first
// step would append.
func TestHC076FirstSequenceOfANewLog(t *testing.T) {
	run(t, &log{},
		step{7, 0, 17, 1, outOfOrder},
		step{7, 0, 0, 17, "append"},
		step{7, 0, 17, 1, "append"},
		step{8, 0, 5, 1, "append"}, // the log has held records: KIP-360
	)
	l := &log{end: 100, ctx: Context{Verifying: true, EpochBump: true, LowestSequence: 3}}
	run(t, l, step{1, 0, 3, 1, outOfOrder}, step{1, 0, 0, 1, "append"})
	l = &log{end: 100, ctx: Context{Verifying: true, LowestSequence: 3}}
	run(t, l, step{1, 0, 4, 1, outOfOrder}, step{1, 0, 3, 1, "append"})
}

// HC-077. With WindowBatches = 1 the repeats would be out of order.
func TestHC077DuplicateWindow(t *testing.T) {
	l := &log{}
	for i := range 6 {
		run(t, l, step{1, 0, kafka.Sequence(2 * i), 2, "append"})
	}
	for i := 1; i < 6; i++ {
		run(t, l, step{1, 0, kafka.Sequence(2 * i), 2, fmt.Sprintf("dup %d", 2*i)})
	}
	run(t, l,
		step{1, 0, 0, 2, outOfOrder},  // fell out of the window
		step{1, 0, 2, 4, outOfOrder},  // other borders than the original
		step{1, 0, 12, 1, "append"},   // still in order
		step{1, 0, 14, 1, outOfOrder}, // a gap
	)
	h := l.header(1, 0, 4, 2)
	if v := l.Check(h, Context{}); v.Kind != Duplicate || v.LastOffset != 5 || v.Timestamp != 1004 {
		t.Errorf("%+v", v)
	}
}

// HC-078. Evicting with the records (in LogStart) or answering 45 without state
// would fail it.
func TestHC078EvictedState(t *testing.T) {
	l := &log{}
	run(t, l, step{1, 0, 0, 5, "append"})
	l.LogStart(5) // DeleteRecords to the end
	run(t, l, step{1, 0, 5, 1, "append"})
	if n := l.Expire(1005+999, 1000); n != 0 {
		t.Fatal("expired too early")
	}
	if n := l.Expire(1005+1000, 1000); n != 1 || l.Len() != 0 {
		t.Fatal("not expired")
	}
	run(t, l, step{1, 0, 77, 1, "append"})
}

// HC-079. Comparing with lastSeq+1 instead of lastSeq.Add(1) fails the wrap;
// leaving out setEpoch in Update fails the epochs.
func TestHC079EpochsAndWrapAround(t *testing.T) {
	run(t, &log{},
		step{1, 0, 0, 10, "append"},
		step{1, 1, 5, 1, outOfOrder},
		step{1, 1, 0, 1, "append"},
		step{1, 1, 5, 1, outOfOrder},
		step{1, 0, 10, 1, badEpoch},
		step{1, 1, 1, 1, "append"},
		step{1, 1, 0, 1, "dup 10"},
	)
	const top = 1<<31 - 1
	run(t, &log{end: 1},
		step{1, 0, top - 1, 2, "append"},
		step{1, 0, 0, 1, "append"},
		step{2, 0, top - 1, 5, "append"}, // crosses: MAX-1, MAX, 0, 1, 2
		step{2, 0, top - 1, 5, "dup 4"},
		step{2, 0, 3, 1, "append"},
	)
}

// HC-081. Any other code than 47 for a stale epoch would fail it.
func TestHC081StaleEpoch(t *testing.T) {
	for _, origin := range []Origin{Client, Coordinator} {
		for _, txn := range []bool{false, true} {
			l := &log{}
			l.Update(l.header(1, 5, 0, 1))
			h := l.header(1, 4, 1, 1)
			h.Transactional = txn
			if v := l.Check(h, Context{Origin: origin, LogHeldRecords: true}); v.Code != kafka.ErrInvalidProducerEpoch {
				t.Errorf("origin %d: %+v", origin, v)
			}
			if v := l.Check(h, Context{Origin: Replication}); v.Kind != Append {
				t.Errorf("replicated batches are not judged: %+v", v)
			}
		}
	}
	l := &log{}
	if v := l.Check(l.header(1, 0, -1, 1), Context{}); v.Code != kafka.ErrInvalidRecord {
		t.Errorf("%+v", v)
	}
}

func TestTransactionsMoveTheStableOffset(t *testing.T) {
	l := &log{}
	data := func(id kafka.ProducerID, seq kafka.Sequence) {
		h := l.header(id, 0, seq, 2)
		h.Transactional = true
		l.Update(h)
		l.end += 2
	}
	mark := func(id kafka.ProducerID, epoch kafka.ProducerEpoch, commit bool) (CompletedTxn, bool) {
		h := l.header(id, epoch, kafka.NoSequence, 1)
		l.end++
		return l.UpdateMarker(h, Marker{Commit: commit, CoordinatorEpoch: 3, Timestamp: 5})
	}
	data(1, 0)
	data(2, 0)
	h := l.header(1, 0, 2, 1)
	if v := l.Check(h, Context{LogHeldRecords: true}); v.Code != kafka.ErrInvalidTxnState {
		t.Errorf("plain batch inside a transaction: %+v", v)
	}
	if o := l.FirstUnstableOffset(); o != 0 {
		t.Fatal(o)
	}
	done, ok := mark(1, 0, false)
	if !ok || done != (CompletedTxn{1, 0, 4, true, 2}) {
		t.Fatalf("%+v", done)
	}
	if o := l.FirstUnstableOffset(); o != 0 {
		t.Fatal("marker is not replicated yet", o)
	}
	l.HighWatermark(5)
	if o := l.FirstUnstableOffset(); o != 2 {
		t.Fatal(o)
	}
	if v := l.CheckMarker(l.header(2, 0, -1, 1), Marker{CoordinatorEpoch: 2}, Context{Origin: Coordinator, TransactionVersion: 2}); v.Code != kafka.ErrInvalidProducerEpoch {
		t.Errorf("%+v", v)
	}
	if v := l.CheckMarker(l.header(1, 1, -1, 1), Marker{CoordinatorEpoch: 2}, Context{Origin: Coordinator}); v.Code != kafka.ErrTransactionCoordinatorFenced {
		t.Errorf("%+v", v)
	}
	done, ok = mark(2, 1, true)
	if !ok || done.LastStableOffset != 6 || done.Aborted {
		t.Fatalf("%+v", done)
	}
	if _, ok = mark(9, 0, true); ok {
		t.Fatal("an empty transaction completed something")
	}
	l.HighWatermark(7)
	if o := l.FirstUnstableOffset(); o != kafka.NoOffset {
		t.Fatal(o)
	}
}
