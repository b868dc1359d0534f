package handler

// Commits: OffsetCommit (v5: no retention; v6: leader epoch; v10: topic ids) and
// OffsetDelete.

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// topicIDsSince is the version of OffsetCommit and OffsetFetch that names topics
// by id.
const topicIDsSince = 10

func (h *Handler) offsetCommit(c *call) {
	req := kmsg.NewPtrOffsetCommitRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrOffsetCommitResponse()
	valid := req.Topics[:0:0]
	for _, t := range req.Topics {
		good, bad, code := existing(img, &t, c.Version)
		if len(bad) > 0 {
			addCommitted(resp, t.Topic, t.TopicID, committed(bad, code))
		}
		if len(good) > 0 {
			t.Partitions = good
			valid = append(valid, t)
		}
	}
	if len(valid) == 0 {
		c.reply(resp)
		return
	}
	req.Topics = valid
	refuse := func(code kafka.ErrorCode) kmsg.Response {
		all := kmsg.NewPtrOffsetCommitResponse()
		for _, t := range req.Topics {
			addCommitted(all, t.Topic, t.TopicID, committed(t.Partitions, code))
		}
		return all
	}
	h.askFor(c, req.Group, req, refuse, func(r kmsg.Response) kmsg.Response {
		if len(resp.Topics) == 0 {
			return r
		}
		for _, t := range r.(*kmsg.OffsetCommitResponse).Topics {
			addCommitted(resp, t.Topic, t.TopicID, t.Partitions)
		}
		return resp
	})
}

// existing sorts the partitions of a topic into those that exist, and others,
// whose code it gives. It sets the name of a topic that comes by its id.
func existing(img *metadata.Image, t *kmsg.OffsetCommitRequestTopic, version int16) (good, bad []kmsg.OffsetCommitRequestTopicPartition, code kafka.ErrorCode) {
	var topic metadata.Topic
	if version >= topicIDsSince {
		if topic = img.TopicByID(t.TopicID); !topic.Exists() {
			return nil, t.Partitions, kafka.ErrUnknownTopicID
		}
		t.Topic = topic.Name()
	} else if topic = img.TopicByName(t.Topic); !topic.Exists() {
		return nil, t.Partitions, kafka.ErrUnknownTopicOrPartition
	}
	for _, p := range t.Partitions {
		if hasPartition(topic, p.Partition) {
			good = append(good, p)
		} else {
			bad = append(bad, p)
		}
	}
	return good, bad, kafka.ErrUnknownTopicOrPartition
}

func hasPartition(topic metadata.Topic, n int32) bool {
	_, _, ok := topic.Leader(kafka.PartitionID(n))
	return ok
}

func committed(partitions []kmsg.OffsetCommitRequestTopicPartition, code kafka.ErrorCode) []kmsg.OffsetCommitResponseTopicPartition {
	out := make([]kmsg.OffsetCommitResponseTopicPartition, len(partitions))
	for i := range partitions {
		out[i].Partition, out[i].ErrorCode = partitions[i].Partition, int16(code)
	}
	return out
}

// addCommitted adds results to those of the same topic, if there are some.
func addCommitted(resp *kmsg.OffsetCommitResponse, name string, id kafka.TopicID, partitions []kmsg.OffsetCommitResponseTopicPartition) {
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic == name && t.TopicID == id {
			t.Partitions = append(t.Partitions, partitions...)
			return
		}
	}
	t := kmsg.NewOffsetCommitResponseTopic()
	t.Topic, t.TopicID, t.Partitions = name, id, partitions
	resp.Topics = append(resp.Topics, t)
}

func (h *Handler) offsetDelete(c *call) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrOffsetDeleteResponse()
	valid := req.Topics[:0:0]
	for _, t := range req.Topics {
		topic := img.TopicByName(t.Topic)
		var good []kmsg.OffsetDeleteRequestTopicPartition
		var bad []kmsg.OffsetDeleteResponseTopicPartition
		for _, p := range t.Partitions {
			if hasPartition(topic, p.Partition) {
				good = append(good, p)
			} else {
				bad = append(bad, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(kafka.ErrUnknownTopicOrPartition)})
			}
		}
		if len(bad) > 0 {
			addDeleted(resp, t.Topic, bad)
		}
		if t.Partitions = good; len(good) > 0 {
			valid = append(valid, t)
		}
	}
	req.Topics = valid
	refuse := func(code kafka.ErrorCode) kmsg.Response {
		r := kmsg.NewPtrOffsetDeleteResponse()
		r.ErrorCode = int16(code)
		return r
	}
	h.askFor(c, req.Group, req, refuse, func(r kmsg.Response) kmsg.Response {
		result := r.(*kmsg.OffsetDeleteResponse)
		if result.ErrorCode != 0 || len(resp.Topics) == 0 {
			return result
		}
		for _, t := range result.Topics {
			addDeleted(resp, t.Topic, t.Partitions)
		}
		return resp
	})
}

func addDeleted(resp *kmsg.OffsetDeleteResponse, name string, partitions []kmsg.OffsetDeleteResponseTopicPartition) {
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic == name {
			t.Partitions = append(t.Partitions, partitions...)
			return
		}
	}
	t := kmsg.NewOffsetDeleteResponseTopic()
	t.Topic, t.Partitions = name, partitions
	resp.Topics = append(resp.Topics, t)
}
