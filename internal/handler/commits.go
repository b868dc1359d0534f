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
	refused := commitResults{resp: kmsg.NewPtrOffsetCommitResponse()}
	valid := req.Topics[:0:0]
	for _, t := range req.Topics {
		good, bad, code := existing(img, &t, c.Version)
		if len(bad) > 0 {
			refused.add(t.Topic, t.TopicID, committed(bad, code))
		}
		if len(good) > 0 {
			t.Partitions = good
			valid = append(valid, t)
		}
	}
	if len(valid) == 0 {
		c.reply(refused.resp)
		return
	}
	req.Topics = valid
	refuse := func(code kafka.ErrorCode) kmsg.Response {
		all := commitResults{resp: kmsg.NewPtrOffsetCommitResponse()}
		for _, t := range req.Topics {
			all.add(t.Topic, t.TopicID, committed(t.Partitions, code))
		}
		return all.resp
	}
	h.askFor(c, req.Group, req, refuse, func(r kmsg.Response) kmsg.Response {
		if len(refused.resp.Topics) == 0 {
			return r
		}
		for _, t := range r.(*kmsg.OffsetCommitResponse).Topics {
			refused.add(t.Topic, t.TopicID, t.Partitions)
		}
		return refused.resp
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

// commitResults collects the answer to an OffsetCommit.
type commitResults struct {
	resp *kmsg.OffsetCommitResponse
	at   map[topicRef]int // in resp.Topics
}

// topicRef is how a request names a topic.
type topicRef struct {
	name string
	id   kafka.TopicID
}

// add adds results to those of the same topic, if there are some.
func (r *commitResults) add(name string, id kafka.TopicID, partitions []kmsg.OffsetCommitResponseTopicPartition) {
	ref := topicRef{name, id}
	i, ok := r.at[ref]
	if !ok {
		if r.at == nil {
			r.at = map[topicRef]int{}
		}
		i = len(r.resp.Topics)
		r.at[ref] = i
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = name, id
		r.resp.Topics = append(r.resp.Topics, t)
	}
	t := &r.resp.Topics[i]
	t.Partitions = append(t.Partitions, partitions...)
}

func (h *Handler) offsetDelete(c *call) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	refused := deleteResults{resp: kmsg.NewPtrOffsetDeleteResponse(), at: map[string]int{}}
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
			refused.add(t.Topic, bad)
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
		if result.ErrorCode != 0 || len(refused.resp.Topics) == 0 {
			return result
		}
		for _, t := range result.Topics {
			refused.add(t.Topic, t.Partitions)
		}
		return refused.resp
	})
}

// deleteResults collects the answer to an OffsetDelete.
type deleteResults struct {
	resp *kmsg.OffsetDeleteResponse
	at   map[string]int // in resp.Topics
}

// add adds results to those of the same topic, if there are some.
func (r *deleteResults) add(name string, partitions []kmsg.OffsetDeleteResponseTopicPartition) {
	i, ok := r.at[name]
	if !ok {
		i = len(r.resp.Topics)
		r.at[name] = i
		t := kmsg.NewOffsetDeleteResponseTopic()
		t.Topic = name
		r.resp.Topics = append(r.resp.Topics, t)
	}
	t := &r.resp.Topics[i]
	t.Partitions = append(t.Partitions, partitions...)
}
