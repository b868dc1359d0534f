package controller

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// Election types of ElectLeaders.
const (
	preferredElection = 0
	uncleanElection   = 1
)

// electLeaders answers ElectLeaders: for the partitions named, or for all when
// none is; then those that need no election are left out of the answer.
func (s *step) electLeaders(req *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	resp := kmsg.NewPtrElectLeadersResponse()
	resp.Version = req.Version
	if req.ElectionType != preferredElection && req.ElectionType != uncleanElection {
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
		return resp
	}
	var records []record.Message
	elect := func(out *kmsg.ElectLeadersResponseTopic, id kafka.PartitionID, all bool) {
		m, f := s.electLeader(out.Topic, id, req.ElectionType)
		if f.code == kafka.ErrElectionNotNeeded && all {
			return
		}
		if m != nil {
			records = append(records, m)
		}
		result := kmsg.NewElectLeadersResponseTopicPartition()
		result.Partition, result.ErrorCode, result.ErrorMessage = int32(id), int16(f.code), f.text()
		out.Partitions = append(out.Partitions, result)
	}
	if req.Topics == nil {
		s.tip.EachTopic(func(t metadata.Topic) bool {
			out := kmsg.NewElectLeadersResponseTopic()
			out.Topic = t.Name()
			t.Each(func(p metadata.Partition) bool { elect(&out, p.ID, true); return true })
			if len(out.Partitions) > 0 {
				resp.Topics = append(resp.Topics, out)
			}
			return len(records) <= MaxRecordsPerOperation
		})
	}
	seen := map[kafka.TopicPartition]bool{}
	for _, t := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		for _, id := range t.Partitions {
			key := kafka.TopicPartition{Topic: t.Topic, Partition: kafka.PartitionID(id)}
			if !seen[key] {
				seen[key] = true
				elect(&out, key.Partition, false)
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(records) > MaxRecordsPerOperation {
		resp.ErrorCode, resp.Topics = int16(tooManyRecords.code), nil
		return resp
	}
	s.write(records...)
	return resp
}

func (s *step) electLeader(topic string, id kafka.PartitionID, kind int8) (record.Message, failure) {
	t := s.tip.TopicByName(topic)
	if !t.Exists() {
		return nil, failure{kafka.ErrUnknownTopicOrPartition, "No such topic as " + topic}
	}
	p, ok := t.Partition(id)
	switch {
	case !ok:
		return nil, failure{kafka.ErrUnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", topic, id)}
	case kind == preferredElection && p.Leader == p.Preferred(), kind == uncleanElection && p.Leader != kafka.NoNode:
		return nil, failure{kafka.ErrElectionNotNeeded, "Leader election not needed for topic partition."}
	}
	c := s.newChange(t, p, func(n kafka.NodeID) bool {
		b := s.tip.Broker(n)
		return b != nil && b.Active()
	})
	if c.election = electPreferred; kind == uncleanElection {
		c.election = electUnclean
	}
	if m := c.build(); m != nil {
		return m, failure{}
	}
	if kind == preferredElection {
		return nil, failure{kafka.ErrPreferredLeaderNotAvailable, "The preferred leader was not available."}
	}
	return nil, failure{kafka.ErrEligibleLeadersNotAvailable, "Eligible topic partition leaders are not available."}
}
