package partition

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

func TestAppendAndRead(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	for i, v := range []string{"a", "b", "c"} {
		if o := r.append(p, one(v)); o != kafka.Offset(i) {
			t.Fatalf("offset %d", o)
		}
	}
	wantValues(t, p, 0, "a", "b", "c")
	wantValues(t, p, 2, "c")
	if p.HighWatermark() != 3 {
		t.Fatalf("high watermark %d", p.HighWatermark())
	}
}

// HC-142: the leader sets base offset and leader epoch. Fails without
// b.SetLeaderEpoch in Partition.append.
func TestHC142LeaderSetsOffsetAndEpoch(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0})
	p := r.part(id, 0)
	r.append(p, one("a"))
	change := record.NewPartitionChange()
	change.TopicID, change.PartitionID, change.Leader = id, 0, self
	r.apply(change) // the leader stays and its epoch rises (Trap 4)
	r.append(p, one("b"))
	b, rest, err := batch.Next(bytesFrom(t, p, 0))
	must(t, err)
	c, _, err := batch.Next(rest)
	must(t, err)
	if b.BaseOffset() != 0 || b.LeaderEpoch() != 0 || c.BaseOffset() != 1 || c.LeaderEpoch() != 1 {
		t.Fatalf("offsets %d %d, epochs %d %d", b.BaseOffset(), c.BaseOffset(), b.LeaderEpoch(), c.LeaderEpoch())
	}
	if !b.Valid() || !c.Valid() {
		t.Fatal("checksum changed")
	}
	if code, e, end := p.EpochEnd(kafka.NoEpoch, 0); code != 0 || e != 0 || end != 1 {
		t.Fatalf("epoch 0 ends at %d (%d, %s)", end, e, code)
	}
	if res := p.Read(ReadRequest{LeaderEpoch: 0, MaxBytes: 1}); res.Code != kafka.ErrFencedLeaderEpoch || res.CurrentLeader != self || res.LeaderEpoch != 1 {
		t.Fatalf("read in epoch 0: %+v", res)
	}
	if res := p.Read(ReadRequest{LeaderEpoch: 2, MaxBytes: 1}); res.Code != kafka.ErrUnknownLeaderEpoch {
		t.Fatalf("read in epoch 2: %+v", res)
	}
}

// HC-077: fails if Append does not return the Duplicate's own offsets.
func TestHC077DuplicatesAnswerTheFirstOffsets(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	for round := range 2 {
		for i := range 5 {
			o := r.append(p, idempotent(9, 0, kafka.Sequence(2*i), "x", "y"))
			if o != kafka.Offset(2*i) {
				t.Fatalf("round %d batch %d at %d", round, i, o)
			}
		}
	}
	if p.HighWatermark() != 10 {
		t.Fatalf("stored twice: high watermark %d", p.HighWatermark())
	}
}

// HC-076, HC-079, HC-081 at the partition: each line is one Produce. Fails if
// Check is given LogHeldRecords: true, or its verdict is ignored.
func TestHC076HC079HC081SequenceRules(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	for i, c := range []struct {
		epoch kafka.ProducerEpoch
		seq   kafka.Sequence
		want  kafka.ErrorCode
	}{
		{0, 17, kafka.ErrOutOfOrderSequenceNumber}, // never written: only 0
		{0, 0, 0},
		{0, 2, kafka.ErrOutOfOrderSequenceNumber},
		{0, 1, 0},
		{1, 5, kafka.ErrOutOfOrderSequenceNumber}, // a higher epoch begins at 0
		{1, 0, 0},
		{0, 2, kafka.ErrInvalidProducerEpoch},
	} {
		if a := p.Append(idempotent(1, c.epoch, c.seq, "v"), true, testStart); a.Code != c.want {
			t.Fatalf("line %d: %s, want %s", i, a.Code, c.want)
		}
	}
}

// HC-130: LogAppendTime comes back in the answer and in the batch, for the
// duplicate too. Fails without the assignments of AppendTimeMs in append.
func TestHC130LogAppendTime(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "message.timestamp.type=LogAppendTime"), 0)
	var w batch.Workspace
	for range 2 {
		b, rej := w.Produced(idempotent(5, 0, 0, "v"), 9, &p.Settings().Rules, r.now().Wall)
		if rej.Code != 0 {
			t.Fatal(rej)
		}
		if a := p.Append(b, true, r.now().Wall); a.Code != 0 || a.AppendTimeMs != testStart {
			t.Fatalf("%+v", a)
		}
		r.wall.Add(5000)
	}
	b, _, err := batch.Next(bytesFrom(t, p, 0))
	must(t, err)
	if !b.LogAppendTime() || b.MaxTimestamp() != testStart || !b.Valid() {
		t.Fatalf("stored with %d", b.MaxTimestamp())
	}
}

// HC-059: one replica is in sync, two are demanded, three exist. Fails without
// the check of EnoughInSync in append, or in advance, or if a lower minimum does
// not raise the high watermark.
func TestMinInSyncReplicas(t *testing.T) {
	r := newRig(t).mustOpen()
	id := kafka.TopicID{1: 1}
	p := record.NewPartition()
	p.PartitionID, p.TopicID, p.Leader, p.LeaderEpoch, p.PartitionEpoch = 0, id, self, 0, 0
	p.Replicas, p.ISR, p.Directories = []kafka.NodeID{self, 2, 3}, []kafka.NodeID{self}, make([]kafka.DirectoryID, 3)
	two := "2"
	r.apply(&record.Topic{Name: "t", TopicID: id}, p,
		&record.Config{ResourceType: 2, ResourceName: "t", Name: "min.insync.replicas", Value: &two})
	part := r.part(id, 0)
	wantCode(t, part.Append(one("a"), true, testStart), kafka.ErrNotEnoughReplicas)
	wantCode(t, part.Append(one("b"), false, testStart), 0)
	wantValues(t, part, 0)
	if part.HighWatermark() != 0 {
		t.Errorf("committed below the minimum, up to %d", part.HighWatermark())
	}
	one := "1"
	r.apply(&record.Config{ResourceType: 2, ResourceName: "t", Name: "min.insync.replicas", Value: &one})
	wantValues(t, part, 0, "b")
}

// HC-154: fails without the comparison with segment.bytes in Append.
func TestHC154LargerThanASegment(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "segment.bytes=200"), 0)
	wantCode(t, p.Append(batchOf(testStart, string(make([]byte, 300))), true, testStart), kafka.ErrRecordListTooLarge)
	r.append(p, one("a"))
}

// HC-111: fails if readFailed keeps the offsets, or if Read compares with the
// high watermark instead of the end.
func TestHC111OffsetsOutOfRange(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	r.append(p, batchOf(testStart, "a", "b", "c"))
	for _, c := range []struct {
		offset kafka.Offset
		code   kafka.ErrorCode
		bytes  bool
	}{{-1, kafka.ErrOffsetOutOfRange, false}, {0, 0, true}, {2, 0, true}, {3, 0, false}, {4, kafka.ErrOffsetOutOfRange, false}, {1 << 62, kafka.ErrOffsetOutOfRange, false}} {
		res := p.Read(ReadRequest{Offset: c.offset, LeaderEpoch: kafka.NoEpoch, MaxBytes: 1000, MinOne: true})
		if res.Code != c.code || (res.Records != nil) != c.bytes {
			t.Fatalf("offset %d: %s, records %v", c.offset, res.Code, res.Records != nil)
		}
		if c.code != 0 && (res.HighWatermark != -1 || res.LastStableOffset != -1 || res.LogStart != -1) {
			t.Fatalf("offset %d: an error with offsets %+v", c.offset, res)
		}
		if res.Records != nil {
			res.Records.Release()
		}
	}
}

// HC-109: a fetch inside a batch gives the whole batch, unchanged.
func TestHC109FetchInsideABatch(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	first := batchOf(testStart, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	second := bytes.Clone(first)
	r.append(p, first)
	r.append(p, second)
	for o := kafka.Offset(0); o <= 20; o++ {
		want := append(bytes.Clone(first), second...)
		if o >= 10 {
			want = bytes.Clone(second)
		}
		if o == 20 {
			want = nil
		}
		if got := bytesFrom(t, p, o); !bytes.Equal(got, want) {
			t.Fatalf("at %d: %d bytes, want %d", o, len(got), len(want))
		}
	}
}

// A full disk at every byte of what appends write, rolls included: the append
// fails with KAFKA_STORAGE_ERROR, nothing is changed, the directory stays, and
// when there is room it goes on. Fails if appendFailed takes ENOSPC for any
// other error.
func TestFullDiskFailsAppendsOnly(t *testing.T) {
	for budget := int64(0); budget < 1200; budget += 7 {
		r := newRig(t).mustOpen()
		p := r.part(r.topic("t", []int{0}, "segment.bytes=250", "index.interval.bytes=0"), 0)
		r.append(p, idempotent(3, 0, 0, "v0"))
		r.fs.SetBudget(budget)
		var want []string
		want = append(want, "v0")
		n, failed := 1, 0
		for failed < 2 && n < 30 {
			v := "v" + string(rune('0'+n%10))
			switch a := p.Append(idempotent(3, 0, kafka.Sequence(n), v), true, r.now().Wall); a.Code {
			case 0:
				want = append(want, v)
				n++
			case kafka.ErrKafkaStorageError:
				failed++
			default:
				t.Fatalf("budget %d: %s", budget, a.Code)
			}
		}
		if p.dir.failed.Load() || r.fatal.Load() != 0 {
			t.Fatalf("budget %d: a full disk took the directory offline\n%s", budget, r.log.String())
		}
		wantValues(t, p, 0, want...)
		r.fs.Heal()
		v := "v" + string(rune('0'+n%10))
		r.append(p, idempotent(3, 0, kafka.Sequence(n), v)) // the sequence has not moved either
		wantValues(t, p, 0, append(want, v)...)
		r.reopen()
		wantValues(t, r.part(p.topic, 0), 0, append(want, v)...)
	}
}

// No room, or no descriptor for partition.metadata, when an append has been written and
// is to be flushed: the client is told so, readers see the records only once they are
// durable, which needs no other append. Fails if flushed does not raise the high
// watermark, or if the keeper does not flush again; the second also if the log is
// flushed all the same, which leaves nothing to be done again.
func TestFlushFindsNoRoom(t *testing.T) {
	for _, rule := range []vfs.Rule{
		{Kinds: vfs.OpWrite, Match: "leader-epoch-checkpoint*", Times: -1, Err: unix.ENOSPC},
		{Kinds: vfs.OpOpen, Match: "partition.metadata", Times: -1, Err: unix.EMFILE},
	} {
		r := newRig(t).mustOpen()
		p := r.part(r.topic("t", []int{0}, "flush.messages=1"), 0)
		r.fs.Fail(rule)
		wantCode(t, p.Append(one("a"), true, testStart), kafka.ErrKafkaStorageError)
		r.pass(3 * keeperIdle)
		if p.dir.failed.Load() || p.HighWatermark() != 0 {
			t.Fatalf("%s: directory failed %v, high watermark %d", rule.Match, p.dir.failed.Load(), p.HighWatermark())
		}
		r.fs.Heal()
		r.pass(2 * keeperIdle)
		wantValues(t, p, 0, "a")
		if p.recoveryPoint() != 1 {
			t.Errorf("%s: recovery point %d", rule.Match, p.recoveryPoint())
		}
	}
}

// A disk that stays full does not keep another one's partitions from being flushed
// again. Fails if flushAgain gives up at the first one that finds no room.
func TestFullDiskIsNotTheOthers(t *testing.T) {
	r := newRig(t, "/a", "/b").mustOpen()
	var parts []*Partition
	r.fs.Fail(vfs.Rule{Kinds: vfs.OpWrite, Match: "leader-epoch-checkpoint*", Times: -1, Err: unix.ENOSPC})
	for i := range 8 {
		p := r.part(r.topic(fmt.Sprint("t", i), []int{i % 2}, "flush.messages=1"), 0)
		wantCode(t, p.Append(one("a"), true, testStart), kafka.ErrKafkaStorageError)
		parts = append(parts, p)
	}
	r.fs.Heal()
	full := parts[0].dir
	r.fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && strings.HasPrefix(op.Name, full.Path+"/") && strings.Contains(op.Name, "leader-epoch-checkpoint") {
			return unix.ENOSPC
		}
		return nil
	})
	r.pass(2 * keeperIdle)
	for _, p := range parts {
		if done := p.HighWatermark() == 1; done != (p.dir != full) {
			t.Errorf("%s in %s: high watermark %d", p.tp, p.dir.Path, p.HighWatermark())
		}
	}
	r.fs.SetHook(nil)
	r.pass(2 * keeperIdle)
	for _, p := range parts {
		wantValues(t, p, 0, "a")
	}
}

// A full disk that an fsync of the topic's id reports takes the directory offline: the
// next one might succeed, although the file is not there after a power loss. Fails if
// errLost is left out.
func TestFullDiskInAnFsyncIsFinal(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0}, "flush.messages=1")
	r.reopen() // it is not known to be durable now
	r.fs.Fail(vfs.Rule{Kinds: vfs.OpSync, Match: "partition.metadata", Err: unix.ENOSPC})
	wantCode(t, r.part(id, 0).Append(one("a"), true, testStart), kafka.ErrKafkaStorageError)
	if !r.part(id, 0).dir.failed.Load() {
		t.Error("the directory stays online")
	}
}

// A disk that is full when a topic is created: that partition is offline with
// a word in the log, others and the process go on, and a restart makes it.
// Fails if create takes the directory offline for ENOSPC.
func TestFullDiskWhenATopicIsCreated(t *testing.T) {
	r := newRig(t).mustOpen()
	old := r.part(r.topic("old", []int{0}), 0)
	r.fs.SetBudget(0)
	id := r.topic("new", []int{0})
	wantCode(t, r.part(id, 0).Append(one("a"), true, testStart), kafka.ErrKafkaStorageError)
	if r.fatal.Load() != 0 || old.dir.failed.Load() {
		t.Fatalf("a full disk took the directory offline\n%s", r.log.String())
	}
	r.fs.Heal()
	r.append(old, one("b"))
	r.reopen()
	r.append(r.part(id, 0), one("c"))
}

// HC-007: an error of the disk takes the directory offline at once; other
// directories serve; when all have failed the process must stop. Fails if
// appendFailed or flushTo does not call dir.fail.
func TestHC007FailedWriteOrFsyncTakesTheDirectoryOffline(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync} {
		r := newRig(t, "/a", "/b").mustOpen()
		id := r.topic("t", []int{0, 0, 1}, "flush.messages=1")
		first, beside, other := r.part(id, 0), r.part(id, 1), r.part(id, 2)
		r.append(first, one("a"))
		r.append(beside, one("b"))
		rule := vfs.Rule{Kinds: kind, Err: unix.EIO}
		if kind == vfs.OpWrite {
			rule.WriteFirst = 30
		}
		r.fs.Fail(rule) // once: the disk is well again afterwards
		wantCode(t, first.Append(one("c"), true, testStart), kafka.ErrKafkaStorageError)
		wantCode(t, first.Append(one("d"), true, testStart), kafka.ErrKafkaStorageError)
		wantCode(t, beside.Append(one("e"), true, testStart), kafka.ErrKafkaStorageError)
		if res := beside.Read(ReadRequest{LeaderEpoch: kafka.NoEpoch, MaxBytes: 100}); res.Code != kafka.ErrKafkaStorageError {
			t.Fatalf("read: %s", res.Code)
		}
		if l := beside.ListOffset(LatestTimestamp, kafka.NoEpoch, false); l.Code != kafka.ErrKafkaStorageError {
			t.Fatalf("list: %s", l.Code)
		}
		r.append(other, one("f"))
		wantValues(t, other, 0, "f")
		if r.fatal.Load() != 0 {
			t.Fatal("one directory is left, and yet fatal")
		}
		if infos := r.s.Describe(); !infos[0].Offline || infos[1].Offline {
			t.Fatalf("%+v", infos)
		}
		r.fs.Fail(vfs.Rule{Kinds: kind, Err: unix.EIO})
		wantCode(t, other.Append(one("g"), true, testStart), kafka.ErrKafkaStorageError)
		if r.fatal.Load() != 1 {
			t.Fatal("no directory is left, and yet not fatal")
		}
	}
}

// Settings take effect at once. Fails without applyConfigs.
func TestSettingsTakeEffect(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	r.append(p, one("a"))
	small := "100"
	r.apply(&record.Config{ResourceType: 2, ResourceName: "t", Name: "segment.bytes", Value: &small})
	r.append(p, one("b"))
	if n := len(p.log.Load().Segments()); n != 2 {
		t.Fatalf("%d segments", n)
	}
	r.apply(&record.Config{ResourceType: 2, ResourceName: "t", Name: "segment.bytes"})
	large := "50"
	r.apply(&record.Config{ResourceType: 4, ResourceName: "1", Name: "message.max.bytes", Value: &large})
	if got := p.Settings().Rules.MaxBatchBytes; got != 50 {
		t.Fatalf("max.message.bytes is %d, though the broker's setting is 50", got)
	}
	if p.Settings().SegmentBytes != 1<<30 {
		t.Fatalf("segment.bytes is %d after its override went", p.Settings().SegmentBytes)
	}
}

// flush.ms through the keeper. Fails if flushDue does nothing.
func TestFlushMs(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}, "flush.ms=5000"), 0)
	r.append(p, one("a"))
	r.pass(3 * time.Second)
	if p.recoveryPoint() != 0 {
		t.Fatal("flushed too early")
	}
	r.pass(3 * time.Second)
	if p.recoveryPoint() != 1 {
		t.Fatal("not flushed after flush.ms")
	}
}
