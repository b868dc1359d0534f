package handler

// DescribeTopicPartitions (KIP-966): topics in order of name, in pages.

import (
	"sort"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

func (h *Handler) describeTopicPartitions(c *call) {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	if !c.decode(req) {
		return
	}
	p := topicPager{
		topicLister: topicLister{img: h.opts.Image(), listener: c.Peer.Listener},
		room:        min(int(req.ResponsePartitionLimit), h.opts.PartitionsPerDescribe),
		resp:        kmsg.NewPtrDescribeTopicPartitionsResponse(),
	}
	if req.Cursor != nil {
		if req.Cursor.Partition < 0 || len(req.Topics) > 0 && !asked(req.Topics, req.Cursor.Topic) {
			refusePages(c, req)
			return
		}
		p.fromTopic, p.fromPartition = req.Cursor.Topic, kafka.PartitionID(req.Cursor.Partition)
	}
	if p.room < 1 {
		p.room = 1
	}
	if len(req.Topics) == 0 {
		p.img.EachTopicFrom(p.fromTopic, func(t metadata.Topic) bool { return p.topic(t) })
	} else {
		p.named(req.Topics)
	}
	c.reply(p.resp)
}

func asked(topics []kmsg.DescribeTopicPartitionsRequestTopic, name string) bool {
	for i := range topics {
		if topics[i].Topic == name {
			return true
		}
	}
	return false
}

// refusePages answers a cursor that cannot be one of an earlier answer.
func refusePages(c *call, req *kmsg.DescribeTopicPartitionsRequest) {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	for i := range req.Topics {
		r := kmsg.NewDescribeTopicPartitionsResponseTopic()
		r.Topic, r.ErrorCode, r.AuthorizedOperations = &req.Topics[i].Topic, int16(kafka.ErrInvalidRequest), noOperations
		resp.Topics = append(resp.Topics, r)
	}
	c.reply(resp)
}

type topicPager struct {
	topicLister
	fromTopic     string
	fromPartition kafka.PartitionID
	room          int // partitions that still fit
	resp          *kmsg.DescribeTopicPartitionsResponse
}

func (p *topicPager) named(topics []kmsg.DescribeTopicPartitionsRequestTopic) {
	names := make([]string, 0, len(topics))
	for _, t := range topics {
		if t.Topic >= p.fromTopic {
			names = append(names, t.Topic)
		}
	}
	sort.Strings(names)
	for i, name := range names {
		if i > 0 && names[i-1] == name {
			continue
		}
		t := p.img.TopicByName(name)
		if !t.Exists() {
			if p.room == 0 {
				p.resp.NextCursor = cursor(name, 0)
				return
			}
			p.missing(name)
			continue
		}
		if !p.topic(t) {
			return
		}
	}
}

func (p *topicPager) missing(name string) {
	r := kmsg.NewDescribeTopicPartitionsResponseTopic()
	r.Topic, r.ErrorCode = &name, int16(kafka.ErrUnknownTopicOrPartition)
	if controller.CheckTopicName(name) != "" {
		r.ErrorCode = int16(kafka.ErrInvalidTopicException)
	}
	r.Partitions = []kmsg.DescribeTopicPartitionsResponseTopicPartition{}
	r.AuthorizedOperations = topicOperations
	p.resp.Topics = append(p.resp.Topics, r)
}

// topic adds what fits of a topic; it reports false when the page is full, and
// sets the cursor for the next.
func (p *topicPager) topic(t metadata.Topic) bool {
	name := t.Name()
	first := kafka.PartitionID(0)
	if name == p.fromTopic {
		first = p.fromPartition
	}
	if p.room == 0 {
		p.resp.NextCursor = cursor(name, first)
		return false
	}
	r := kmsg.NewDescribeTopicPartitionsResponseTopic()
	r.Topic, r.TopicID, r.IsInternal = &name, t.ID(), kafka.IsInternalTopic(name)
	r.AuthorizedOperations = topicOperations
	r.Partitions = []kmsg.DescribeTopicPartitionsResponseTopicPartition{}
	more := true
	t.Each(func(mp metadata.Partition) bool {
		if mp.ID < first {
			return true
		}
		if p.room == 0 {
			p.resp.NextCursor = cursor(name, mp.ID)
			more = false
			return false
		}
		p.room--
		r.Partitions = append(r.Partitions, p.partition(&mp))
		return true
	})
	p.resp.Topics = append(p.resp.Topics, r)
	return more
}

func (p *topicPager) partition(mp *metadata.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	m := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	_, leader := p.leader(mp) // that there is none is no error here
	m.Partition, m.LeaderID, m.LeaderEpoch = int32(mp.ID), int32(leader), int32(mp.LeaderEpoch)
	m.Replicas, m.ISR, m.OfflineReplicas = nodes(mp.Replicas), nodes(mp.ISR), p.offline(mp)
	m.EligibleLeaderReplicas, m.LastKnownELR = nodes(mp.ELR), nodes(mp.LastKnownELR)
	return m
}

func cursor(topic string, n kafka.PartitionID) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, int32(n)
	return &c
}
