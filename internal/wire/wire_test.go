package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func name(rng *rand.Rand) string { return fmt.Sprintf("t%d", rng.IntN(1000)) }

func topicID(rng *rand.Rand) (id [16]byte) {
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return id
}

// The oracle of these tests is kmsg, which is generated from Kafka's schemas.
func TestProduceRequestAgainstKmsg(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var q ProduceRequest
	for version := int16(ProduceMin); version <= ProduceMax; version++ {
		for round := 0; round < 50; round++ {
			m := kmsg.NewPtrProduceRequest()
			m.Version, m.Acks, m.TimeoutMillis = version, int16(rng.IntN(3)-1), rng.Int32()
			if rng.IntN(2) == 0 {
				m.TransactionID = kmsg.StringPtr("tx")
			}
			for i := rng.IntN(4); i > 0; i-- {
				topic := kmsg.NewProduceRequestTopic()
				topic.Topic, topic.TopicID = name(rng), topicID(rng)
				for j := rng.IntN(4); j > 0; j-- {
					p := kmsg.NewProduceRequestTopicPartition()
					p.Partition = rng.Int32()
					if rng.IntN(5) > 0 {
						p.Records = make([]byte, rng.IntN(300))
					}
					topic.Partitions = append(topic.Partitions, p)
				}
				m.Topics = append(m.Topics, topic)
			}
			if err := q.Decode(m.AppendTo(nil), version); err != nil {
				t.Fatal(version, err)
			}
			if q.Acks != m.Acks || q.TimeoutMs != m.TimeoutMillis || (q.TransactionalID == nil) != (m.TransactionID == nil) || len(q.Topics) != len(m.Topics) {
				t.Fatalf("v%d: %+v from %+v", version, q, m)
			}
			for i, topic := range m.Topics {
				got := q.Topics[i]
				if version < 13 && string(got.Name) != topic.Topic || version >= 13 && got.ID != topic.TopicID || got.End-got.First != len(topic.Partitions) {
					t.Fatalf("v%d: topic %+v from %+v", version, got, topic)
				}
				for j, p := range topic.Partitions {
					g := q.Partitions[got.First+j]
					if int32(g.Index) != p.Partition || !bytes.Equal(g.Records, p.Records) || (g.Records == nil) != (p.Records == nil) {
						t.Fatalf("v%d: partition %+v from %+v", version, g, p)
					}
				}
			}
		}
	}
}

func TestProduceResponseAgainstKmsg(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for version := int16(ProduceMin); version <= ProduceMax; version++ {
		for round := 0; round < 50; round++ {
			var q ProduceRequest
			var results []ProduceResult
			want := kmsg.NewPtrProduceResponse()
			want.Version = version
			for i := rng.IntN(3); i > 0; i-- {
				topic := kmsg.NewProduceResponseTopic()
				topic.Topic, topic.TopicID = name(rng), topicID(rng)
				qt := ProduceTopic{Name: []byte(topic.Topic), ID: topic.TopicID, First: len(q.Partitions)}
				for j := rng.IntN(4); j > 0; j-- {
					res := ProduceResult{Code: kafka.ErrorCode(rng.IntN(90)), BaseOffset: kafka.Offset(rng.Int64()), AppendTimeMs: kafka.WallMs(rng.Int64()),
						LogStart: kafka.Offset(rng.Int64()), CurrentLeader: -1, LeaderEpoch: -1}
					p := kmsg.NewProduceResponseTopicPartition()
					p.Partition, p.ErrorCode, p.BaseOffset, p.LogAppendTime, p.LogStartOffset = rng.Int32(), int16(res.Code), int64(res.BaseOffset), int64(res.AppendTimeMs), int64(res.LogStart)
					if rng.IntN(2) == 0 {
						res.Message = "why"
						p.ErrorMessage = kmsg.StringPtr("why")
						res.RecordErrors = []RecordError{{3, "bad"}}
						e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
						e.RelativeOffset, e.ErrorMessage = 3, kmsg.StringPtr("bad")
						p.ErrorRecords = append(p.ErrorRecords, e)
						res.CurrentLeader, res.LeaderEpoch = 5, 6
						if version >= 10 { // HC-134: kmsg writes tags whatever the version
							p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 5, 6
						}
					}
					q.Partitions = append(q.Partitions, ProducePartition{Index: kafka.PartitionID(p.Partition)})
					results = append(results, res)
					topic.Partitions = append(topic.Partitions, p)
				}
				qt.End = len(q.Partitions)
				q.Topics = append(q.Topics, qt)
				want.Topics = append(want.Topics, topic)
			}
			var nodes []NodeEndpoint
			if rng.IntN(2) == 0 {
				nodes = []NodeEndpoint{{ID: 5, Host: "h", Port: 9092}}
				b := kmsg.NewProduceResponseBroker()
				b.NodeID, b.Host, b.Port = 5, "h", 9092
				if version >= 10 {
					want.Brokers = append(want.Brokers, b)
				}
			}
			var resp Response
			resp.EncodeProduce(version, &q, results, nodes)
			if w := want.AppendTo(nil); !bytes.Equal(w, resp.Buf) {
				t.Fatalf("v%d:\n got %x\nwant %x", version, resp.Buf, w)
			}
		}
	}
}

func TestFetchRequestAgainstKmsg(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	var q FetchRequest
	for version := int16(FetchMin); version <= FetchMax; version++ {
		for round := 0; round < 50; round++ {
			m := kmsg.NewPtrFetchRequest()
			m.Version, m.MaxWaitMillis, m.MinBytes, m.MaxBytes, m.IsolationLevel = version, rng.Int32(), rng.Int32(), rng.Int32(), int8(rng.IntN(2))
			m.SessionID, m.SessionEpoch, m.Rack = rng.Int32(), rng.Int32(), name(rng)
			if rng.IntN(2) == 0 {
				m.ClusterID = kmsg.StringPtr("c")
				m.ReplicaID = 3
				m.ReplicaState.ID, m.ReplicaState.Epoch = 3, 99
			}
			for i := rng.IntN(4); i > 0; i-- {
				topic := kmsg.NewFetchRequestTopic()
				topic.Topic, topic.TopicID = name(rng), topicID(rng)
				for j := rng.IntN(4); j > 0; j-- {
					p := kmsg.NewFetchRequestTopicPartition()
					p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch, p.LogStartOffset, p.PartitionMaxBytes =
						rng.Int32(), rng.Int32(), rng.Int64(), rng.Int32(), rng.Int64(), rng.Int32()
					if rng.IntN(2) == 0 {
						p.ReplicaDirectoryID = topicID(rng)
					}
					topic.Partitions = append(topic.Partitions, p)
				}
				m.Topics = append(m.Topics, topic)
				f := kmsg.NewFetchRequestForgottenTopic()
				f.Topic, f.TopicID, f.Partitions = topic.Topic, topic.TopicID, []int32{1, 2}
				m.ForgottenTopics = append(m.ForgottenTopics, f)
			}
			if err := q.Decode(m.AppendTo(nil), version); err != nil {
				t.Fatal(version, err)
			}
			if q.MaxWaitMs != m.MaxWaitMillis || q.MaxBytes != m.MaxBytes || q.ReadCommitted != (m.IsolationLevel == 1) ||
				version >= 7 && (q.SessionID != m.SessionID || q.SessionEpoch != m.SessionEpoch || len(q.Forgotten) != len(m.ForgottenTopics)) ||
				version >= 11 && string(q.RackID) != m.Rack || version >= 12 && (q.ClusterID == nil) != (m.ClusterID == nil) ||
				m.ReplicaState.ID == 3 && q.ReplicaID != 3 || version >= 15 && int64(q.ReplicaEpoch) != m.ReplicaState.Epoch {
				t.Fatalf("v%d: %+v from %+v", version, q, m)
			}
			for i, topic := range m.Topics {
				got := q.Topics[i]
				if version < 13 && string(got.Name) != topic.Topic || version >= 13 && got.ID != topic.TopicID {
					t.Fatalf("v%d: topic %+v from %+v", version, got, topic)
				}
				for j, p := range topic.Partitions {
					g := q.Partitions[got.First+j]
					if int32(g.Index) != p.Partition || int64(g.Offset) != p.FetchOffset || g.MaxBytes != p.PartitionMaxBytes ||
						version >= 9 && int32(g.CurrentLeaderEpoch) != p.CurrentLeaderEpoch || version >= 17 && g.DirectoryID != p.ReplicaDirectoryID {
						t.Fatalf("v%d: partition %+v from %+v", version, g, p)
					}
				}
			}
		}
	}
}

type memoryRange []byte

func (m memoryRange) Len() int                                { return len(m) }
func (m memoryRange) ReadAt(p []byte, off int64) (int, error) { return copy(p, m[off:]), nil }
func (m memoryRange) Descriptor() (uintptr, int64, bool)      { return 0, 0, false }
func (m memoryRange) Release()                                {}

// flat gives the bytes that the network would send.
func flat(resp *Response) []byte {
	var out []byte
	at := 0
	for _, c := range resp.Chunks {
		out = append(out, resp.Buf[at:c.Before]...)
		out = append(out, c.File.(memoryRange)...)
		at = c.Before
	}
	return append(out, resp.Buf[at:]...)
}

func TestFetchResponseAgainstKmsg(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for version := int16(FetchMin); version <= FetchMax; version++ {
		for round := 0; round < 50; round++ {
			want := kmsg.NewPtrFetchResponse()
			want.Version, want.ErrorCode, want.SessionID = version, int16(rng.IntN(90)), rng.Int32()
			topics := rng.IntN(3)
			var resp Response
			resp.FetchHead(version, kafka.ErrorCode(want.ErrorCode), want.SessionID, topics)
			for ; topics > 0; topics-- {
				topic := kmsg.NewFetchResponseTopic()
				topic.Topic, topic.TopicID = name(rng), topicID(rng)
				n := rng.IntN(4)
				resp.FetchTopic(version, topic.Topic, topic.TopicID, n)
				for ; n > 0; n-- {
					p := kmsg.NewFetchResponseTopicPartition()
					p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = rng.Int32(), int16(rng.IntN(90)), rng.Int64(), rng.Int64(), rng.Int64()
					p.RecordBatches = make([]byte, rng.IntN(50))
					res := FetchResult{Index: kafka.PartitionID(p.Partition), Code: kafka.ErrorCode(p.ErrorCode), HighWatermark: kafka.Offset(p.HighWatermark),
						LastStableOffset: kafka.Offset(p.LastStableOffset), LogStart: kafka.Offset(p.LogStartOffset), PreferredRead: -1, CurrentLeader: -1}
					if len(p.RecordBatches) > 0 {
						res.Records = memoryRange(p.RecordBatches)
					}
					if rng.IntN(2) == 0 {
						res.HasAborted = true
						p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
						a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
						a.ProducerID, a.FirstOffset = 4, 5
						p.AbortedTransactions = append(p.AbortedTransactions, a)
						res.Aborted = []AbortedTxn{{4, 5}}
					}
					if rng.IntN(2) == 0 {
						res.CurrentLeader, res.LeaderEpoch = 5, 6
						p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 5, 6
						res.Diverging = &kafka.OffsetAndEpoch{Offset: 9, Epoch: 8}
						p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 8, 9
					}
					resp.FetchPartition(version, &res)
					topic.Partitions = append(topic.Partitions, p)
				}
				resp.FetchTopicEnd(version)
				want.Topics = append(want.Topics, topic)
			}
			var nodes []NodeEndpoint
			if rng.IntN(2) == 0 {
				nodes = []NodeEndpoint{{ID: 5, Host: "h", Port: 9092}}
				b := kmsg.NewFetchResponseBroker()
				b.NodeID, b.Host, b.Port = 5, "h", 9092
				if version >= 16 {
					want.Brokers = append(want.Brokers, b)
				}
			}
			resp.FetchTail(version, nodes)
			if w := want.AppendTo(nil); !bytes.Equal(w, flat(&resp)) {
				t.Fatalf("v%d:\n got %x\nwant %x", version, flat(&resp), w)
			}
		}
	}
}

func TestHeader(t *testing.T) {
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("cl"))
	for _, version := range []int16{3, 9} {
		m := kmsg.NewPtrProduceRequest()
		m.Version = version
		frame := f.AppendRequest(nil, m, -7)[4:]
		if PeekKey(frame) != 0 {
			t.Error("key")
		}
		h, body, err := ParseHeader(frame, func(_, v int16) bool { return v >= 9 })
		if err != nil || h.Version != version || h.CorrelationID != -7 || string(h.ClientID) != "cl" || !bytes.Equal(body, m.AppendTo(nil)) {
			t.Errorf("v%d: %+v %v", version, h, err)
		}
	}
	if _, _, err := ParseHeader([]byte{0, 0, 0}, nil); err == nil {
		t.Error("half a header was accepted")
	}
}

// HC-145: fails if an array length is believed before the bytes are counted.
func TestHC145ArraysThatClaimMillions(t *testing.T) {
	body := []byte{0xff, 0xff, 0, 1, 0, 0, 0, 9, 0x7f, 0xff, 0xff, 0xff}
	var q ProduceRequest
	if err := q.Decode(body, 3); err == nil {
		t.Error("accepted")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = q.Decode(body, 3)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes of memory for a lie", n)
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	m := kmsg.NewPtrFetchRequest()
	m.Version = 18
	topic := kmsg.NewFetchRequestTopic()
	topic.Partitions = append(topic.Partitions, kmsg.NewFetchRequestTopicPartition())
	m.Topics = append(m.Topics, topic)
	body := m.AppendTo(nil)
	var q FetchRequest
	q.Decode(body, 18)
	if n := testing.AllocsPerRun(100, func() { q.Decode(body, 18) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{}, int16(3))
	m := kmsg.NewPtrProduceRequest()
	m.Version = 13
	f.Add(m.AppendTo(nil), int16(13))
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		var p ProduceRequest
		var q FetchRequest
		if version >= ProduceMin && version <= ProduceMax {
			_ = p.Decode(body, version)
		}
		if version >= FetchMin && version <= FetchMax {
			_ = q.Decode(body, version)
		}
		_, _, _ = ParseHeader(body, func(k, v int16) bool { return v > 5 })
		if len(p.Partitions) > len(body) || len(q.Partitions) > len(body) {
			t.Fatal("more elements than bytes")
		}
	})
}
