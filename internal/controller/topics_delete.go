package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// topicRef names a topic to delete, by name or by id.
type topicRef struct {
	name  string
	id    kafka.TopicID
	byID  bool
	wrong failure
}

// deleteTopics answers DeleteTopics. A topic that is named twice, in whatever
// way, is refused and stays.
func (s *step) deleteTopics(req *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.Version = req.Version
	refs := topicRefs(req)
	for i := range refs {
		s.resolve(&refs[i])
	}
	// A name and an id may lead to the same topic; then the second is refused.
	seen := map[kafka.TopicID]bool{}
	twice := map[kafka.TopicID]bool{}
	for i := range refs {
		r := &refs[i]
		if r.wrong.failed() {
			continue
		}
		if seen[r.id] {
			twice[r.id] = true
			r.wrong = failure{kafka.ErrInvalidRequest, "The provided topic name maps to an ID that was already supplied."}
		}
		seen[r.id] = true
	}
	var records []record.Message
	for _, r := range refs {
		t := kmsg.NewDeleteTopicsResponseTopic()
		if r.name != "" || !r.byID {
			t.Topic = ptr(r.name)
		}
		t.TopicID = r.id
		if !r.wrong.failed() && twice[r.id] {
			continue // answered by the refusal
		}
		if r.wrong.failed() {
			t.ErrorCode, t.ErrorMessage = int16(r.wrong.code), r.wrong.text()
		} else {
			records = append(records, &record.RemoveTopic{TopicID: r.id})
		}
		resp.Topics = append(resp.Topics, t)
	}
	if len(records) > MaxRecordsPerOperation {
		for i := range resp.Topics {
			resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = int16(tooManyRecords.code), tooManyRecords.text()
		}
		return resp
	}
	s.write(records...)
	return resp
}

// topicRefs reads what the request names, each topic once.
func topicRefs(req *kmsg.DeleteTopicsRequest) []topicRef {
	var refs []topicRef
	names, ids := map[string]int{}, map[kafka.TopicID]int{}
	add := func(r topicRef) {
		refs = append(refs, r)
	}
	name := func(n string) {
		if at, ok := names[n]; ok {
			refs[at].wrong = failure{kafka.ErrInvalidRequest, "Duplicate topic name."}
			return
		}
		names[n] = len(refs)
		add(topicRef{name: n})
	}
	for _, n := range req.TopicNames {
		name(n)
	}
	for _, t := range req.Topics {
		id := kafka.TopicID(t.TopicID)
		switch {
		case t.Topic == nil && id.IsZero():
			add(topicRef{byID: true, wrong: failure{kafka.ErrInvalidRequest, "Neither topic name nor id were specified."}})
		case t.Topic != nil && !id.IsZero():
			add(topicRef{name: *t.Topic, id: id, wrong: failure{kafka.ErrInvalidRequest, "You may not specify both topic name and topic id."}})
		case t.Topic != nil:
			name(*t.Topic)
		default:
			if at, ok := ids[id]; ok {
				refs[at].wrong = failure{kafka.ErrInvalidRequest, "Duplicate topic id."}
				continue
			}
			ids[id] = len(refs)
			add(topicRef{id: id, byID: true})
		}
	}
	return refs
}

// resolve finds the topic at the tip.
func (s *step) resolve(r *topicRef) {
	if r.wrong.failed() {
		return
	}
	if r.byID {
		t := s.tip.TopicByID(r.id)
		if !t.Exists() {
			r.wrong = failure{kafka.ErrUnknownTopicID, "This server does not host this topic ID."}
		}
		r.name = t.Name()
		return
	}
	t := s.tip.TopicByName(r.name)
	if !t.Exists() {
		r.wrong = failure{kafka.ErrUnknownTopicOrPartition, "This server does not host this topic-partition."}
	}
	r.id = t.ID()
}
