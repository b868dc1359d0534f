package partition

import (
	"errors"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

func keyed(base kafka.Offset, values ...string) batch.Batch {
	bl := batch.NewBuilder(nil, base, 99)
	for _, v := range values {
		bl.Add(testStart, []byte("k"), []byte(v))
	}
	return bl.Finish()
}

// Fails without any one of the cases of appendAt and fitted.
func TestAppendAt(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0}, "max.message.bytes=1000", "cleanup.policy=compact")
	p := r.part(id, 0)
	at := func(epoch kafka.Epoch, base kafka.Offset, wantEnd kafka.Offset, want kafka.ErrorCode, batches ...batch.Batch) {
		t.Helper()
		if end, code := p.AppendAt(epoch, base, testStart, batches...); end != wantEnd || code != want {
			t.Fatalf("end %d %s, want %d %s", end, code, wantEnd, want)
		}
	}
	at(0, 0, 3, 0, keyed(0, "a", "b"), keyed(2, "c"))
	wantValues(t, p, 0, "a", "b", "c")
	at(0, 1, 3, kafka.ErrNotLeaderForPartition, keyed(1, "x"))
	at(1, 3, 3, kafka.ErrNotLeaderForPartition, keyed(3, "x"))
	at(0, 3, 3, kafka.ErrMessageTooLarge, keyed(3, "x"), keyed(4, string(make([]byte, 1000))))
	two := record.NewPartitionChange()
	two.TopicID, two.PartitionID, two.Replicas = id, 0, []kafka.NodeID{self, 2}
	two.Directories = make([]kafka.DirectoryID, 2)
	min2 := "2"
	r.apply(two, &record.Config{ResourceType: 2, ResourceName: "t", Name: "min.insync.replicas", Value: &min2})
	at(0, 3, 3, kafka.ErrNotEnoughReplicas, keyed(3, "x"))
	lost := record.NewPartitionChange()
	lost.TopicID, lost.PartitionID, lost.Leader = id, 0, 2
	r.apply(lost)
	at(0, 3, 3, kafka.ErrNotLeaderForPartition, keyed(3, "x"))
	at(1, 3, 3, kafka.ErrNotLeaderForPartition, keyed(3, "x"))
	if _, _, err := p.Span(1); err == nil {
		t.Error("a follower gives its span")
	}
}

// The topic's settings hold for batches of the server, too. Fails without
// fitted's call of Produced.
func TestAppendAtFollowsTheTopic(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "compression.type=zstd", "message.timestamp.type=LogAppendTime"), 0)
	r.append(p, one("first"))
	if end, code := p.AppendAt(0, 1, r.now().Wall+5, keyed(1, "a", "b")); end != 3 || code != 0 {
		t.Fatal(end, code)
	}
	_, rest, err := batch.Next(bytesFrom(t, p, 0))
	must(t, err)
	b, _, err := batch.Next(rest)
	must(t, err)
	if b.Codec() != batch.Zstd || !b.LogAppendTime() || b.MaxTimestamp() != testStart+5 || b.BaseOffset() != 1 || b.LeaderEpoch() != 0 || !b.Valid() {
		t.Fatalf("%s, stamped %v %d, at %d in epoch %d", b.Codec(), b.LogAppendTime(), b.MaxTimestamp(), b.BaseOffset(), b.LeaderEpoch())
	}
}

// flush.messages. Fails if AppendAt does not end as Append does.
func TestAppendAtFlushes(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "flush.messages=1"), 0)
	if _, code := p.AppendAt(0, 0, testStart, keyed(0, "a")); code != 0 || p.recoveryPoint() != 1 {
		t.Fatalf("%s, durable to %d", code, p.recoveryPoint())
	}
}

// Loading reads what is not committed. Fails if ReadAhead stops at the high
// watermark.
func TestReadAheadOfTheHighWatermark(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0})
	p := r.part(id, 0)
	r.append(p, one("a"))
	two := record.NewPartitionChange()
	two.TopicID, two.PartitionID, two.Replicas, two.ISR = id, 0, []kafka.NodeID{self, 2}, []kafka.NodeID{self, 2}
	two.Directories = make([]kafka.DirectoryID, 2)
	r.apply(two)
	if end, code := p.AppendAt(0, 1, testStart, keyed(1, "b")); end != 2 || code != 0 || p.HighWatermark() != 1 {
		t.Fatalf("end %d %s, high watermark %d", end, code, p.HighWatermark())
	}
	start, end, err := p.Span(0)
	must(t, err)
	small, err := p.ReadAhead(0, start, 1, nil)
	must(t, err)
	all, err := p.ReadAhead(0, start, 1<<20, small)
	must(t, err)
	none, err := p.ReadAhead(0, end, 1<<20, all)
	must(t, err)
	if len(all) <= len(small) || len(none) != 0 || end != 2 {
		t.Fatalf("%d, %d, %d bytes; end %d", len(small), len(all), len(none), end)
	}
	var refused *LogError
	if _, err := p.ReadAhead(1, 0, 1, nil); !errors.As(err, &refused) || refused.Code != kafka.ErrUnknownLeaderEpoch {
		t.Error(err)
	}
}
