package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFranzGo produces and consumes with franz-go: every codec, null keys and
// values, headers, timestamps; idempotent and not; acks 0, 1 and all.
func TestFranzGo(t *testing.T) {
	n := newNode(t)
	n.startMoldau(t)
	ctx := within(t, 60*time.Second)
	r := askNode[*kmsg.CreateTopicsResponse](t, n, createTopics(createTopic("all", 10, 1))(nil, 7), 7)
	if r.Topics[0].ErrorCode != 0 {
		t.Fatal(r.Topics[0].ErrorCode)
	}
	want := content{}
	for i, c := range codecs {
		for j, opts := range [][]kgo.Opt{{kgo.RequiredAcks(kgo.AllISRAcks())}, {kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}} {
			cl := n.client(t, append(opts, kgo.ProducerBatchCompression(c.codec))...)
			p := int32(2*i + j)
			produce(t, ctx, cl, "all", p, 0, 300, 100)
			for k := range 300 {
				rec := testRecordOf("all", p, 0, k, 100)
				rec.Offset = int64(k)
				want[fmt.Sprintf("all-%d", p)] = append(want[fmt.Sprintf("all-%d", p)], recordText(rec))
			}
		}
	}
	sameContent(t, "franz-go", want, n.read(t), false)
	timestamps(t, n)
	acksZero(t, ctx, n)
	autoCreate(t, ctx, n)
	refusals(t, ctx, n)
	n.stop(t)
}

// timestamps asks ListOffsets for what produce has stamped.
func timestamps(t *testing.T, n *node) {
	for _, c := range []struct{ at, want int64 }{{recent - 1e6, 0}, {recent - 1e6 + 150, 150}, {recent - 1e6 + 299, 299}, {recent, -1}, {-1, 300}, {-2, 0}, {-3, 299}} {
		for p := range int32(10) {
			r := askNode[*kmsg.ListOffsetsResponse](t, n, listOffsets("all", p, c.at, -1, 0)(nil, 0), 7)
			if got := r.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.Offset != c.want {
				t.Errorf("all-%d at %d: offset %d, error %d; want %d", p, c.at, got.Offset, got.ErrorCode, c.want)
			}
		}
	}
}

// acksZero: no reply is sent, and nothing after it waits for one.
func acksZero(t *testing.T, ctx context.Context, n *node) {
	cl := n.client(t, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite(), kgo.AllowAutoTopicCreation())
	produce(t, ctx, cl, "zero", 0, 0, 50, 10)
	for len(n.read(t)["zero-0"]) < 50 {
		if ctx.Err() != nil {
			t.Fatal("records of acks=0 do not arrive")
		}
	}
}

func autoCreate(t *testing.T, ctx context.Context, n *node) {
	cl := n.client(t, kgo.AllowAutoTopicCreation())
	produce(t, ctx, cl, "made-on-demand", 0, 0, 3, 10)
	cl = n.client(t, kgo.UnknownTopicRetries(1))
	err := cl.ProduceSync(ctx, &kgo.Record{Topic: "not-made", Value: []byte("v")}).FirstErr()
	if err == nil || !strings.Contains(err.Error(), "UNKNOWN_TOPIC") {
		t.Errorf("a topic that must not be made: %v", err)
	}
}

// refusals: what this version does not have is refused in words that say so.
func refusals(t *testing.T, ctx context.Context, n *node) {
	for kind, key := range map[int8]string{1: "txn"} {
		r := askNode[*kmsg.FindCoordinatorResponse](t, n, &kmsg.FindCoordinatorRequest{CoordinatorType: kind, CoordinatorKeys: []string{key}}, 4)
		c := r.Coordinators[0]
		if c.ErrorCode != 15 || c.ErrorMessage == nil || !strings.Contains(*c.ErrorMessage, "does not coordinate") {
			t.Errorf("FindCoordinator of kind %d: %+v", kind, c)
		}
	}
	init := askNode[*kmsg.InitProducerIDResponse](t, n, &kmsg.InitProducerIDRequest{TransactionalID: ptr("t"), TransactionTimeoutMillis: 1000, ProducerID: -1, ProducerEpoch: -1}, 5)
	if init.ErrorCode != 15 {
		t.Errorf("InitProducerId of a transaction: %d", init.ErrorCode)
	}
	// Kafka never answers a Produce with null records (its own NPE); we do.
	r := askNode[*kmsg.ProduceResponse](t, n, produceTo("all", 0, nil)(&side{names: map[string][16]byte{}}, 12), 12)
	if code := r.Topics[0].Partitions[0].ErrorCode; code != 87 {
		t.Errorf("null records: %d, want INVALID_RECORD", code)
	}
	cl := n.client(t)
	var keys []int16
	for _, k := range mustRequest[*kmsg.ApiVersionsResponse](t, ctx, cl, kmsg.NewPtrApiVersionsRequest()).ApiKeys {
		keys = append(keys, k.ApiKey)
	}
	for _, group := range []int16{24, 25, 26, 28, 68, 69, 76, 77} {
		if slices.Contains(keys, group) {
			t.Errorf("%s is advertised, but there are no coordinators", kmsg.NameForKey(group))
		}
	}
}

func mustRequest[T kmsg.Response](t *testing.T, ctx context.Context, cl *kgo.Client, req kmsg.Request) T {
	t.Helper()
	resp, err := cl.Request(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(T)
}

// TestFetchSession: an incremental fetch returns only what changed, and a topic
// that was made again shows as an unknown id.
func TestFetchSession(t *testing.T) {
	n := newNode(t)
	n.startMoldau(t)
	r := askNode[*kmsg.CreateTopicsResponse](t, n, createTopics(createTopic("session", 3, 1))(nil, 7), 7)
	id := r.Topics[0].TopicID
	cl := n.client(t)
	ctx := within(t, 30*time.Second)
	conn, err := dialRaw(n.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fetch := func(sessionID, epoch int32, next map[int32]int64) *kmsg.FetchResponse {
		t.Helper()
		req := kmsg.NewPtrFetchRequest()
		req.SetVersion(17)
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionID, req.SessionEpoch = 20, 1, 1<<20, sessionID, epoch
		topic := kmsg.NewFetchRequestTopic()
		topic.TopicID = id
		for p, o := range next {
			q := kmsg.NewFetchRequestTopicPartition()
			q.Partition, q.FetchOffset, q.PartitionMaxBytes = p, o, 1<<20
			topic.Partitions = append(topic.Partitions, q)
		}
		if len(next) > 0 {
			req.Topics = append(req.Topics, topic)
		}
		resp, err := conn.ask(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.(*kmsg.FetchResponse)
	}
	shown := func(r *kmsg.FetchResponse) (list []int32) {
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				list = append(list, p.Partition)
			}
		}
		slices.Sort(list)
		return list
	}
	first := fetch(0, 0, map[int32]int64{0: 0, 1: 0, 2: 0})
	if first.SessionID == 0 || !slices.Equal(shown(first), []int32{0, 1, 2}) {
		t.Fatalf("a new session: id %d, partitions %v", first.SessionID, shown(first))
	}
	if got := shown(fetch(first.SessionID, 1, nil)); len(got) != 0 {
		t.Errorf("nothing has changed, but %v is told", got)
	}
	produce(t, ctx, cl, "session", 1, 0, 3, 10)
	if got := shown(fetch(first.SessionID, 2, nil)); !slices.Equal(got, []int32{1}) {
		t.Errorf("partition 1 has changed, %v is told", got)
	}
	if got := shown(fetch(first.SessionID, 3, map[int32]int64{1: 3})); len(got) != 0 {
		t.Errorf("all is read, but %v is told", got)
	}
	if r := fetch(first.SessionID, 3, nil); r.ErrorCode != 71 {
		t.Errorf("a stale session epoch: error %d, want INVALID_FETCH_SESSION_EPOCH", r.ErrorCode)
	}
	n.stop(t)
}
