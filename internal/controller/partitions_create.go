package controller

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// createPartitions answers CreatePartitions.
func (s *step) createPartitions(req *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	resp.Version = req.Version
	count := map[string]int{}
	for _, t := range req.Topics {
		count[t.Topic]++
	}
	var records []record.Message
	tooMany := false
	for i := range req.Topics {
		t := &req.Topics[i]
		var ms []record.Message
		var f failure
		switch {
		case count[t.Topic] == 0:
			continue
		case count[t.Topic] > 1:
			f = failure{kafka.ErrInvalidRequest, "Duplicate topic name."}
			count[t.Topic] = 0
		default:
			ms, f = s.morePartitions(t, MaxRecordsPerOperation-len(records))
		}
		tooMany = tooMany || f == tooManyRecords
		records = append(records, ms...)
		result := kmsg.NewCreatePartitionsResponseTopic()
		result.Topic, result.ErrorCode, result.ErrorMessage = t.Topic, int16(f.code), f.text()
		resp.Topics = append(resp.Topics, result)
	}
	if tooMany {
		for i := range resp.Topics {
			resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = int16(tooManyRecords.code), tooManyRecords.text()
		}
		return resp
	}
	if !req.ValidateOnly {
		s.write(records...)
	}
	return resp
}

// morePartitions makes the records of one topic, at most room of them.
func (s *step) morePartitions(req *kmsg.CreatePartitionsRequestTopic, room int) ([]record.Message, failure) {
	t := s.tip.TopicByName(req.Topic)
	if !t.Exists() {
		return nil, failure{kafka.ErrUnknownTopicOrPartition, "This server does not host this topic-partition."}
	}
	have := t.NumPartitions()
	more := int(req.Count) - have
	switch {
	case more == 0:
		return nil, failure{kafka.ErrInvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", have)}
	case more < 0:
		return nil, failure{kafka.ErrInvalidPartitions, fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.", req.Topic, have, req.Count)}
	case req.Assignment != nil && len(req.Assignment) != more:
		return nil, failure{kafka.ErrInvalidReplicaAssignment, fmt.Sprintf("Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(req.Assignment))}
	case more > room:
		return nil, tooManyRecords
	case int64(req.Count) > int64(metadata.MaxPartitionID)+1:
		return nil, failure{kafka.ErrInvalidPartitions, fmt.Sprintf("A topic can have at most %d partitions.", metadata.MaxPartitionID+1)}
	}
	first, _ := t.Partition(0)
	factor := len(first.Replicas)
	var parts [][]kafka.NodeID
	var f failure
	if req.Assignment == nil {
		if parts, f = s.placed(more, factor); f.failed() {
			return nil, f
		}
	}
	for i, a := range req.Assignment {
		replicas, f := s.checkAssignment(a.Replicas, factor, have+i)
		if f.failed() {
			return nil, f
		}
		parts = append(parts, replicas)
	}
	var out []record.Message
	for i, replicas := range parts {
		out = append(out, s.partitionRecord(t.ID(), kafka.PartitionID(have+i), replicas))
	}
	return out, failure{}
}
