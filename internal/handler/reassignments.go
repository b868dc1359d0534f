package handler

// ListPartitionReassignments: the partitions whose replicas are moving, as the
// metadata has them.

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

func (h *Handler) listReassignments(c *call) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	add := func(t metadata.Topic, wanted func(metadata.Partition) bool) {
		m := kmsg.NewListPartitionReassignmentsResponseTopic()
		m.Topic = t.Name()
		t.Each(func(p metadata.Partition) bool {
			if p.Reassigning() && wanted(p) {
				m.Partitions = append(m.Partitions, reassignment(p))
			}
			return true
		})
		if len(m.Partitions) > 0 {
			resp.Topics = append(resp.Topics, m)
		}
	}
	if req.Topics == nil {
		img.EachTopic(func(t metadata.Topic) bool { add(t, func(metadata.Partition) bool { return true }); return true })
	}
	wanted := map[kafka.TopicPartition]bool{}
	for _, q := range req.Topics {
		for _, n := range q.Partitions {
			wanted[kafka.TopicPartition{Topic: q.Topic, Partition: kafka.PartitionID(n)}] = true
		}
	}
	done := map[string]bool{}
	for _, q := range req.Topics {
		if t := img.TopicByName(q.Topic); t.Exists() && !done[q.Topic] {
			done[q.Topic] = true
			add(t, func(p metadata.Partition) bool { return wanted[kafka.TopicPartition{Topic: q.Topic, Partition: p.ID}] })
		}
	}
	c.reply(resp)
}

func reassignment(p metadata.Partition) kmsg.ListPartitionReassignmentsResponseTopicPartition {
	m := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	m.Partition = int32(p.ID)
	for _, list := range []struct {
		from []kafka.NodeID
		to   *[]int32
	}{{p.Replicas, &m.Replicas}, {p.Adding, &m.AddingReplicas}, {p.Removing, &m.RemovingReplicas}} {
		for _, id := range list.from {
			*list.to = append(*list.to, int32(id))
		}
	}
	return m
}
