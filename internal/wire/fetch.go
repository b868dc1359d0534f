package wire

import "moldau/internal/kafka"

// Versions of Fetch.
const (
	FetchMin      = 4
	FetchMax      = 18
	fetchFlexible = 12
	fetchTopicIDs = 13
)

// FetchRequest is a Fetch request. Its memory is reused by Decode.
type FetchRequest struct {
	ReplicaID      kafka.NodeID // −1: a consumer
	ReplicaEpoch   kafka.BrokerEpoch
	ClusterID      []byte // nil if absent
	MaxWaitMs      int32
	MinBytes       int32
	MaxBytes       int32
	ReadCommitted  bool
	SessionID      int32
	SessionEpoch   int32
	Topics         []FetchTopic
	Partitions     []FetchPartition // of all topics, in order
	Forgotten      []FetchTopic     // First, End count in ForgottenParts
	ForgottenParts []kafka.PartitionID
	RackID         []byte
}

// FetchTopic names a topic, by name up to version 12 and by id from 13 on.
type FetchTopic struct {
	Name       []byte
	ID         kafka.TopicID
	First, End int
}

// FetchPartition asks for the records of one partition.
type FetchPartition struct {
	Index              kafka.PartitionID
	CurrentLeaderEpoch kafka.Epoch // −1 if the client does not know
	Offset             kafka.Offset
	LastFetchedEpoch   kafka.Epoch  // followers only
	LogStart           kafka.Offset // followers only
	MaxBytes           int32
	DirectoryID        kafka.DirectoryID // followers only
}

// Decode reads the body of a version in [FetchMin, FetchMax].
func (q *FetchRequest) Decode(body []byte, version int16) error {
	flexible := version >= fetchFlexible
	r := NewReader(body)
	*q = FetchRequest{
		Topics: q.Topics[:0], Partitions: q.Partitions[:0],
		Forgotten: q.Forgotten[:0], ForgottenParts: q.ForgottenParts[:0],
		ReplicaID: kafka.NoNode, ReplicaEpoch: kafka.NoBrokerEpoch, SessionEpoch: -1,
	}
	if version <= 14 {
		q.ReplicaID = kafka.NodeID(r.Int32())
	}
	q.MaxWaitMs, q.MinBytes, q.MaxBytes = r.Int32(), r.Int32(), r.Int32()
	q.ReadCommitted = r.Int8() == 1
	if version >= 7 {
		q.SessionID, q.SessionEpoch = r.Int32(), r.Int32()
	}
	for n := r.ArrayLen(flexible, 4); n > 0 && r.Err() == nil; n-- {
		t := r.fetchTopic(version)
		t.First = len(q.Partitions)
		for m := r.ArrayLen(flexible, 16); m > 0 && r.Err() == nil; m-- {
			q.Partitions = append(q.Partitions, r.fetchPartition(version))
		}
		t.End = len(q.Partitions)
		if flexible {
			r.SkipTags()
		}
		q.Topics = append(q.Topics, t)
	}
	if version >= 7 {
		q.decodeForgotten(&r, version)
	}
	if version >= 11 {
		q.RackID = r.String(flexible)
	}
	if flexible {
		r.Tags(q.tag)
	}
	return r.Err()
}

func (q *FetchRequest) tag(tag uint32, f *Reader) {
	switch tag {
	case 0:
		q.ClusterID = f.NullableString(true)
	case 1:
		q.ReplicaID = kafka.NodeID(f.Int32())
		q.ReplicaEpoch = kafka.BrokerEpoch(f.Int64())
	}
}

func (r *Reader) fetchTopic(version int16) (t FetchTopic) {
	if version >= fetchTopicIDs {
		t.ID = r.TopicID()
	} else {
		t.Name = r.String(version >= fetchFlexible)
	}
	return t
}

func (r *Reader) fetchPartition(version int16) FetchPartition {
	p := FetchPartition{Index: kafka.PartitionID(r.Int32()), CurrentLeaderEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch, LogStart: kafka.NoOffset}
	if version >= 9 {
		p.CurrentLeaderEpoch = kafka.Epoch(r.Int32())
	}
	p.Offset = kafka.Offset(r.Int64())
	if version >= 12 {
		p.LastFetchedEpoch = kafka.Epoch(r.Int32())
	}
	if version >= 5 {
		p.LogStart = kafka.Offset(r.Int64())
	}
	p.MaxBytes = r.Int32()
	if version >= fetchFlexible && !r.emptyTags() {
		var directory kafka.DirectoryID // a variable of its own: the closure moves it to the heap
		r.Tags(func(tag uint32, f *Reader) {
			if tag == 0 && version >= 17 {
				directory = kafka.DirectoryID(f.TopicID())
			}
		})
		p.DirectoryID = directory
	}
	return p
}

func (q *FetchRequest) decodeForgotten(r *Reader, version int16) {
	flexible := version >= fetchFlexible
	for n := r.ArrayLen(flexible, 4); n > 0 && r.Err() == nil; n-- {
		t := r.fetchTopic(version)
		t.First = len(q.ForgottenParts)
		for m := r.ArrayLen(flexible, 4); m > 0 && r.Err() == nil; m-- {
			q.ForgottenParts = append(q.ForgottenParts, kafka.PartitionID(r.Int32()))
		}
		t.End = len(q.ForgottenParts)
		if flexible {
			r.SkipTags()
		}
		q.Forgotten = append(q.Forgotten, t)
	}
}

// FetchResult is the answer for one partition.
type FetchResult struct {
	Index            kafka.PartitionID
	Code             kafka.ErrorCode
	HighWatermark    kafka.Offset
	LastStableOffset kafka.Offset
	LogStart         kafka.Offset
	Aborted          []AbortedTxn
	// HasAborted: the list, if empty, is sent as empty rather than null
	// (Kafka does so for read_committed).
	HasAborted    bool
	PreferredRead kafka.NodeID // −1: none
	// Diverging is set for followers whose log differs (KIP-595).
	Diverging     *kafka.OffsetAndEpoch
	CurrentLeader kafka.NodeID // ≥ 0 when Code says who leads now
	LeaderEpoch   kafka.Epoch
	// Records go out as they are; nil for none.
	Records FileRange
}

// AbortedTxn is a transaction whose records a reader must drop.
type AbortedTxn struct {
	ProducerID  kafka.ProducerID
	FirstOffset kafka.Offset
}

// FetchHead appends what precedes the topics of a Fetch answer.
func (resp *Response) FetchHead(version int16, code kafka.ErrorCode, sessionID int32, topics int) {
	resp.Int32(0) // throttle time
	if version >= 7 {
		resp.Int16(int16(code))
		resp.Int32(sessionID)
	}
	resp.ArrayLen(topics, version >= fetchFlexible)
}

// FetchTopic appends the head of a topic of a Fetch answer.
func (resp *Response) FetchTopic(version int16, name string, id kafka.TopicID, partitions int) {
	flexible := version >= fetchFlexible
	if version >= fetchTopicIDs {
		resp.TopicID(id)
	} else {
		resp.String(name, flexible)
	}
	resp.ArrayLen(partitions, flexible)
}

// FetchTopicEnd ends a topic.
func (resp *Response) FetchTopicEnd(version int16) { resp.NoTags(version >= fetchFlexible) }

// FetchTail ends a Fetch answer.
func (resp *Response) FetchTail(version int16, nodes []NodeEndpoint) {
	if version >= fetchFlexible {
		resp.nodeEndpoints(version >= 16, 0, nodes)
	}
}

// FetchPartition appends one partition of a Fetch answer. Records are never
// null, even beside an error (HC-110).
func (resp *Response) FetchPartition(version int16, p *FetchResult) {
	flexible := version >= fetchFlexible
	resp.Int32(int32(p.Index))
	resp.Int16(int16(p.Code))
	resp.Int64(int64(p.HighWatermark))
	resp.Int64(int64(p.LastStableOffset))
	if version >= 5 {
		resp.Int64(int64(p.LogStart))
	}
	if len(p.Aborted) == 0 && !p.HasAborted {
		if flexible {
			resp.Buf = append(resp.Buf, 0)
		} else {
			resp.Int32(-1)
		}
	} else {
		resp.ArrayLen(len(p.Aborted), flexible)
		for _, a := range p.Aborted {
			resp.Int64(int64(a.ProducerID))
			resp.Int64(int64(a.FirstOffset))
			resp.NoTags(flexible)
		}
	}
	if version >= 11 {
		resp.Int32(int32(p.PreferredRead))
	}
	if p.Records == nil {
		resp.BytesLen(0, flexible)
	} else {
		resp.BytesLen(p.Records.Len(), flexible)
		resp.File(p.Records)
	}
	if flexible {
		resp.fetchTags(p)
	}
}

func (resp *Response) fetchTags(p *FetchResult) {
	n := uint32(0)
	if p.Diverging != nil {
		n++
	}
	if p.CurrentLeader >= 0 {
		n++
	}
	resp.Uvarint(n)
	if p.Diverging != nil {
		resp.Buf = append(resp.Buf, 0, 13)
		resp.Int32(int32(p.Diverging.Epoch))
		resp.Int64(int64(p.Diverging.Offset))
		resp.Buf = append(resp.Buf, 0)
	}
	if p.CurrentLeader >= 0 {
		resp.Buf = append(resp.Buf, 1, 9)
		resp.Int32(int32(p.CurrentLeader))
		resp.Int32(int32(p.LeaderEpoch))
		resp.Buf = append(resp.Buf, 0)
	}
}
