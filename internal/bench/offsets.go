package bench

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The special timestamps of ListOffsets.
const (
	latestTimestamp   = -1
	earliestTimestamp = -2
)

// listOffsets asks every partition 0…partitions-1 of a topic for its first
// (earliestTimestamp) or end offset (latestTimestamp; the last stable offset
// when committed).
func listOffsets(ctx context.Context, client *kgo.Client, topic string, partitions int, timestamp int64, committed bool) ([]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if committed {
		req.IsolationLevel = 1
	}
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = int32(i), timestamp
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	offsets := make([]int64, partitions)
	found := 0
	for _, shard := range client.RequestSharded(ctx, req) { // one request per leader
		if shard.Err != nil {
			return nil, fmt.Errorf("offsets of topic %q: %w", topic, shard.Err)
		}
		for _, rt := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, rp := range rt.Partitions {
				if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
					return nil, fmt.Errorf("offsets of topic %q, partition %d: %w", topic, rp.Partition, err)
				}
				if rp.Partition < 0 || int(rp.Partition) >= partitions {
					return nil, fmt.Errorf("offsets of topic %q: partition %d was not asked for", topic, rp.Partition)
				}
				offsets[rp.Partition] = rp.Offset
				found++
			}
		}
	}
	if found != partitions {
		return nil, fmt.Errorf("offsets of topic %q: %d of %d partitions answered", topic, found, partitions)
	}
	return offsets, nil
}
