package raft

import (
	"testing"

	"moldau/internal/kafka"
)

// A cut takes back what a flush in flight will have covered, even when the same
// epoch is written again at the same offset. Fails if truncate leaves
// flight.Offset alone.
func TestHC014CutDuringFlush(t *testing.T) {
	for _, again := range []kafka.Epoch{1, 3} {
		var l logView
		l.append(0, 11, 1)
		f, _ := l.startFlush()
		l.flushDone(f)
		l.append(12, 12, 1)
		a, ok := l.startFlush()
		if !ok || a.Offset != 13 {
			t.Fatalf("flush A %+v %t", a, ok)
		}
		l.truncate(12)
		l.append(12, 12, again)
		if _, ok := l.startFlush(); ok {
			t.Fatal("two flushes at a time")
		}
		l.flushDone(a)
		if l.flushed != 12 {
			t.Errorf("epoch %d at 12: flushed %d after a stale completion, want 12", again, l.flushed)
		}
		b, ok := l.startFlush()
		if !ok || !l.flushDone(b) || l.flushed != 13 {
			t.Errorf("flush B %+v: flushed %d, want 13", b, l.flushed)
		}
	}
}

// The table of ReplicatedLog.validateOffsetAndEpoch.
func TestValidatePositions(t *testing.T) {
	plain := logView{epochs: []kafka.OffsetAndEpoch{{Offset: 0, Epoch: 1}, {Offset: 5, Epoch: 3}}, end: 9}
	trimmed := plain
	trimmed.start, trimmed.snapshot = kafka.OffsetAndEpoch{Offset: 3, Epoch: 1}, kafka.OffsetAndEpoch{Offset: 7, Epoch: 3}
	trimmed.epochs = []kafka.OffsetAndEpoch{{Offset: 3, Epoch: 1}, {Offset: 5, Epoch: 3}}
	for _, c := range []struct {
		log  *logView
		at   kafka.OffsetAndEpoch
		want validity
		to   kafka.OffsetAndEpoch
	}{
		{&plain, kafka.OffsetAndEpoch{Offset: 0, Epoch: 0}, posValid, kafka.OffsetAndEpoch{}},
		{&plain, kafka.OffsetAndEpoch{Offset: 5, Epoch: 1}, posValid, kafka.OffsetAndEpoch{}},
		{&plain, kafka.OffsetAndEpoch{Offset: 9, Epoch: 3}, posValid, kafka.OffsetAndEpoch{}},
		{&plain, kafka.OffsetAndEpoch{Offset: 6, Epoch: 1}, posDiverging, kafka.OffsetAndEpoch{Offset: 5, Epoch: 1}},
		{&plain, kafka.OffsetAndEpoch{Offset: 5, Epoch: 2}, posDiverging, kafka.OffsetAndEpoch{Offset: 5, Epoch: 1}},
		{&plain, kafka.OffsetAndEpoch{Offset: 10, Epoch: 3}, posDiverging, kafka.OffsetAndEpoch{Offset: 9, Epoch: 3}},
		{&trimmed, kafka.OffsetAndEpoch{Offset: 0, Epoch: 0}, posSnapshot, trimmed.snapshot},
		{&trimmed, kafka.OffsetAndEpoch{Offset: 2, Epoch: 1}, posSnapshot, trimmed.snapshot},
		{&trimmed, kafka.OffsetAndEpoch{Offset: 3, Epoch: 1}, posValid, kafka.OffsetAndEpoch{}},
		{&trimmed, kafka.OffsetAndEpoch{Offset: 3, Epoch: 2}, posSnapshot, trimmed.snapshot},
		{&trimmed, kafka.OffsetAndEpoch{Offset: 6, Epoch: 1}, posDiverging, kafka.OffsetAndEpoch{Offset: 5, Epoch: 1}},
	} {
		if got, to := c.log.validate(c.at.Offset, c.at.Epoch); got != c.want || to != c.to {
			t.Errorf("validate(%v) of log from %d = %d %v, want %d %v", c.at, c.log.start.Offset, got, to, c.want, c.to)
		}
	}
}

func TestLogStartMovesKeepEpochs(t *testing.T) {
	c := New(Options{}, Restored{Epochs: []kafka.OffsetAndEpoch{{Offset: 0, Epoch: 1}, {Offset: 5, Epoch: 3}}, End: 9})
	c.logStartMoved(kafka.OffsetAndEpoch{Offset: 3, Epoch: 1})
	if c.log.endFor(1) != (kafka.OffsetAndEpoch{Offset: 5, Epoch: 1}) || c.log.epochs[0].Offset != 3 {
		t.Errorf("epochs after trimming to 3: %v", c.log.epochs)
	}
	c.logStartMoved(kafka.OffsetAndEpoch{Offset: 9, Epoch: 3})
	if c.log.lastEpoch() != 3 || c.log.epochBefore(9) != 3 {
		t.Errorf("last epoch %d of an empty log behind a snapshot of epoch 3", c.log.lastEpoch())
	}
}

func TestHC027VotersFallWithTheLog(t *testing.T) {
	one, _ := NewVoterSet(Voter{Key: ReplicaKey{ID: 1}})
	three, _ := NewVoterSet(Voter{Key: ReplicaKey{ID: 1}}, Voter{Key: ReplicaKey{ID: 2}}, Voter{Key: ReplicaKey{ID: 3}})
	var h history
	h.add(Control{Offset: -1, Voters: &three}, Control{Offset: 7, Voters: &one})
	if s, _ := h.votersAt(6); s.Len() != 3 {
		t.Errorf("a snapshot that ends at 7 would carry %s", s)
	}
	h.truncate(7)
	if s, at := h.votersAt(100); s.Len() != 3 || at != -1 {
		t.Errorf("after the cut the voters are %s of offset %d", s, at)
	}
	h.truncate(0)
	if s, _ := h.votersAt(100); s.Len() != 3 {
		t.Error("a cut of the whole log took the checkpoint's voters")
	}
}
