package server_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
)

func deletionOf(topic string, offsets map[int32]int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	q := kmsg.NewDeleteRecordsRequestTopic()
	q.Topic = topic
	for n := int32(0); n < 10; n++ {
		if o, ok := offsets[n]; ok {
			q.Partitions = append(q.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: n, Offset: o})
		}
	}
	req.Topics = append(req.Topics, q)
	return req
}

// DeleteRecords in every version; the start survives a restart and a kill after
// the checkpoint.
func TestDeleteRecords(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2)
	for _, v := range []string{"a", "b", "c", "d"} {
		c.mustProduce("t", batchOf(v))
	}
	for v := int16(0); v <= 2; v++ {
		r := call[*kmsg.DeleteRecordsResponse](c, deletionOf("t", map[int32]int64{0: int64(v) + 1, 1: -1, 2: 0}), v).Topics[0].Partitions
		want := []kmsg.DeleteRecordsResponseTopicPartition{{Partition: 0, LowWatermark: int64(v) + 1}, {Partition: 1}, {Partition: 2, LowWatermark: -1, ErrorCode: int16(kafka.ErrUnknownTopicOrPartition)}}
		for i, p := range r {
			if p.Partition != want[i].Partition || p.LowWatermark != want[i].LowWatermark || p.ErrorCode != want[i].ErrorCode {
				t.Errorf("v%d: %+v", v, p)
			}
		}
	}
	c.wantValues("t", 3, "d")
	// What is named twice counts once, with the last offset; internal topics are nobody's.
	twice := deletionOf("t", map[int32]int64{0: 99})
	twice.Topics = append(twice.Topics, deletionOf("t", map[int32]int64{0: -1}).Topics[0], deletionOf("nobody", map[int32]int64{0: 0}).Topics[0])
	r := call[*kmsg.DeleteRecordsResponse](c, twice, 2)
	if len(r.Topics) != 2 || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0].LowWatermark != 4 {
		t.Fatalf("%+v", r.Topics)
	}
	wantCode(t, "unknown topic", r.Topics[1].Partitions[0].ErrorCode, kafka.ErrUnknownTopicOrPartition)
	n.restart()
	c = n.dial()
	c.mustProduce("t", batchOf("e"))
	c.wantValues("t", 4, "e")
	wantCode(t, "what was deleted", call[*kmsg.FetchResponse](c, fetchRequest(0, 0, want{topic: "t"}), 12).Topics[0].Partitions[0].ErrorCode, kafka.ErrOffsetOutOfRange)
}

// HC-146: a partition that lives on another broker is not unknown, and while a
// living replica has not followed, the answer waits as long as the client allows
// (DelayedDeleteRecords). Fails if find answers 3, or the wait does not end.
func TestHC146DeleteRecordsElsewhere(t *testing.T) {
	c := newThree(t, false)
	for id := range c.conf {
		c.up(id)
	}
	c.ready(1, 2, 3)
	c.inService(1, 1, 2, 3)
	c.make(1, "one", 1)
	c.make(1, "three", 3)
	ask := func(at kafka.NodeID, topic string, timeout int32) map[int32]kafka.ErrorCode {
		c.until(at, "the topic", func(s *server.Server) bool { return s.Image().TopicByName(topic).Exists() })
		req := deletionOf(topic, map[int32]int64{0: 0, 1: 0, 2: 0, 3: 0, 4: 0})
		req.TimeoutMillis = timeout
		out := map[int32]kafka.ErrorCode{}
		cl := dialTo(t, c.nodes[at].Address("PLAINTEXT").String())
		for _, p := range call[*kmsg.DeleteRecordsResponse](cl, req, 2).Topics[0].Partitions {
			out[p.Partition] = kafka.ErrorCode(p.ErrorCode)
		}
		return out
	}
	// Who leads may change while the answer is on its way: one of both is right.
	right := func(id kafka.NodeID, topic string, n int32, alone kafka.ErrorCode) kafka.ErrorCode {
		switch leader, _, exists := c.nodes[id].Image().TopicByName(topic).Leader(kafka.PartitionID(n)); {
		case !exists:
			return kafka.ErrUnknownTopicOrPartition
		case leader == id:
			return alone
		}
		return kafka.ErrNotLeaderForPartition
	}
	for id := kafka.NodeID(1); id <= 3; id++ {
		for topic, alone := range map[string]kafka.ErrorCode{"one": 0, "three": kafka.ErrRequestTimedOut} {
			// The image is current before the logs have followed it.
			c.until(id, "partitions at work", func(*server.Server) bool {
				for n, code := range ask(id, topic, 1) {
					if code == kafka.ErrNotLeaderForPartition && right(id, topic, n, alone) == alone {
						return false
					}
				}
				return true
			})
			var before [5]kafka.ErrorCode
			for n := range before {
				before[n] = right(id, topic, int32(n), alone)
			}
			for n, code := range ask(id, topic, 50) {
				if after := right(id, topic, n, alone); code != before[n] && code != after {
					t.Errorf("%s-%d at %d: %s, want %s or %s", topic, n, id, code, before[n], after)
				}
			}
		}
	}
}
