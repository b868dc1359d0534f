package server_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// A fetch that waits is answered by the produce that brings enough, long before
// its time. Fails if an append does not wake who watches.
func TestFetchWakesOnProduce(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2)
	w := n.dial()
	req := fetchRequest(1<<30, 200, want{topic: "t"}, want{topic: "t", partition: 1})
	for round := range 20 {
		req.Topics[0].Partitions[0].FetchOffset = int64(2 * round)
		corr := w.send(req, 11)
		c.mustProduce("t", batchOf("too", "little")) // 80 bytes and more: below min_bytes
		big := make([]byte, 200)
		call[*kmsg.ProduceResponse](c, produceRequest("t", 1, nil, batchOf(string(big))), 9)
		parts := w.receive(req, corr).(*kmsg.FetchResponse).Topics[0].Partitions
		if len(parts[0].RecordBatches)+len(parts[1].RecordBatches) < 200 {
			t.Fatalf("round %d: answered with %d bytes", round, len(parts[0].RecordBatches)+len(parts[1].RecordBatches))
		}
	}
}

// HC-112: what ends a wait besides bytes. Fails if park sees the high watermark
// alone, or if an empty incremental request is answered at once.
func TestHC112WhenAWaitEnds(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.create("gone", 1)
	c.mustProduce("t", batchOf(string(make([]byte, 1000))))
	c.mustProduce("t", batchOf(string(make([]byte, 1000))))
	// The partition's limit is reached.
	resp := call[*kmsg.FetchResponse](c, fetchRequest(1<<30, 1<<20, want{topic: "t", max: 500}), 11)
	if len(resp.Topics[0].Partitions[0].RecordBatches) < 1000 {
		t.Fatal("no records")
	}
	// An error.
	resp = call[*kmsg.FetchResponse](c, fetchRequest(1<<30, 1<<20, want{topic: "t", offset: 99}), 11)
	wantCode(t, "beyond the end", resp.Topics[0].Partitions[0].ErrorCode, kafka.ErrOffsetOutOfRange)
	// Nobody to wait for.
	resp = call[*kmsg.FetchResponse](c, fetchRequest(1<<30, 1, want{topic: "nope"}), 11)
	wantCode(t, "unknown", resp.Topics[0].Partitions[0].ErrorCode, kafka.ErrUnknownTopicOrPartition)
	call[*kmsg.FetchResponse](c, fetchRequest(1<<30, 1), 11)
	// The topic goes while the fetch waits.
	for i := range 10 {
		w := n.dial()
		req := fetchRequest(1<<30, 1, want{topic: "gone"})
		corr := w.send(req, 11)
		for range i * 1000 {
			runtime.Gosched()
		}
		c.remove("gone")
		p := w.receive(req, corr).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		wantCode(t, "deleted", p.ErrorCode, kafka.ErrUnknownTopicOrPartition)
		c.create("gone", 1)
	}
	// Its time: error 0, empty, with offsets (HC-151).
	began := time.Now()
	p := call[*kmsg.FetchResponse](c, fetchRequest(50, 1, want{topic: "t", offset: 2}), 11).Topics[0].Partitions[0]
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Fatalf("waited %v of 50 ms", took)
	}
	if p.ErrorCode != 0 || p.HighWatermark != 2 || p.LastStableOffset != 2 || p.LogStartOffset != 0 || len(p.RecordBatches) != 0 {
		t.Fatalf("%+v", p)
	}
	// An idle session with an empty request waits.
	open := fetchRequest(0, 1, want{topic: "t", offset: 2})
	open.SessionEpoch = 0
	id := call[*kmsg.FetchResponse](c, open, 11).SessionID
	again := fetchRequest(60, 1)
	again.SessionID, again.SessionEpoch = id, 1
	began = time.Now()
	r := call[*kmsg.FetchResponse](c, again, 11)
	if took := time.Since(began); took < 60*time.Millisecond || r.ErrorCode != 0 || len(r.Topics) != 0 || r.SessionID != id {
		t.Fatalf("after %v: %+v", took, r)
	}
}

// HC-109, HC-153: whole batches, the first one whatever its size, never cut.
// Fails without MinOne, or if limits are applied to a cut batch.
func TestHC109HC153WholeBatches(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2)
	size := 0
	for range 5 {
		b := batchOf(string(make([]byte, 10_000)), "x")
		size = len(b)
		c.mustProduce("t", b)
	}
	for _, v := range []int16{4, 11} {
		for limit, whole := range map[int]int{1: 1, size - 1: 1, size: 1, size + 1: 1, size + 61: 1, 2*size - 1: 1, 2 * size: 2, 2*size + 1: 2, 5 * size: 5} {
			req := fetchRequest(0, 0, want{topic: "t", offset: 1, max: int32(limit)})
			p := call[*kmsg.FetchResponse](c, req, v).Topics[0].Partitions[0]
			if len(p.RecordBatches) != whole*size {
				t.Errorf("v%d limit %d: %d bytes, want %d batches of %d", v, limit, len(p.RecordBatches), whole, size)
			}
		}
		// Of the whole answer: only its first batch may be larger than the limit.
		req := fetchRequest(0, 0, want{topic: "t"}, want{topic: "t", partition: 1})
		req.MaxBytes = 10
		parts := call[*kmsg.FetchResponse](c, req, v).Topics[0].Partitions
		if len(parts[0].RecordBatches) != size || len(parts[1].RecordBatches) != 0 {
			t.Errorf("v%d: %d and %d bytes", v, len(parts[0].RecordBatches), len(parts[1].RecordBatches))
		}
	}
}

// HC-110, HC-111: records are never null, in no version and beside no error;
// offsets of an error are −1. The raw bytes are checked by receive, which fails
// where kmsg would encode null. Fails if FetchPartition writes −1.
func TestHC110NeverNullRecords(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	c.mustProduce("t", batchOf("a"))
	for v := int16(4); v <= 18; v++ {
		unknown := want{topic: "nope"}
		if v >= 13 {
			unknown = want{id: kafka.TopicID{5}}
		}
		here := want{topic: "t", id: id}
		for _, q := range []struct {
			w    want
			code kafka.ErrorCode
		}{
			{here, 0}, {want{here.topic, id, 0, 1, 0}, 0}, {want{here.topic, id, 0, 2, 0}, kafka.ErrOffsetOutOfRange},
			{want{here.topic, id, 0, -1, 0}, kafka.ErrOffsetOutOfRange}, {want{here.topic, id, 3, 0, 0}, kafka.ErrUnknownTopicOrPartition},
			{want{here.topic, id, -1, 0, 0}, kafka.ErrUnknownTopicOrPartition}, {unknown, kafka.ErrUnknownTopicOrPartition},
		} {
			want := q.code
			if q.w.topic == "" {
				want = kafka.ErrUnknownTopicID
			}
			p := call[*kmsg.FetchResponse](c, fetchRequest(0, 0, q.w), v).Topics[0].Partitions[0]
			wantCode(t, fmt.Sprintf("v%d %+v", v, q.w), p.ErrorCode, want)
			if p.RecordBatches == nil {
				t.Errorf("v%d %+v: null records", v, q.w)
			}
			if want != 0 && (p.HighWatermark != -1 || p.LastStableOffset != -1 && v >= 4 || p.LogStartOffset != -1 && v >= 5) {
				t.Errorf("v%d %+v: offsets beside an error: %+v", v, q.w, p)
			}
		}
	}
}

// HC-113: the protocol of sessions over the wire. Fails as package session says.
func TestHC113Sessions(t *testing.T) {
	n := start(t, "max.incremental.fetch.session.cache.slots=1")
	c := n.dial()
	c.create("t", 3)
	open := fetchRequest(0, 0, want{topic: "t"}, want{topic: "t", partition: 1}, want{topic: "t", partition: 2})
	open.SessionEpoch = 0
	first := call[*kmsg.FetchResponse](c, open, 12)
	if first.SessionID == 0 || len(first.Topics[0].Partitions) != 3 {
		t.Fatalf("%+v", first)
	}
	if second := call[*kmsg.FetchResponse](n.dial(), open, 12); second.SessionID != 0 || len(second.Topics[0].Partitions) != 3 {
		t.Fatalf("the cache is full, and yet %+v", second)
	}
	next := func(id, epoch int32) *kmsg.FetchResponse {
		req := fetchRequest(0, 0)
		req.SessionID, req.SessionEpoch = id, epoch
		return call[*kmsg.FetchResponse](c, req, 12)
	}
	if r := next(first.SessionID, 1); r.ErrorCode != 0 || len(r.Topics) != 0 {
		t.Fatalf("nothing has changed: %+v", r)
	}
	call[*kmsg.ProduceResponse](c, partitioned(1), 9)
	r := next(first.SessionID, 2)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0].Partition != 1 {
		t.Fatalf("partition 1 has changed: %+v", r)
	}
	r = next(first.SessionID, 9)
	wantCode(t, "wrong epoch", r.ErrorCode, kafka.ErrInvalidFetchSessionEpoch)
	if len(r.Topics) != 0 || r.SessionID != 0 {
		t.Fatalf("%+v", r)
	}
	wantCode(t, "unknown id", next(first.SessionID+1, 1).ErrorCode, kafka.ErrFetchSessionIDNotFound)
	wantCode(t, "id 0", next(0, 1).ErrorCode, kafka.ErrFetchSessionIDNotFound)
	closing := fetchRequest(0, 0)
	closing.SessionID, closing.SessionEpoch = first.SessionID, -1
	call[*kmsg.FetchResponse](c, closing, 12)
	wantCode(t, "closed", next(first.SessionID, 3).ErrorCode, kafka.ErrFetchSessionIDNotFound)
	if third := call[*kmsg.FetchResponse](c, open, 12); third.SessionID == 0 {
		t.Fatal("the place is not free")
	}
}

// HC-114: a session by id sees that its topic is gone; one of the same name is
// another. Fails if sessions of version 13 are kept by name.
func TestHC114TopicIdentity(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	c.mustProduce("t", batchOf("old"))
	open := fetchRequest(0, 0, want{id: id})
	open.SessionEpoch = 0
	first := call[*kmsg.FetchResponse](c, open, 13)
	wantCode(t, "first", first.Topics[0].Partitions[0].ErrorCode, 0)
	c.remove("t")
	again := c.create("t", 1)
	c.mustProduce("t", batchOf("new"))
	next := fetchRequest(0, 0)
	next.SessionID, next.SessionEpoch = first.SessionID, 1
	r := call[*kmsg.FetchResponse](c, next, 13)
	if len(r.Topics) != 1 || r.Topics[0].TopicID != id {
		t.Fatalf("%+v", r)
	}
	wantCode(t, "by id", r.Topics[0].Partitions[0].ErrorCode, kafka.ErrUnknownTopicID)
	mixed := fetchRequest(0, 0, want{topic: "t"})
	mixed.SessionID, mixed.SessionEpoch = first.SessionID, 2
	wantCode(t, "names in a session of ids", call[*kmsg.FetchResponse](c, mixed, 12).ErrorCode, kafka.ErrFetchSessionTopicIDError)
	p := call[*kmsg.FetchResponse](c, fetchRequest(0, 0, want{id: again}), 13).Topics[0].Partitions[0]
	if got := valuesOf(t, p.RecordBatches); len(got) != 1 || got[0] != "new" {
		t.Fatalf("%v", got)
	}
}

// HC-115 and HC-070: leader epochs in requests. Fails if readable ignores them.
func TestHC115LeaderEpochs(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", batchOf("a", "b"))
	req := fetchRequest(0, 0, want{topic: "t"})
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = 5
	p := call[*kmsg.FetchResponse](c, req, 11).Topics[0].Partitions[0]
	wantCode(t, "fetch in epoch 5", p.ErrorCode, kafka.ErrUnknownLeaderEpoch)
	ofle := legal(23, 4, kafka.TopicID{}).(*kmsg.OffsetForLeaderEpochRequest)
	for _, q := range []struct {
		current, epoch, wantEpoch int32
		end                       int64
		code                      kafka.ErrorCode
	}{{-1, 0, 0, 2, 0}, {0, 0, 0, 2, 0}, {0, 7, -1, -1, 0}, {3, 0, -1, -1, kafka.ErrUnknownLeaderEpoch}, {-1, -1, -1, -1, 0}} {
		ofle.Topics[0].Partitions[0].CurrentLeaderEpoch, ofle.Topics[0].Partitions[0].LeaderEpoch = q.current, q.epoch
		for v := int16(2); v <= 4; v++ {
			r := call[*kmsg.OffsetForLeaderEpochResponse](c, ofle, v).Topics[0].Partitions[0]
			wantCode(t, fmt.Sprintf("%+v", q), r.ErrorCode, q.code)
			if q.epoch != 7 && (r.LeaderEpoch != q.wantEpoch || r.EndOffset != q.end) {
				t.Errorf("%+v: epoch %d ends at %d", q, r.LeaderEpoch, r.EndOffset)
			}
		}
	}
}

// HC-117, KIP-74: a fetch over many partitions is bounded, and each of them
// gets its turn. Fails if a session does not move who was served to the end.
func TestHC117ManyPartitions(t *testing.T) {
	n := start(t, "fetch.max.bytes=20000")
	c := n.dial()
	const parts = 40
	c.create("t", parts)
	var batches [][]byte
	for range parts {
		batches = append(batches, batchOf(string(make([]byte, 4000))))
	}
	call[*kmsg.ProduceResponse](c, produceRequest("t", 1, batches...), 9)
	var list []want
	for i := range int32(parts) {
		list = append(list, want{topic: "t", partition: i})
	}
	req := fetchRequest(0, 0, list...)
	req.SessionEpoch, req.MaxBytes = 0, 1<<31-1
	served := map[int32]int{}
	var id int32
	const rounds = parts/4 + 1 // the first does not change the order, as in Kafka
	for round := range int32(rounds) {
		if round > 0 {
			req = fetchRequest(0, 0)
			req.SessionID, req.SessionEpoch, req.MaxBytes = id, round, 1<<31-1
		}
		resp := call[*kmsg.FetchResponse](c, req, 12)
		id = resp.SessionID
		total := 0
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if total += len(p.RecordBatches); len(p.RecordBatches) > 0 {
					served[p.Partition]++
				}
			}
		}
		if total > 20_000 {
			t.Fatalf("round %d: %d bytes", round, total)
		}
	}
	if len(served) != parts {
		t.Fatalf("only %d of %d partitions were served in %d rounds", len(served), parts, rounds)
	}
}

// HC-131: ListOffsets. Fails without specialTimestamp, or if the epoch is not
// that of the record.
func TestHC131ListOffsets(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	now := time.Now().UnixMilli()
	c.mustProduce("t", batchAt(now-1000, "a", "b"))
	c.mustProduce("t", batchAt(now-500, "c"))
	list := func(v int16, ts int64) kmsg.ListOffsetsResponseTopicPartition {
		req := legal(2, v, kafka.TopicID{}).(*kmsg.ListOffsetsRequest)
		req.Topics[0].Partitions[0].Timestamp = ts
		return call[*kmsg.ListOffsetsResponse](c, req, v).Topics[0].Partitions[0]
	}
	for v := int16(1); v <= 11; v++ {
		epoch := int32(0)
		if v < 4 {
			epoch = -1
		}
		for _, q := range []struct {
			ts, offset, stamp int64
			from              int16
		}{{-1, 3, -1, 1}, {-2, 0, -1, 1}, {now - 1000, 0, now - 1000, 1}, {now - 999, 2, now - 500, 1}, {now, -1, -1, 1}, {0, 0, now - 1000, 1}, {-3, 2, now - 500, 7}, {-4, 0, -1, 8}, {-5, -1, -1, 9}, {-6, -1, -1, 11}} {
			p := list(v, q.ts)
			if v < q.from {
				wantCode(t, fmt.Sprintf("v%d %d", v, q.ts), p.ErrorCode, kafka.ErrUnsupportedVersion)
				continue
			}
			if p.ErrorCode != 0 || p.Offset != q.offset || p.Timestamp != q.stamp || q.offset >= 0 && p.LeaderEpoch != epoch {
				t.Errorf("v%d %d: %+v", v, q.ts, p)
			}
		}
		wantCode(t, "−99", list(v, -99).ErrorCode, kafka.ErrUnsupportedVersion)
	}
}

// HC-151: an empty topic, and the end of one, are told by the high watermark in
// every version and both isolation levels. Fails if LSO stays −1.
func TestHC151EndOfPartition(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	for _, end := range []int64{0, 1} {
		for v := int16(4); v <= 18; v++ {
			for level := range int8(2) {
				req := fetchRequest(0, 0, want{topic: "t", id: id, offset: end})
				req.IsolationLevel = level
				p := call[*kmsg.FetchResponse](c, req, v).Topics[0].Partitions[0]
				if p.ErrorCode != 0 || p.HighWatermark != end || p.LastStableOffset != end || v >= 5 && p.LogStartOffset != 0 {
					t.Errorf("v%d level %d: %+v", v, level, p)
				}
			}
		}
		c.mustProduce("t", batchOf("a"))
	}
}

// A connection that dies while its fetch waits leaves no goroutine; that the
// wait itself ends is tested in package handler.
func TestDeadConnectionLeavesNothing(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	before := runtime.NumGoroutine()
	for range 50 {
		w := n.dial()
		w.send(fetchRequest(1<<30, 1, want{topic: "t"}), 11)
		must(t, w.conn.Close())
	}
	settled(t, before)
	c.alive()
}

// Two fetches in one stream: the second waits for the first and gets the first's
// end of connection right. Fails if park registers with the connection after
// its answer may have gone out: the later one would hang.
func TestFetchesFollowEachOther(t *testing.T) {
	n := start(t)
	n.dial().create("t", 1)
	before := runtime.NumGoroutine()
	for range 20 {
		w := n.dial()
		for range 20 {
			w.send(fetchRequest(1, 1, want{topic: "t"}), 11)
		}
		w.send(fetchRequest(1<<30, 1, want{topic: "t"}), 11)
		for range 20 {
			_, err := w.frame()
			must(t, err)
		}
		must(t, w.conn.Close())
	}
	settled(t, before)
}

// Large answers come by sendfile, small ones by copy; the bytes are the same.
func TestSendfileAndCopyAgree(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	var all []byte
	for i := range 40 {
		b := batchOf(string(bytes.Repeat([]byte{byte(i)}, 9000)))
		c.mustProduce("t", b)
		b.SetBaseOffset(kafka.Offset(i))
		b.SetLeaderEpoch(0)
		all = append(all, b...)
	}
	for _, limit := range []int32{9500, 31 << 10, 33 << 10, 1 << 20} {
		var got []byte
		for offset := int64(0); offset < 40; {
			p := call[*kmsg.FetchResponse](c, fetchRequest(0, 0, want{topic: "t", offset: offset, max: limit}), 12).Topics[0].Partitions[0]
			got = append(got, p.RecordBatches...)
			for rest := p.RecordBatches; len(rest) > 0; {
				b, more, err := batch.Next(rest)
				must(t, err)
				offset, rest = int64(b.NextOffset()), more
			}
		}
		if !bytes.Equal(got, all) {
			t.Fatalf("limit %d: other bytes", limit)
		}
	}
}
