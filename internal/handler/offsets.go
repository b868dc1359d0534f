package handler

// ListOffsets (v4: leader epochs; v7: max timestamp; v8, v9, v11: tiered) and
// OffsetForLeaderEpoch.

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
)

func (h *Handler) listOffsets(c *call) {
	req := kmsg.NewPtrListOffsetsRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrListOffsetsResponse()
	for i := range req.Topics {
		q := &req.Topics[i]
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = q.Topic
		topic := img.TopicByName(q.Topic)
		asked := map[int32]int{}
		for _, p := range q.Partitions {
			asked[p.Partition]++
		}
		for _, p := range q.Partitions {
			twice := asked[p.Partition] > 1
			if asked[p.Partition] == 0 {
				continue // what was asked twice is answered once
			}
			if twice {
				asked[p.Partition] = 0
			}
			r := kmsg.NewListOffsetsResponseTopicPartition()
			r.Partition = p.Partition
			l := h.listOffset(c, req, topic, &p, twice)
			r.ErrorCode, r.Offset, r.Timestamp, r.LeaderEpoch = int16(l.Code), int64(l.Offset), int64(l.Timestamp), int32(l.Epoch)
			t.Partitions = append(t.Partitions, r)
		}
		resp.Topics = append(resp.Topics, t)
	}
	c.reply(resp)
}

func (h *Handler) listOffset(c *call, req *kmsg.ListOffsetsRequest, topic metadata.Topic, q *kmsg.ListOffsetsRequestTopicPartition, twice bool) partition.ListedOffset {
	fail := func(code kafka.ErrorCode) partition.ListedOffset {
		return partition.ListedOffset{Code: code, Offset: kafka.NoOffset, Timestamp: kafka.NoTimestamp, Epoch: kafka.NoEpoch}
	}
	switch {
	case twice:
		return fail(kafka.ErrInvalidRequest)
	case q.Timestamp < 0 && !specialTimestamp(q.Timestamp, c.Version):
		return fail(kafka.ErrUnsupportedVersion)
	case !topic.Exists():
		return fail(kafka.ErrUnknownTopicOrPartition)
	}
	p, code := h.find(topic, kafka.PartitionID(q.Partition))
	if code != 0 {
		return fail(code)
	}
	epoch := kafka.NoEpoch
	if c.Version >= 4 {
		epoch = kafka.Epoch(q.CurrentLeaderEpoch)
	}
	return p.ListOffset(q.Timestamp, epoch, req.IsolationLevel == 1)
}

// specialTimestamp tells whether a version knows a negative timestamp.
func specialTimestamp(ts int64, version int16) bool {
	switch ts {
	case partition.LatestTimestamp, partition.EarliestTimestamp:
		return true
	case partition.MaxTimestamp:
		return version >= 7
	case partition.EarliestLocalTimestamp:
		return version >= 8
	case partition.LatestTieredTimestamp:
		return version >= 9
	case partition.EarliestPendingTimestamp:
		return version >= 11
	}
	return false
}

func (h *Handler) offsetForLeaderEpoch(c *call) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for i := range req.Topics {
		q := &req.Topics[i]
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = q.Topic
		topic := img.TopicByName(q.Topic)
		for _, p := range q.Partitions {
			r := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			r.Partition, r.LeaderEpoch, r.EndOffset = p.Partition, -1, -1
			code := kafka.ErrUnknownTopicOrPartition
			if topic.Exists() {
				var part *partition.Partition
				if part, code = h.find(topic, kafka.PartitionID(p.Partition)); code == 0 {
					var epoch kafka.Epoch
					var end kafka.Offset
					code, epoch, end = part.EpochEnd(kafka.Epoch(p.CurrentLeaderEpoch), kafka.Epoch(p.LeaderEpoch))
					r.LeaderEpoch, r.EndOffset = int32(epoch), int64(end)
				}
			}
			r.ErrorCode = int16(code)
			t.Partitions = append(t.Partitions, r)
		}
		resp.Topics = append(resp.Topics, t)
	}
	c.reply(resp)
}
