package handler

// OffsetFetch. v2: null topics are all, error of the whole; v7: require stable;
// v8: several groups; v9: members of newer protocols; v10: topic ids.

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Versions of OffsetFetch with other rules.
const (
	fetchGroupsSince   = 8
	fetchTopErrorSince = 2
)

func (h *Handler) offsetFetch(c *call) {
	req := kmsg.NewPtrOffsetFetchRequest()
	if !c.decode(req) {
		return
	}
	groups := req.Groups
	if c.Version < fetchGroupsSince {
		groups = []kmsg.OffsetFetchRequestGroup{oneGroup(req)}
	}
	if err := checkFetched(groups); err != nil {
		c.Drop(err)
		return
	}
	img, version := h.opts.Image(), c.Version
	answers := make([]kmsg.OffsetFetchResponseGroup, len(groups))
	q := h.inquire(c, func() kmsg.Response { return offsetsOf(answers, version) })
	q.parts = len(groups)
	for i := range groups {
		g, answer := &groups[i], &answers[i]
		var unknown []kmsg.OffsetFetchResponseGroupTopic
		if version >= topicIDsSince {
			unknown = nameTopics(img, g)
		}
		q.put(h.coordinatorOf(g.Group), &group.FetchOffsets{Group: *g, RequireStable: req.RequireStable}, func(body any, code kafka.ErrorCode) {
			if code != 0 {
				*answer = failedFetch(g, fetchRefusal(code), version)
				return
			}
			*answer = *body.(*kmsg.OffsetFetchResponseGroup)
			if answer.ErrorCode != 0 {
				*answer = failedFetch(g, kafka.ErrorCode(answer.ErrorCode), version)
				return
			}
			if version >= topicIDsSince && g.Topics == nil {
				answer.Topics = withIDs(img, answer.Topics)
			}
			answer.Topics = append(answer.Topics, unknown...)
		})
	}
	q.done()
}

// oneGroup is the request of an old version in the form of the new ones.
func oneGroup(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics == nil {
		return g
	}
	g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
	for i, t := range req.Topics {
		g.Topics[i].Topic, g.Topics[i].Partitions = t.Topic, t.Partitions
	}
	return g
}

// nameTopics gives the topics that come by their ids their names, takes out
// those that do not exist, and answers for them.
func nameTopics(img *metadata.Image, g *kmsg.OffsetFetchRequestGroup) (unknown []kmsg.OffsetFetchResponseGroupTopic) {
	if g.Topics == nil {
		return nil
	}
	known := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(g.Topics))
	for _, t := range g.Topics {
		if topic := img.TopicByID(t.TopicID); topic.Exists() {
			t.Topic = topic.Name()
			known = append(known, t)
			continue
		}
		unknown = append(unknown, failedTopic(&t, kafka.ErrUnknownTopicID))
	}
	g.Topics = known
	return unknown
}

func failedTopic(t *kmsg.OffsetFetchRequestGroupTopic, code kafka.ErrorCode) kmsg.OffsetFetchResponseGroupTopic {
	r := kmsg.NewOffsetFetchResponseGroupTopic()
	r.Topic, r.TopicID = t.Topic, t.TopicID
	none := ""
	for _, p := range t.Partitions {
		rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p, -1, -1, &none, int16(code)
		r.Partitions = append(r.Partitions, rp)
	}
	return r
}

// withIDs gives topics that come from the log their ids, and leaves out those
// that have none: they could not be named in the answer.
func withIDs(img *metadata.Image, topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	out := topics[:0]
	for _, t := range topics {
		if t.TopicID == (kafka.TopicID{}) {
			t.TopicID = img.TopicByName(t.Topic).ID()
		}
		if t.TopicID != (kafka.TopicID{}) {
			out = append(out, t)
		}
	}
	return out
}

// fetchRefusal is what a client is told whose group's coordinator could not
// answer: consumers older than 3.9 do not know how to go on after some of the
// other codes (GroupCoordinatorService.handleOffsetFetchException, HC-104).
func fetchRefusal(code kafka.ErrorCode) kafka.ErrorCode {
	switch code {
	case kafka.ErrUnknownTopicOrPartition, kafka.ErrNotEnoughReplicas, kafka.ErrRequestTimedOut:
		return kafka.ErrNotCoordinator
	}
	return refusalCode(code)
}

// failedFetch puts an error where the version has a place for it.
func failedFetch(g *kmsg.OffsetFetchRequestGroup, code kafka.ErrorCode, version int16) kmsg.OffsetFetchResponseGroup {
	r := kmsg.NewOffsetFetchResponseGroup()
	r.Group = g.Group
	if version >= fetchTopErrorSince {
		r.ErrorCode = int16(code)
		return r
	}
	for i := range g.Topics {
		r.Topics = append(r.Topics, failedTopic(&g.Topics[i], code))
	}
	return r
}

// offsetsOf puts the answers of the groups into the form of the version.
func offsetsOf(groups []kmsg.OffsetFetchResponseGroup, version int16) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if version >= fetchGroupsSince {
		resp.Groups = groups
		return resp
	}
	resp.ErrorCode = groups[0].ErrorCode
	for _, t := range groups[0].Topics {
		r := kmsg.NewOffsetFetchResponseTopic()
		r.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			r.Partitions = append(r.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}
