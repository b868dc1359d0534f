package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

func nobody(kafka.NodeID) bool { return false }

// What DeleteRecords allows, in order on one log of ten records. Each line fails
// without its case in deleteRecords.
func TestDeleteRecordsBounds(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	for i := range 10 {
		r.append(p, one(fmt.Sprint(i)))
	}
	for _, q := range []struct {
		upTo, meant kafka.Offset
		code        kafka.ErrorCode
		start       kafka.Offset
	}{
		{0, 0, 0, 0},
		{3, 3, 0, 3},
		{2, 2, 0, 3}, // never down
		{11, -1, kafka.ErrOffsetOutOfRange, 3},
		{-2, -1, kafka.ErrOffsetOutOfRange, 3},
		{9, 9, 0, 9},
		{UpToHighWatermark, 10, 0, 10},
		{UpToHighWatermark, 10, 0, 10},
	} {
		meant, code := p.DeleteRecords(q.upTo)
		low, lowCode := p.LowWatermark(nobody)
		if meant != q.meant || code != q.code || p.LogStart() != q.start || low != q.start || lowCode != 0 {
			t.Errorf("up to %d: %d, %s, start %d, low %d", q.upTo, meant, code, p.LogStart(), low)
		}
	}
	if res := p.Read(ReadRequest{Offset: 9, LeaderEpoch: kafka.NoEpoch, MaxBytes: 1}); res.Code != kafka.ErrOffsetOutOfRange {
		t.Errorf("a deleted record answers %s", res.Code)
	}
	if o := p.ListOffset(EarliestTimestamp, kafka.NoEpoch, false); o.Offset != 10 {
		t.Errorf("earliest is %d", o.Offset)
	}
	r.append(p, one("next"))
	wantValues(t, p, 10, "next")
}

// Kafka deletes no records of a topic that is only compacted, whatever the
// offset; one that is also deleted by age is allowed (Partition.deleteRecordsOnLeader).
func TestDeleteRecordsPolicy(t *testing.T) {
	r := newRig(t).mustOpen()
	for policy, want := range map[string]kafka.ErrorCode{"compact": kafka.ErrPolicyViolation, "compact,delete": 0, "delete": 0} {
		p := r.part(r.topic("t-"+policy, []int{0}, "cleanup.policy="+policy), 0)
		if _, code := p.DeleteRecords(0); code != want {
			t.Errorf("%s: %s", policy, code)
		}
	}
}

// The new start outlives a crash as soon as the checkpoint is written, even of
// records that a power loss takes away; whole segments below it go with the next
// retention check. Fails without startMoved, or if recovery takes the end of the
// log for the start.
func TestDeleteRecordsOutlivesCrashes(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0}, "segment.bytes=1048576")
	big := string(make([]byte, 400_000))
	for range 6 { // two in each segment
		r.append(r.part(id, 0), one(big))
	}
	if n := len(r.part(id, 0).log.Load().Segments()); n != 3 {
		t.Fatalf("%d segments", n)
	}
	if _, code := r.part(id, 0).DeleteRecords(5); code != 0 {
		t.Fatal(code)
	}
	r.pass(61 * time.Second)
	if segs := r.part(id, 0).log.Load().Segments(); len(segs) != 1 || segs[0].BaseOffset != 4 {
		t.Fatalf("segments %+v", segs)
	}
	r.reopen()
	if o := r.part(id, 0).LogStart(); o != 5 {
		t.Fatalf("log start %d after the process died", o)
	}
	wantValues(t, r.part(id, 0), 5, big)
	must(t, r.part(id, 0).flushTo(6))
	r.append(r.part(id, 0), one("young")) // only in the page cache
	if _, code := r.part(id, 0).DeleteRecords(7); code != 0 {
		t.Fatal(code)
	}
	r.pass(61 * time.Second)
	r.abandon()
	r.mem.CrashPower(rand.New(rand.NewPCG(1, 2)))
	r.mustOpen()
	if p := r.part(id, 0); p.LogStart() != 7 || r.append(p, one("new")) != 7 {
		t.Fatalf("log start %d after a power loss\n%s", p.LogStart(), r.log.String())
	}
}

// The low watermark waits for replicas whose broker is alive, and only the
// leader of the moment answers. Fails if LowWatermark asks nobody else.
func TestDeleteRecordsOfOthers(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0})
	p := r.part(id, 0)
	r.append(p, one("a"))
	change := record.NewPartitionChange()
	change.TopicID, change.PartitionID, change.Replicas = id, 0, []kafka.NodeID{self, 2}
	change.Directories = make([]kafka.DirectoryID, 2)
	r.apply(change)
	if _, code := p.DeleteRecords(1); code != 0 {
		t.Fatal(code)
	}
	if low, code := p.LowWatermark(func(id kafka.NodeID) bool { return id == 2 }); low != kafka.NoOffset || code != 0 {
		t.Errorf("with a living follower: %d %s", low, code)
	}
	if low, code := p.LowWatermark(nobody); low != 1 || code != 0 {
		t.Errorf("with a dead follower: %d %s", low, code)
	}
	change = record.NewPartitionChange()
	change.TopicID, change.PartitionID, change.Leader, change.ISR = id, 0, 2, []kafka.NodeID{self, 2}
	r.apply(change)
	if _, code := p.DeleteRecords(1); code != kafka.ErrNotLeaderForPartition {
		t.Errorf("a follower answers %s", code)
	}
	if _, code := p.LowWatermark(nobody); code != kafka.ErrNotLeaderForPartition {
		t.Errorf("a follower tells its low watermark with %s", code)
	}
}
