package raftwire

// Fetch of the metadata log (v12 diverging epochs, v13 topic ids, v15 replica
// state, v17 directories, v18 high watermark) and FetchSnapshot (v1 directories).

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// Versions of Fetch in which something begins. kmsg writes tagged fields in any
// version, so that they are left out here where the version has none.
const (
	fetchTopicIDs    = 13
	fetchState       = 15
	fetchEndpoints   = 17 // KafkaRaftClient tells them from here on, though v16 has the field
	fetchDirectories = 17
	fetchWatermark   = 18
)

func fetchRequest(b *raft.FetchRequest, version int16) kmsg.Request {
	m := kmsg.NewPtrFetchRequest()
	m.ClusterID = textOrNull(b.ClusterID)
	m.ReplicaID = int32(b.Replica.ID)
	if version >= fetchState {
		m.ReplicaState.ID = int32(b.Replica.ID)
	}
	m.MaxWaitMillis, m.MaxBytes, m.SessionEpoch = int32(b.MaxWait/time.Millisecond), int32(b.MaxBytes), -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = int32(b.CurrentLeaderEpoch), int64(b.FetchOffset), int32(b.LastFetchedEpoch)
	if version >= fetchDirectories {
		p.ReplicaDirectoryID = b.Replica.Dir
	}
	if version >= fetchWatermark {
		p.HighWatermark = int64(b.HighWatermark)
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = kafka.ClusterMetadataTopic, kafka.ClusterMetadataTopicID, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	return m
}

// isLog tells whether a topic of a Fetch is the metadata log: by name up to
// v12, by id afterwards.
func isLog(version int16, name string, id [16]byte) bool {
	if version < fetchTopicIDs {
		return name == kafka.ClusterMetadataTopic
	}
	return id == kafka.ClusterMetadataTopicID
}

func parseFetch(m *kmsg.FetchRequest) (raft.Body, kmsg.Response) {
	if len(m.Topics) != 1 || !isLog(m.Version, m.Topics[0].Topic, m.Topics[0].TopicID) ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		resp := kmsg.NewPtrFetchResponse()
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
		return nil, resp
	}
	p := &m.Topics[0].Partitions[0]
	id := m.ReplicaID
	if m.Version >= fetchState {
		id = m.ReplicaState.ID
	}
	b := &raft.FetchRequest{
		ClusterID: deref(m.ClusterID), Replica: keyOf(id, p.ReplicaDirectoryID),
		CurrentLeaderEpoch: kafka.Epoch(p.CurrentLeaderEpoch), FetchOffset: kafka.Offset(p.FetchOffset),
		LastFetchedEpoch: kafka.Epoch(p.LastFetchedEpoch), HighWatermark: kafka.Offset(p.HighWatermark),
		MaxWait: time.Duration(m.MaxWaitMillis) * time.Millisecond, MaxBytes: int(m.MaxBytes),
	}
	if m.Version < fetchWatermark {
		b.HighWatermark = raft.HighWatermarkUnsupported
	}
	return b, nil
}

func (c Codec) fetchResponse(b *raft.FetchResponse, version int16) kmsg.Response {
	m := kmsg.NewPtrFetchResponse()
	if m.ErrorCode = int16(b.TopError); m.ErrorCode != 0 {
		return m
	}
	p := kmsg.NewFetchResponseTopicPartition()
	p.ErrorCode, p.HighWatermark, p.LogStartOffset = int16(b.Error), int64(b.HighWatermark), int64(b.LogStart)
	p.AbortedTransactions, p.RecordBatches = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}, b.Records
	if p.RecordBatches == nil {
		p.RecordBatches = []byte{}
	}
	p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = int32(b.Diverging.Epoch), int64(b.Diverging.Offset)
	p.SnapshotID.Epoch, p.SnapshotID.EndOffset = int32(b.SnapshotID.Epoch), int64(b.SnapshotID.Offset)
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(b.LeaderID), int32(b.LeaderEpoch)
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.TopicID, t.Partitions = kafka.ClusterMetadataTopic, kafka.ClusterMetadataTopicID, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	if e, ok := c.endpoint(&b.Leadership); ok && version >= fetchEndpoints {
		n := kmsg.NewFetchResponseBroker()
		n.NodeID, n.Host, n.Port = int32(b.LeaderID), e.Host, int32(e.Port)
		m.Brokers = append(m.Brokers, n)
	}
	return m
}

func (c Codec) parseFetchResponse(m *kmsg.FetchResponse) (raft.Body, error) {
	if m.ErrorCode != 0 {
		return &raft.FetchResponse{
			Leadership: failed(m.ErrorCode), HighWatermark: kafka.NoOffset, LogStart: kafka.NoOffset,
			Diverging: raft.NoDivergence, SnapshotID: raft.NoDivergence,
		}, nil
	}
	if len(m.Topics) != 1 || !isLog(m.Version, m.Topics[0].Topic, m.Topics[0].TopicID) ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		return nil, notTheLog(m)
	}
	p := &m.Topics[0].Partitions[0]
	l := c.leadership(0, p.ErrorCode, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch, func(id int32) (string, int32, bool) {
		for _, n := range m.Brokers {
			if n.NodeID == id {
				return n.Host, n.Port, true
			}
		}
		return "", 0, false
	})
	return &raft.FetchResponse{
		Leadership: l, HighWatermark: kafka.Offset(p.HighWatermark), LogStart: kafka.Offset(p.LogStartOffset),
		Diverging:  kafka.OffsetAndEpoch{Offset: kafka.Offset(p.DivergingEpoch.EndOffset), Epoch: kafka.Epoch(p.DivergingEpoch.Epoch)},
		SnapshotID: kafka.OffsetAndEpoch{Offset: kafka.Offset(p.SnapshotID.EndOffset), Epoch: kafka.Epoch(p.SnapshotID.Epoch)},
		Records:    p.RecordBatches,
	}, nil
}

func snapshotRequest(b *raft.FetchSnapshotRequest, version int16) kmsg.Request {
	m := kmsg.NewPtrFetchSnapshotRequest()
	m.ClusterID, m.ReplicaID, m.MaxBytes = textOrNull(b.ClusterID), int32(b.Replica.ID), int32(b.MaxBytes)
	p := kmsg.NewFetchSnapshotRequestTopicPartition()
	p.CurrentLeaderEpoch, p.Position = int32(b.CurrentLeaderEpoch), b.Position
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = int64(b.ID.Offset), int32(b.ID.Epoch)
	if version >= 1 {
		p.ReplicaDirectoryID = b.Replica.Dir
	}
	t := kmsg.NewFetchSnapshotRequestTopic()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	return m
}

func parseSnapshot(m *kmsg.FetchSnapshotRequest) (raft.Body, kmsg.Response) {
	if len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
		resp := kmsg.NewPtrFetchSnapshotResponse()
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
		return nil, resp
	}
	t, p := &m.Topics[0], &m.Topics[0].Partitions[0]
	if t.Topic != kafka.ClusterMetadataTopic || p.Partition != 0 {
		return nil, unknownSnapshot(t.Topic, p.Partition)
	}
	return &raft.FetchSnapshotRequest{
		ClusterID: deref(m.ClusterID), Replica: keyOf(m.ReplicaID, p.ReplicaDirectoryID),
		CurrentLeaderEpoch: kafka.Epoch(p.CurrentLeaderEpoch),
		ID:                 kafka.OffsetAndEpoch{Offset: kafka.Offset(p.SnapshotID.EndOffset), Epoch: kafka.Epoch(p.SnapshotID.Epoch)},
		Position:           p.Position, MaxBytes: int(m.MaxBytes),
	}, nil
}

// unknownSnapshot refuses a partition that is not the metadata log, the way
// KafkaRaftClient.handleFetchSnapshotRequest does.
func unknownSnapshot(topic string, partition int32) kmsg.Response {
	m := kmsg.NewPtrFetchSnapshotResponse()
	p := kmsg.NewFetchSnapshotResponseTopicPartition()
	p.Partition, p.ErrorCode, p.Bytes = partition, int16(kafka.ErrUnknownTopicOrPartition), []byte{}
	t := kmsg.NewFetchSnapshotResponseTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	return m
}

func (c Codec) snapshotResponse(b *raft.FetchSnapshotResponse, version int16) kmsg.Response {
	m := kmsg.NewPtrFetchSnapshotResponse()
	if m.ErrorCode = int16(b.TopError); m.ErrorCode != 0 {
		return m
	}
	p := kmsg.NewFetchSnapshotResponseTopicPartition()
	p.ErrorCode, p.Size, p.Position, p.Bytes = int16(b.Error), b.SizeBytes, b.Position, b.Bytes
	if p.Bytes == nil {
		p.Bytes = []byte{}
	}
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = int64(b.ID.Offset), int32(b.ID.Epoch)
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(b.LeaderID), int32(b.LeaderEpoch)
	t := kmsg.NewFetchSnapshotResponseTopic()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	if e, ok := c.endpoint(&b.Leadership); ok && version >= 1 {
		n := kmsg.NewFetchSnapshotResponseNodeEndpoint()
		n.NodeID, n.Host, n.Port = int32(b.LeaderID), e.Host, e.Port
		m.NodeEndpoints = append(m.NodeEndpoints, n)
	}
	return m
}

func (c Codec) parseSnapshotResponse(m *kmsg.FetchSnapshotResponse) (raft.Body, error) {
	if m.ErrorCode != 0 {
		return &raft.FetchSnapshotResponse{Leadership: failed(m.ErrorCode), ID: raft.NoDivergence}, nil
	}
	if len(m.Topics) != 1 || m.Topics[0].Topic != kafka.ClusterMetadataTopic ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		return nil, notTheLog(m)
	}
	p := &m.Topics[0].Partitions[0]
	l := c.leadership(0, p.ErrorCode, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch, func(id int32) (string, int32, bool) {
		for _, n := range m.NodeEndpoints {
			if n.NodeID == id {
				return n.Host, int32(n.Port), true
			}
		}
		return "", 0, false
	})
	return &raft.FetchSnapshotResponse{
		Leadership: l, ID: kafka.OffsetAndEpoch{Offset: kafka.Offset(p.SnapshotID.EndOffset), Epoch: kafka.Epoch(p.SnapshotID.Epoch)},
		SizeBytes: p.Size, Position: p.Position, Bytes: p.Bytes,
	}, nil
}
