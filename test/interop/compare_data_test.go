package interop

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func produceTo(topic string, partition int32, records []byte, change ...func(*kmsg.ProduceRequest)) func(*side, int16) kmsg.Request {
	return func(s *side, v int16) kmsg.Request {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, records
		q := kmsg.NewProduceRequestTopic()
		q.Topic, q.TopicID, q.Partitions = topic, topicID(s, topic), []kmsg.ProduceRequestTopicPartition{p}
		r := &kmsg.ProduceRequest{Acks: -1, TimeoutMillis: 5000, Topics: []kmsg.ProduceRequestTopic{q}}
		for _, f := range change {
			f(r)
		}
		return r
	}
}

func acks(n int16) func(*kmsg.ProduceRequest) { return func(r *kmsg.ProduceRequest) { r.Acks = n } }

func idempotent(sequence int32, epoch int16, value string) []byte {
	return plain(value).with(func(b *testBatch) { b.producer, b.epoch, b.sequence = 77, epoch, sequence }).bytes()
}

func produceCases() []compareCase {
	one := plain("v")
	set := func(f func(*testBatch)) []byte { return one.with(f).bytes() }
	raw := func(codec kgo.CompressionCodec) []byte {
		return plain("abc", "def").with(func(b *testBatch) { b.codec = codec }).bytes()
	}
	const old = int64(1_000_000_000_000)
	var cases []compareCase
	add := func(name, topic string, records []byte, change ...func(*kmsg.ProduceRequest)) {
		cases = append(cases, compareCase{name: "Produce " + name, from: 3, to: 13, req: produceTo(topic, 0, records, change...), ignore: []string{"LogAppendTime"}})
	}
	add("plain", "one", plain("a", "b", "c").bytes())
	add("acks 1", "one", one.bytes(), acks(1))
	add("acks 2", "one", one.bytes(), acks(2))
	add("acks -2", "one", one.bytes(), acks(-2))
	add("gzip", "one", raw(kgo.GzipCompression()))
	add("snappy", "one", raw(kgo.SnappyCompression()))
	add("lz4", "one", raw(kgo.Lz4Compression()))
	add("zstd", "one", raw(kgo.ZstdCompression()))
	add("recompressed", "zipped", raw(kgo.Lz4Compression()))
	add("append time", "append-time", plain("a", "b").bytes())
	add("wrong CRC", "one", set(func(b *testBatch) { b.crcBy = 1 }))
	add("too large", "small", plain(string(make([]byte, 300))).bytes())
	add("empty records", "one", []byte{})
	add("two batches", "one", append(one.bytes(), one.bytes()...))
	add("magic 1", "one", set(func(b *testBatch) { b.magic = 1 }))
	add("magic 3", "one", set(func(b *testBatch) { b.magic = 3 }))
	add("base offset 5", "one", set(func(b *testBatch) { b.base = 5 }))
	add("control batch", "one", set(func(b *testBatch) { b.attributes = 0x20 }))
	add("control and transactional", "one", set(func(b *testBatch) { b.attributes = 0x30; b.producer, b.epoch, b.sequence = 9, 0, 0 }))
	add("transactional without id", "one", set(func(b *testBatch) { b.attributes = 0x10; b.producer, b.epoch, b.sequence = 9, 0, 0 }))
	add("append time attribute", "one", set(func(b *testBatch) { b.attributes = 0x08 }))
	add("unknown codec", "one", set(func(b *testBatch) { b.attributes = 5 }))
	add("codec that lies", "one", set(func(b *testBatch) { b.attributes = 1 }))
	add("length too long", "one", set(func(b *testBatch) { b.lengthBy = 10 }))
	add("length too short", "one", set(func(b *testBatch) { b.lengthBy = -2 }))
	add("length tiny", "one", set(func(b *testBatch) { b.lengthBy = -1000 }))
	add("cut", "one", set(func(b *testBatch) { b.cutBytes = 3 }))
	add("half header", "one", one.bytes()[:30])
	add("count too high", "one", set(func(b *testBatch) { b.count = 5 }))
	add("count 0", "one", set(func(b *testBatch) { b.count = -1 }))
	add("count negative", "one", set(func(b *testBatch) { b.count = -5 }))
	add("last delta wrong", "one", set(func(b *testBatch) { b.lastDelta = 7 }))
	add("offsets not in order", "one", plain("a", "b").with(func(b *testBatch) {
		b.records = []testRecord{{delta: 1}, {delta: 0}}
		b.lastDelta = 1
	}).bytes())
	add("no key in a compacted topic", "compacted", one.bytes())
	add("too old", "bounded", set(func(b *testBatch) { b.first, b.max = old, old }))
	add("in the future", "bounded", set(func(b *testBatch) { b.first, b.max = recent+864e5, recent+864e5 }))
	add("no timestamp", "bounded", set(func(b *testBatch) { b.first, b.max = -1, -1 }))
	add("negative timestamp", "one", set(func(b *testBatch) { b.first, b.max = -5, -5 }))
	add("max timestamp lies", "one", set(func(b *testBatch) { b.max = old }))
	add("unknown topic", "nobody", one.bytes())
	add("internal topic", "__consumer_offsets", one.bytes())
	add("sequence without producer", "one", set(func(b *testBatch) { b.sequence = 4 }))
	add("producer without sequence", "one", set(func(b *testBatch) { b.producer = 4 }))
	add("producer with epoch, without sequence", "one", set(func(b *testBatch) { b.producer, b.epoch = 4, 0 }))
	partition := func(name string, p int32) {
		cases = append(cases, compareCase{name: "Produce " + name, from: 3, to: 13, req: produceTo("one", p, one.bytes())})
	}
	partition("to an unknown partition", 9)
	partition("to a negative partition", -1)
	single := func(name string, records []byte) {
		cases = append(cases, compareCase{name: "Produce idempotent " + name, from: 13, to: 13, req: produceTo("three", 1, records), ignore: []string{"LogAppendTime"}})
	}
	cases = append(cases, compareCase{name: "Produce first sequence of a new log is 5", from: 13, to: 13, req: produceTo("by-hand", 1, idempotent(5, 0, "a"))})
	single("starts", idempotent(0, 0, "-"))
	single("goes on", plain("a", "b", "c", "d", "e").with(func(b *testBatch) { b.producer, b.epoch, b.sequence = 77, 0, 1 }).bytes())
	single("goes on again", idempotent(6, 0, "b"))
	single("duplicate", idempotent(6, 0, "b"))
	single("of another producer starts at 8", plain("w").with(func(b *testBatch) { b.producer, b.epoch, b.sequence = 79, 0, 8 }).bytes())
	single("gap", idempotent(9, 0, "c"))
	single("new epoch", idempotent(0, 1, "d"))
	single("old epoch", idempotent(7, 0, "e"))
	single("new epoch, not 0", idempotent(3, 2, "f"))
	single("duplicate of the epoch", idempotent(0, 1, "d"))
	single("two in one batch", plain("x", "y").with(func(b *testBatch) { b.producer, b.epoch, b.sequence = 78, 0, 2147483647 }).bytes())
	single("wrapped", plain("z").with(func(b *testBatch) { b.producer, b.epoch, b.sequence = 78, 0, 1 }).bytes())
	return cases
}

func listOffsets(topic string, partition int32, timestamp int64, epoch int32, isolation int8) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, epoch
		return &kmsg.ListOffsetsRequest{ReplicaID: -1, IsolationLevel: isolation, Topics: []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}}
	}
}

func leaderEpoch(topic string, partition, current, asked int32) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = partition, current, asked
		return &kmsg.OffsetForLeaderEpochRequest{ReplicaID: -2, Topics: []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}}
	}
}

func offsetCases() []compareCase {
	var cases []compareCase
	for _, ts := range []struct {
		name string
		at   int64
	}{
		{"latest", -1}, {"earliest", -2}, {"max timestamp", -3}, {"earliest local", -4}, {"latest tiered", -5}, {"earliest pending upload", -6}, {"-7", -7},
		{"0", 0}, {"exact", 1_700_000_000_000}, {"one after", 1_700_000_000_001}, {"far", 9_000_000_000_000},
	} {
		cases = append(cases,
			compareCase{name: "ListOffsets " + ts.name, from: 1, to: 11, req: listOffsets("one", 0, ts.at, -1, 0)},
			compareCase{name: "ListOffsets committed " + ts.name, from: 2, to: 11, req: listOffsets("one", 0, ts.at, -1, 1)},
			compareCase{name: "ListOffsets empty " + ts.name, from: 1, to: 11, req: listOffsets("defaults", 0, ts.at, -1, 0)})
	}
	twice := func(*side, int16) kmsg.Request {
		r := listOffsets("one", 0, -1, -1, 0)(nil, 0).(*kmsg.ListOffsetsRequest)
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
		return r
	}
	return append(cases, []compareCase{
		{name: "ListOffsets twice", from: 1, to: 11, req: twice},
		{name: "ListOffsets unknown topic", from: 1, to: 11, req: listOffsets("nobody", 0, -1, -1, 0)},
		{name: "ListOffsets unknown partition", from: 1, to: 11, req: listOffsets("one", 9, -1, -1, 0)},
		{name: "ListOffsets current epoch", from: 4, to: 11, req: listOffsets("one", 0, -1, 0, 0)},
		{name: "ListOffsets future epoch", from: 4, to: 11, req: listOffsets("one", 0, -1, 5, 0)},
		{name: "OffsetForLeaderEpoch current", from: 2, to: 4, req: leaderEpoch("one", 0, 0, 0)},
		{name: "OffsetForLeaderEpoch unfenced", from: 2, to: 4, req: leaderEpoch("one", 0, -1, 0)},
		{name: "OffsetForLeaderEpoch future", from: 2, to: 4, req: leaderEpoch("one", 0, -1, 7)},
		{name: "OffsetForLeaderEpoch undefined", from: 2, to: 4, req: leaderEpoch("one", 0, -1, -1)},
		{name: "OffsetForLeaderEpoch negative", from: 2, to: 4, req: leaderEpoch("one", 0, -1, -2)},
		{name: "OffsetForLeaderEpoch current too high", from: 2, to: 4, req: leaderEpoch("one", 0, 7, 0)},
		{name: "OffsetForLeaderEpoch empty log", from: 2, to: 4, req: leaderEpoch("defaults", 0, -1, 0)},
		{name: "OffsetForLeaderEpoch unknown topic", from: 2, to: 4, req: leaderEpoch("nobody", 0, -1, 0)},
		{name: "OffsetForLeaderEpoch unknown partition", from: 2, to: 4, req: leaderEpoch("one", 9, -1, 0)},
	}...)
}

func fetchOf(topic string, partition int32, offset int64, change ...func(*kmsg.FetchRequest)) func(*side, int16) kmsg.Request {
	return func(s *side, v int16) kmsg.Request {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
		q := kmsg.NewFetchRequestTopic()
		q.Topic, q.TopicID, q.Partitions = topic, topicID(s, topic), []kmsg.FetchRequestTopicPartition{p}
		r := kmsg.NewPtrFetchRequest()
		r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch, r.Topics = 10, 1, 1<<20, -1, []kmsg.FetchRequestTopic{q}
		for _, f := range change {
			f(r)
		}
		return r
	}
}

func fetchCases() []compareCase {
	epoch := func(current, last int32) func(*kmsg.FetchRequest) {
		return func(r *kmsg.FetchRequest) {
			p := &r.Topics[0].Partitions[0]
			p.CurrentLeaderEpoch, p.LastFetchedEpoch = current, last
		}
	}
	small := func(max, partition int32) func(*kmsg.FetchRequest) {
		return func(r *kmsg.FetchRequest) {
			r.MaxBytes, r.Topics[0].Partitions[0].PartitionMaxBytes = max, partition
		}
	}
	session := func(id, epoch int32) func(*kmsg.FetchRequest) {
		return func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = id, epoch }
	}
	committed := func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }
	nothing := func(r *kmsg.FetchRequest) { r.Topics = nil }
	return []compareCase{
		{name: "Fetch", from: 4, to: 18, req: fetchOf("one", 0, 0)},
		{name: "Fetch committed", from: 4, to: 18, req: fetchOf("one", 0, 0, committed)},
		{name: "Fetch in the middle of a batch", from: 4, to: 18, req: fetchOf("one", 0, 1)},
		{name: "Fetch idempotent", from: 4, to: 18, req: fetchOf("three", 1, 0)},
		{name: "Fetch at the end", from: 4, to: 18, req: fetchOf("defaults", 0, 0)},
		{name: "Fetch beyond the end", from: 4, to: 18, req: fetchOf("one", 0, 1_000_000)},
		{name: "Fetch negative offset", from: 4, to: 18, req: fetchOf("one", 0, -1)},
		{name: "Fetch unknown topic", from: 4, to: 18, req: fetchOf("nobody", 0, 0)},
		{name: "Fetch unknown partition", from: 4, to: 18, req: fetchOf("one", 9, 0)},
		{name: "Fetch negative partition", from: 4, to: 18, req: fetchOf("one", -1, 0)},
		{name: "Fetch future epoch", from: 9, to: 18, req: fetchOf("one", 0, 0, epoch(9, -1))},
		{name: "Fetch current epoch", from: 9, to: 18, req: fetchOf("one", 0, 0, epoch(0, -1))},
		{name: "Fetch diverging", from: 12, to: 18, req: fetchOf("one", 0, 500, epoch(0, 0))},
		{name: "Fetch diverging epoch", from: 12, to: 18, req: fetchOf("one", 0, 1, epoch(0, 7))},
		{name: "Fetch first batch only", from: 4, to: 18, req: fetchOf("one", 0, 0, small(1, 1))},
		{name: "Fetch partition limit 0", from: 4, to: 18, req: fetchOf("one", 0, 0, small(1<<20, 0))},
		{name: "Fetch limit 200", from: 4, to: 18, req: fetchOf("one", 0, 0, small(200, 200))},
		{name: "Fetch limit 0", from: 4, to: 18, req: fetchOf("one", 0, 0, small(0, 1<<20))},
		{name: "Fetch session unknown", from: 7, to: 18, req: fetchOf("one", 0, 0, session(123, 5))},
		{name: "Fetch session unknown, closes", from: 7, to: 18, req: fetchOf("one", 0, 0, session(123, -1))},
		{name: "Fetch session new", from: 7, to: 18, req: fetchOf("one", 0, 0, session(0, 0))},
		{name: "Fetch session 0, epoch 5", from: 7, to: 18, req: fetchOf("one", 0, 0, session(0, 5))},
		{name: "Fetch session of nothing", from: 7, to: 18, req: fetchOf("one", 0, 0, session(0, 0), nothing)},
	}
}
