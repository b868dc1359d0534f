package wire

import (
	"fmt"

	"moldau/internal/kafka"
)

// Versions of Produce. Versions below 3 are listed by ApiVersions, since
// librdkafka derives compression support from them, but not accepted (HC-139).
const (
	ProduceMin      = 3
	ProduceMax      = 13
	produceFlexible = 9
	produceTopicIDs = 13
)

// ProduceRequest is a Produce request. Its memory is reused by Decode.
type ProduceRequest struct {
	TransactionalID []byte // nil if null
	Acks            int16
	TimeoutMs       int32
	Topics          []ProduceTopic
	Partitions      []ProducePartition // of all topics, in order
}

// ProduceTopic names a topic, by name up to version 12 and by id from 13 on.
type ProduceTopic struct {
	Name []byte
	ID   kafka.TopicID
	// Partitions are Partitions[First:End] of the request.
	First, End int
}

// ProducePartition is what goes to one partition; Records are bytes of the
// frame, nil if null.
type ProducePartition struct {
	Index   kafka.PartitionID
	Records []byte
}

// No batch is shorter than its header; requests that name many more partitions
// than they have bytes for would only cost memory.
const (
	freePartitions    = 1000
	bytesPerPartition = 61
)

// Decode reads the body of a version in [ProduceMin, ProduceMax].
func (q *ProduceRequest) Decode(body []byte, version int16) error {
	flexible := version >= produceFlexible
	r := NewReader(body)
	*q = ProduceRequest{Topics: q.Topics[:0], Partitions: q.Partitions[:0]}
	q.TransactionalID = r.NullableString(flexible)
	q.Acks = r.Int16()
	q.TimeoutMs = r.Int32()
	for n := r.ArrayLen(flexible, 4); n > 0 && r.Err() == nil; n-- {
		var t ProduceTopic
		if version >= produceTopicIDs {
			t.ID = r.TopicID()
		} else {
			t.Name = r.String(flexible)
		}
		t.First = len(q.Partitions)
		for m := r.ArrayLen(flexible, 5); m > 0 && r.Err() == nil; m-- {
			p := ProducePartition{Index: kafka.PartitionID(r.Int32()), Records: r.NullableBytes(flexible)}
			if flexible {
				r.SkipTags()
			}
			if len(q.Partitions) > freePartitions+len(body)/bytesPerPartition {
				return fmt.Errorf("%w: more partitions than %d bytes can hold batches for", ErrMalformed, len(body))
			}
			q.Partitions = append(q.Partitions, p)
		}
		t.End = len(q.Partitions)
		if flexible {
			r.SkipTags()
		}
		q.Topics = append(q.Topics, t)
	}
	if flexible {
		r.SkipTags()
	}
	return r.Err()
}

// ProduceResult is the answer for one partition, in the order of the request.
// Fields keep Kafka's values for "none": −1, or empty.
type ProduceResult struct {
	Code          kafka.ErrorCode
	BaseOffset    kafka.Offset
	AppendTimeMs  kafka.WallMs
	LogStart      kafka.Offset
	Message       string
	RecordErrors  []RecordError
	CurrentLeader kafka.NodeID // with LeaderEpoch, when Code says who leads now
	LeaderEpoch   kafka.Epoch
}

// RecordError is one record at fault.
type RecordError struct {
	Index   int32
	Message string
}

// NodeEndpoint is where a leader named by a response can be reached (KIP-951).
type NodeEndpoint struct {
	ID   kafka.NodeID
	Host string
	Port int32
	Rack string
}

// EncodeProduce appends the body of the answer to q with one result for each
// of q.Partitions.
func (resp *Response) EncodeProduce(version int16, q *ProduceRequest, results []ProduceResult, nodes []NodeEndpoint) {
	flexible := version >= produceFlexible
	resp.ArrayLen(len(q.Topics), flexible)
	for _, t := range q.Topics {
		if version >= produceTopicIDs {
			resp.TopicID(t.ID)
		} else {
			resp.topicName(t.Name, flexible)
		}
		resp.ArrayLen(t.End-t.First, flexible)
		for i := t.First; i < t.End; i++ {
			resp.produceResult(version, q.Partitions[i].Index, &results[i])
		}
		resp.NoTags(flexible)
	}
	resp.Int32(0) // throttle time
	if flexible {
		resp.nodeEndpoints(version >= 10, 0, nodes)
	}
}

func (resp *Response) topicName(name []byte, compact bool) {
	if compact {
		resp.Uvarint(uint32(len(name)) + 1)
	} else {
		resp.Int16(int16(len(name)))
	}
	resp.Buf = append(resp.Buf, name...)
}

func (resp *Response) produceResult(version int16, index kafka.PartitionID, p *ProduceResult) {
	flexible := version >= produceFlexible
	resp.Int32(int32(index))
	resp.Int16(int16(p.Code))
	resp.Int64(int64(p.BaseOffset))
	resp.Int64(int64(p.AppendTimeMs))
	if version >= 5 {
		resp.Int64(int64(p.LogStart))
	}
	if version >= 8 {
		resp.ArrayLen(len(p.RecordErrors), flexible)
		for _, e := range p.RecordErrors {
			resp.Int32(e.Index)
			resp.NullableString(e.Message, flexible)
			resp.NoTags(flexible)
		}
		resp.NullableString(p.Message, flexible)
	}
	if !flexible {
		return
	}
	if version >= 10 && p.CurrentLeader >= 0 {
		resp.Buf = append(resp.Buf, 1, 0, 9) // one tag: number 0, nine bytes
		resp.Int32(int32(p.CurrentLeader))
		resp.Int32(int32(p.LeaderEpoch))
	}
	resp.Buf = append(resp.Buf, 0)
}

// nodeEndpoints appends the section of tags that ends a response, holding the
// nodes as field tag if there are any and the version has the field.
func (resp *Response) nodeEndpoints(known bool, tag uint32, nodes []NodeEndpoint) {
	if !known || len(nodes) == 0 {
		resp.Buf = append(resp.Buf, 0)
		return
	}
	var field Response
	field.ArrayLen(len(nodes), true)
	for _, n := range nodes {
		field.Int32(int32(n.ID))
		field.String(n.Host, true)
		field.Int32(n.Port)
		field.NullableString(n.Rack, true)
		field.NoTags(true)
	}
	resp.Uvarint(1)
	resp.Uvarint(tag)
	resp.Uvarint(uint32(len(field.Buf)))
	resp.Buf = append(resp.Buf, field.Buf...)
}
