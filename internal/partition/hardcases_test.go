package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// abortedBatches appends n batches of one record, each an aborted transaction, each
// in a segment of its own.
func (r *rig) abortedBatches(p *Partition, n int) {
	log := p.log.Load()
	for i := range n {
		bl := batch.NewBuilder(nil, 0, 0)
		bl.ProducerID, bl.ProducerEpoch, bl.BaseSequence, bl.Transactional = 5, 0, kafka.Sequence(i), true
		bl.Add(testStart, nil, fmt.Append(nil, "aborted ", i))
		r.append(p, bl.Finish())
		m := batch.NewBuilder(nil, log.EndOffset(), 0)
		m.ProducerID, m.ProducerEpoch, m.Control, m.Transactional = 5, 0, true, true
		m.Add(testStart, []byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 1})
		p.mu.Lock()
		must(r.t, log.Append(testStart, m.Finish()))
		must(r.t, log.Roll(testStart))
		p.raise(log.EndOffset())
		p.base = log.ActiveBase()
		p.mu.Unlock()
	}
	must(r.t, p.flushTo(log.EndOffset()))
}

// HC-118: a read_committed read has its bytes; before it has the list of aborted
// transactions, the start of the log moves beyond them and the segment goes with its
// index. The reader gets both, or is told that it is out of range. Fails without the
// second look at the start in Read.
func TestHC118StartMovesUnderARead(t *testing.T) {
	for moved := kafka.Offset(1); moved <= 8; moved++ {
		r := newRig(t).mustOpen()
		p := r.part(r.topic("t", []int{0}, "retention.ms", "-1"), 0)
		r.abortedBatches(p, 4)
		done := false
		r.fs.SetHook(func(op vfs.Op) error {
			if !done && strings.HasSuffix(op.Name, ".txnindex") && op.Kind&(vfs.OpRead|vfs.OpOpen) != 0 {
				done = true
				p.mu.Lock()
				defer p.mu.Unlock()
				must(t, p.log.Load().AdvanceStart(moved))
				_, err := p.log.Load().Retain(testStart, p.state.HighWatermark())
				must(t, err)
			}
			return nil
		})
		res := p.Read(ReadRequest{LeaderEpoch: kafka.NoEpoch, MaxBytes: 1 << 20, MinOne: true, ReadCommitted: true})
		if res.Code == kafka.ErrOffsetOutOfRange && done {
			continue
		}
		if res.Code != 0 || !done {
			t.Fatalf("start at %d: %s, index read %v", moved, res.Code, done)
		}
		if len(res.Aborted) == 0 || res.Aborted[0].FirstOffset != 0 {
			t.Fatalf("start at %d: bytes of an aborted transaction with the list %v", moved, res.Aborted)
		}
	}
}

// HC-129: what is fetched is what was produced, byte for byte, but for offset and
// leader epoch; after a compaction the records that stay have their offsets and
// headers, and offsets that went are not given to others. Fails if storage builds
// batches anew, or numbers records by their place.
func TestHC129BatchesAreStoredAsTheyCame(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.compacted("c", "segment.bytes=100000")
	bl := batch.NewBuilder(nil, 0, 0)
	for i, key := range []string{"a", "b", "c", "a", "d", "b"} {
		bl.Add(testStart, []byte(key), fmt.Append(nil, "value ", i), batch.Header{Key: "n", Value: fmt.Append(nil, i)})
	}
	sent := bl.Finish()
	want := bytes.Clone(sent)
	r.append(p, sent)
	got := bytesFrom(t, p, 0)
	binary.BigEndian.PutUint32(got[12:], binary.BigEndian.Uint32(want[12:])) // leader epoch
	if !bytes.Equal(got, want) {
		t.Fatalf("stored\n%x\nsent\n%x", got, want)
	}
	p.mu.Lock()
	must(t, p.log.Load().Roll(testStart))
	p.base = p.log.Load().ActiveBase()
	p.mu.Unlock()
	must(t, p.flushTo(p.log.Load().EndOffset()))
	if !r.s.cleaner.cleanOne() {
		t.Fatal("not cleaned")
	}
	b, rest, err := batch.Next(bytesFrom(t, p, 0))
	must(t, err)
	if len(rest) > 0 || b.BaseOffset() != 0 || b.LastOffset() != 5 {
		t.Fatalf("one batch from 0 to 5 is left as %d to %d, and %d bytes", b.BaseOffset(), b.LastOffset(), len(rest))
	}
	var left []string
	must(t, b.EachRecord(func(rec *batch.Record) error {
		left = append(left, fmt.Sprintf("%d %s %s", b.BaseOffset()+kafka.Offset(rec.OffsetDelta), rec.Key, rec.Value))
		return nil
	}))
	must(t, b.EachRecord(func(rec *batch.Record) error {
		if len(rec.Headers) != 1 || !strings.HasSuffix(string(rec.Value), string(rec.Headers[0].Value)) {
			t.Errorf("record %q has the headers %v", rec.Value, rec.Headers)
		}
		return nil
	}))
	if got := strings.Join(left, ", "); got != "2 c value 2, 3 a value 3, 4 d value 4, 5 b value 5" {
		t.Fatalf("left: %s", got)
	}
}
