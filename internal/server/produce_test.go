package server_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

func (c *client) producerID() int64 {
	c.t.Helper()
	resp := call[*kmsg.InitProducerIDResponse](c, kmsg.NewPtrInitProducerIDRequest(), 4)
	wantCode(c.t, "InitProducerId", resp.ErrorCode, 0)
	return resp.ProducerID
}

// HC-076, HC-077, HC-079, HC-081 over the wire, and across a kill: the state is
// rebuilt from the log. Fails as the tests of package partition say.
func TestHC076To081IdempotentProducers(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	id := c.producerID()
	wantCode(t, "17 first", c.produce("t", sequenced(id, 0, 17, "x")).ErrorCode, kafka.ErrOutOfOrderSequenceNumber)
	var corrs []int32
	var reqs []*kmsg.ProduceRequest
	for i := range int32(5) {
		reqs = append(reqs, produceRequest("t", -1, sequenced(id, 0, i, fmt.Sprint(i))))
	}
	for round := range 2 {
		if round == 1 { // the answers were lost with the process
			c = n.killed().dial()
		}
		corrs = corrs[:0]
		for _, req := range reqs {
			corrs = append(corrs, c.send(req, 9))
		}
		for i, req := range reqs {
			p := c.receive(req, corrs[i]).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != int64(i) {
				t.Fatalf("round %d batch %d: %+v", round, i, p)
			}
		}
	}
	c.wantValues("t", 0, "0", "1", "2", "3", "4")
	wantCode(t, "gap", c.produce("t", sequenced(id, 0, 7, "x")).ErrorCode, kafka.ErrOutOfOrderSequenceNumber)
	wantCode(t, "higher epoch, not from 0", c.produce("t", sequenced(id, 1, 5, "x")).ErrorCode, kafka.ErrOutOfOrderSequenceNumber)
	wantCode(t, "higher epoch", c.produce("t", sequenced(id, 1, 0, "x")).ErrorCode, 0)
	wantCode(t, "old epoch", c.produce("t", sequenced(id, 0, 5, "x")).ErrorCode, kafka.ErrInvalidProducerEpoch)
	if other := c.producerID(); other == id {
		t.Fatalf("producer id %d twice", id)
	}
}

// HC-078: the state of a producer that was idle is forgotten by time only; the
// next sequence is then taken whatever it is. See package producerstate.
func TestHC078ProducerIDsAreUniqueAcrossRestarts(t *testing.T) {
	n := start(t)
	seen := map[int64]bool{}
	for range 4 {
		c := n.dial()
		for range 600 { // more than half a block each time
			id := c.producerID()
			if seen[id] {
				t.Fatalf("producer id %d twice", id)
			}
			seen[id] = true
		}
		n.restart()
	}
}

// InitProducerId's rules. Fails without the cases of initProducerID.
func TestInitProducerID(t *testing.T) {
	n := start(t)
	c := n.dial()
	empty, txn := "", "tx"
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &empty
	wantCode(t, "empty id", call[*kmsg.InitProducerIDResponse](c, req, 4).ErrorCode, kafka.ErrInvalidRequest)
	req.TransactionalID = &txn
	wantCode(t, "no coordinator yet", call[*kmsg.InitProducerIDResponse](c, req, 4).ErrorCode, kafka.ErrCoordinatorNotAvailable)
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = nil, 5, -1
	wantCode(t, "id without epoch", call[*kmsg.InitProducerIDResponse](c, req, 4).ErrorCode, kafka.ErrInvalidRequest)
}

// HC-130 over the wire.
func TestHC130Timestamps(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("log", 1, "message.timestamp.type=LogAppendTime")
	c.create("made", 1)
	before := time.Now().UnixMilli()
	p := c.produce("log", batchAt(5, "a"))
	if p.ErrorCode != 0 || p.LogAppendTime < before || p.LogAppendTime > time.Now().UnixMilli() {
		t.Fatalf("%+v", p)
	}
	b, _, err := batch.Next(c.fetch("log", 0).RecordBatches)
	must(t, err)
	if !b.LogAppendTime() || int64(b.MaxTimestamp()) != p.LogAppendTime || !b.Valid() {
		t.Fatalf("stored with %d", b.MaxTimestamp())
	}
	if p := c.produce("made", batchOf("a")); p.LogAppendTime != -1 {
		t.Fatalf("CreateTime is answered %d", p.LogAppendTime)
	}
	far := c.produce("made", batchAt(time.Now().AddDate(10, 0, 0).UnixMilli(), "a"))
	wantCode(t, "ten years ahead", far.ErrorCode, kafka.ErrInvalidTimestamp)
	if len(far.ErrorRecords) != 1 {
		t.Fatalf("%+v", far)
	}
}

// HC-144: an error of acks=0 closes the connection, success says nothing. Fails
// if finishSilently answers or keeps silent about errors.
func TestHC144NoAcks(t *testing.T) {
	n := start(t)
	n.dial().create("t", 1, "max.message.bytes=200")
	c := n.dial()
	c.send(produceRequest("t", 0, batchOf("a")), 9)
	c.alive()
	c.wantValues("t", 0, "a")
	for what, req := range map[string]*kmsg.ProduceRequest{
		"unknown topic": produceRequest("nope", 0, batchOf("a")),
		"too large":     produceRequest("t", 0, batchOf(string(make([]byte, 500)))),
	} {
		c := n.dial()
		c.send(req, 9)
		c.closed(what)
	}
}

// HC-142 and HC-141: what the client put into the leader epoch does not matter,
// and compressed bytes are stored as they are; a base offset other than 0 is
// refused, as UnifiedLog.analyzeAndValidateRecords does. Fails if the epoch is
// checked, or if a batch is compressed anew.
func TestHC141HC142StoredAsSent(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	for i, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
		plain := batchOf("value", "value", "value")
		body, err := batch.Compress(nil, codec, 3, plain.Records())
		must(t, err)
		b := batch.Batch(append(bytes.Clone(plain[:batch.HeaderSize]), body...))
		setCodec(b, codec)
		b.SetLeaderEpoch(kafka.Epoch([]int32{0, -1, 77, 3, 1 << 30}[i]))
		sent := bytes.Clone(b)
		o := c.mustProduce("t", b)
		got := c.fetch("t", o).RecordBatches
		want := batch.Batch(sent)
		want.SetBaseOffset(kafka.Offset(o))
		want.SetLeaderEpoch(0)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: stored other bytes than sent", codec)
		}
	}
	based := batchOf("a")
	based.SetBaseOffset(5)
	wantCode(t, "base offset 5", c.produce("t", based).ErrorCode, kafka.ErrInvalidRecord)
	zstd := c.fetch("t", 12)
	wantCode(t, "Fetch 11 of zstd", zstd.ErrorCode, 0)
	again := batch.Batch(zstd.RecordBatches)
	again.SetBaseOffset(0)
	old := produceRequest("t", 1, again)
	wantCode(t, "Produce 6 of zstd", call[*kmsg.ProduceResponse](c, old, 6).Topics[0].Partitions[0].ErrorCode, kafka.ErrUnsupportedCompressionType)
	wantCode(t, "Produce 7 of zstd", call[*kmsg.ProduceResponse](c, old, 7).Topics[0].Partitions[0].ErrorCode, 0)
}

// setCodec changes length, codec and checksum of a batch by hand.
func setCodec(b batch.Batch, codec batch.Codec) {
	n := len(b) - 12
	b[8], b[9], b[10], b[11] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	b[22] = b[22]&^7 | byte(codec)
	seal(b)
}

func seal(b batch.Batch) {
	crc := b.ComputeCRC()
	b[17], b[18], b[19], b[20] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
}

// HC-154: the limit is the whole batch, and only the partition that exceeds it
// is refused. Fails if the header is not counted.
func TestHC154MessageTooLarge(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2, "max.message.bytes=1000")
	sized := func(n int) batch.Batch {
		v := n - len(batchOf("")) - 2
		for ; ; v++ {
			if b := batchOf(string(make([]byte, v))); len(b) >= n {
				if len(b) != n {
					t.Fatalf("cannot make a batch of %d bytes", n)
				}
				return b
			}
		}
	}
	wantCode(t, "999", c.produce("t", sized(999)).ErrorCode, 0)
	wantCode(t, "1000", c.produce("t", sized(1000)).ErrorCode, 0)
	resp := call[*kmsg.ProduceResponse](c, produceRequest("t", 1, sized(1001), sized(1000)), 9)
	wantCode(t, "1001", resp.Topics[0].Partitions[0].ErrorCode, kafka.ErrMessageTooLarge)
	wantCode(t, "beside it", resp.Topics[0].Partitions[1].ErrorCode, 0)
}

// What a producer may not send: each is answered in every version with its own
// code and nothing is stored. Fails without the check that the line names.
func TestBadBatches(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.create("compacted", 1, "cleanup.policy=compact")
	edit := func(f func(batch.Batch)) batch.Batch {
		b := batchOf("a", "b")
		f(b)
		seal(b)
		return b
	}
	nested := func() batch.Batch { // a batch as the records of a batch
		inner := batchOf("inner")
		b := batch.Batch(append(bytes.Clone(batchOf("x")[:batch.HeaderSize]), inner...))
		setCodec(b, batch.None)
		return b
	}
	two := append(batchOf("a"), batchOf("b")...)
	wrongCRC := batchOf("a")
	wrongCRC[len(wrongCRC)-1] ^= 1
	short := batchOf("a")
	control := edit(func(b batch.Batch) { b[22] |= 0x20 })
	txn := edit(func(b batch.Batch) { b[22] |= 0x10 })
	garbage := make([]byte, 200)
	for i := range garbage {
		garbage[i] = byte(rand.Uint32())
	}
	for _, q := range []struct {
		what, topic string
		records     []byte
	}{
		{"wrong checksum", "t", wrongCRC},
		{"two batches", "t", two},
		{"cut", "t", short[:len(short)-3]},
		{"empty", "t", []byte{}},
		{"null", "t", nil},
		{"control batch", "t", control},
		{"transactional", "t", txn},
		{"nested", "t", nested()},
		{"garbage", "t", garbage},
		{"magic 1", "t", edit(func(b batch.Batch) { b[16] = 1 })},
		{"magic 9", "t", edit(func(b batch.Batch) { b[16] = 9 })},
		{"count 3 of 2", "t", edit(func(b batch.Batch) { b[60] = 3 })},
		{"count −1", "t", edit(func(b batch.Batch) { b[57], b[58], b[59], b[60] = 255, 255, 255, 255 })},
		{"count 2^31−1", "t", edit(func(b batch.Batch) { b[57], b[58], b[59], b[60] = 127, 255, 255, 255 })},
		{"last delta 7", "t", edit(func(b batch.Batch) { b[26] = 7 })},
		{"codec 7", "t", edit(func(b batch.Batch) { b[22] |= 7 })},
		{"not gzip", "t", edit(func(b batch.Batch) { b[22] |= 1 })},
		{"length 2^31", "t", edit(func(b batch.Batch) { b[8] = 0x7f })},
		{"no key", "compacted", batchOf("a")},
	} {
		for _, version := range []int16{3, 7, 8, 9, 12} {
			p := call[*kmsg.ProduceResponse](c, produceRequest(q.topic, -1, q.records), version).Topics[0].Partitions[0]
			if p.ErrorCode == 0 || p.ErrorCode == -1 || p.BaseOffset != -1 {
				t.Errorf("%s v%d: %s at %d", q.what, version, kafka.ErrorCode(p.ErrorCode), p.BaseOffset)
			}
		}
	}
	c.wantValues("t", 0)
	c.wantValues("compacted", 0)
	for acks, want := range map[int16]kafka.ErrorCode{2: kafka.ErrInvalidRequiredAcks, -2: kafka.ErrInvalidRequiredAcks, 1: 0, -1: 0} {
		p := call[*kmsg.ProduceResponse](c, produceRequest("t", acks, batchOf("x")), 9).Topics[0].Partitions[0]
		wantCode(t, fmt.Sprint("acks ", acks), p.ErrorCode, want)
	}
	tx := "tx"
	req := produceRequest("t", -1, batchOf("x"))
	req.TransactionID = &tx
	wantCode(t, "transactional id", call[*kmsg.ProduceResponse](c, req, 9).Topics[0].Partitions[0].ErrorCode, kafka.ErrInvalidTxnState)
	wantCode(t, "partition −1", call[*kmsg.ProduceResponse](c, partitioned(-1), 9).Topics[0].Partitions[0].ErrorCode, kafka.ErrUnknownTopicOrPartition)
	wantCode(t, "partition 2^31−1", call[*kmsg.ProduceResponse](c, partitioned(1<<31-1), 9).Topics[0].Partitions[0].ErrorCode, kafka.ErrUnknownTopicOrPartition)
}

func partitioned(n int32) *kmsg.ProduceRequest {
	req := produceRequest("t", -1, batchOf("x"))
	req.Topics[0].Partitions[0].Partition = n
	return req
}

// HC-156: effects keep the order of the requests, and a Produce is in the log
// while an earlier request's answer is unread. Fails if requests of a
// connection run side by side.
func TestHC156PipelinedProducesKeepTheirOrder(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	id := c.producerID()
	const total, window = 2000, 100
	var reqs []*kmsg.ProduceRequest
	var corrs []int32
	for i := range total {
		req := produceRequest("t", int16(-1+2*(i%2)), sequenced(id, 0, int32(i), "v"))
		reqs, corrs = append(reqs, req), append(corrs, c.send(req, 9))
		if i >= window {
			done := i - window
			p := c.receive(reqs[done], corrs[done]).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != int64(done) {
				t.Fatalf("batch %d: %+v", done, p)
			}
		}
	}
	for i := total - window; i < total; i++ {
		c.receive(reqs[i], corrs[i])
	}
}

// HC-146: fails if find answers UNKNOWN_TOPIC_OR_PARTITION for what exists
// elsewhere. One node cannot show "elsewhere"; what does not exist is 3, or 100
// when asked by id.
func TestHC146DoesNotExist(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	for v := int16(3); v <= 12; v++ {
		wantCode(t, "topic", call[*kmsg.ProduceResponse](c, produceRequest("u", 1, batchOf("x")), v).Topics[0].Partitions[0].ErrorCode, kafka.ErrUnknownTopicOrPartition)
	}
	req := produceRequest("", 1, batchOf("x"))
	req.Topics[0].TopicID = [16]byte{9}
	wantCode(t, "id", call[*kmsg.ProduceResponse](c, req, 13).Topics[0].Partitions[0].ErrorCode, kafka.ErrUnknownTopicID)
	wantCode(t, "internal", c.produce("__consumer_offsets", batchOf("x")).ErrorCode, kafka.ErrUnknownTopicOrPartition)
}

// A client that never reads its answers cannot hold up others, nor a stop.
func TestClientThatNeverReads(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	for range 20 {
		c.mustProduce("t", batchOf(string(make([]byte, 500_000))))
	}
	deaf := n.dial()
	must(t, deaf.conn.(*net.TCPConn).SetReadBuffer(1024))
	req := fetchRequest(0, 1, want{topic: "t", max: 50 << 20})
	for range 50 {
		deaf.send(req, 11)
	}
	c.alive()
	c.wantValues("t", 20)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, n.s.Stop(ctx))
	n.s = nil
}
