package raftwire

// Vote (KIP-595; v1 directories, KIP-853; v2 pre-vote, KIP-996),
// BeginQuorumEpoch and EndQuorumEpoch (v1 endpoints and directories).

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

func voteRequest(b *raft.VoteRequest) kmsg.Request {
	m := kmsg.NewPtrVoteRequest()
	m.ClusterID, m.VoterID = textOrNull(b.ClusterID), int32(b.Voter.ID)
	p := kmsg.NewVoteRequestTopicPartition()
	p.CandidateEpoch, p.CandidateID, p.CandidateDirectoryID = int32(b.ReplicaEpoch), int32(b.Replica.ID), b.Replica.Dir
	p.VoterDirectoryID = b.Voter.Dir
	p.LastOffsetEpoch, p.LastOffset, p.PreVote = int32(b.LastEpoch), int64(b.LastOffset), b.PreVote
	t := kmsg.NewVoteRequestTopic()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	return m
}

func parseVote(m *kmsg.VoteRequest) (raft.Body, kmsg.Response) {
	if len(m.Topics) != 1 || m.Topics[0].Topic != kafka.ClusterMetadataTopic ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		resp := kmsg.NewPtrVoteResponse()
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
		return nil, resp
	}
	p := &m.Topics[0].Partitions[0]
	return &raft.VoteRequest{
		ClusterID: deref(m.ClusterID), Voter: keyOf(m.VoterID, p.VoterDirectoryID),
		Replica:      raft.ReplicaKey{ID: kafka.NodeID(p.CandidateID), Dir: p.CandidateDirectoryID},
		ReplicaEpoch: kafka.Epoch(p.CandidateEpoch), LastEpoch: kafka.Epoch(p.LastOffsetEpoch),
		LastOffset: kafka.Offset(p.LastOffset), PreVote: p.PreVote,
	}, nil
}

func (c Codec) voteResponse(b *raft.VoteResponse, version int16) kmsg.Response {
	m := kmsg.NewPtrVoteResponse()
	if m.ErrorCode = int16(b.TopError); m.ErrorCode != 0 {
		return m
	}
	p := kmsg.NewVoteResponseTopicPartition()
	p.ErrorCode, p.LeaderID, p.LeaderEpoch, p.VoteGranted = int16(b.Error), int32(b.LeaderID), int32(b.LeaderEpoch), b.Granted
	t := kmsg.NewVoteResponseTopic()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	if e, ok := c.endpoint(&b.Leadership); ok && version >= 1 {
		n := kmsg.NewVoteResponseNodeEndpoint()
		n.NodeID, n.Host, n.Port = int32(b.LeaderID), e.Host, e.Port
		m.NodeEndpoints = append(m.NodeEndpoints, n)
	}
	return m
}

func (c Codec) parseVoteResponse(m *kmsg.VoteResponse) (raft.Body, error) {
	if m.ErrorCode != 0 {
		return &raft.VoteResponse{Leadership: failed(m.ErrorCode)}, nil
	}
	if len(m.Topics) != 1 || m.Topics[0].Topic != kafka.ClusterMetadataTopic ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		return nil, notTheLog(m)
	}
	p := &m.Topics[0].Partitions[0]
	l := c.leadership(0, p.ErrorCode, p.LeaderID, p.LeaderEpoch, func(id int32) (string, int32, bool) {
		for _, n := range m.NodeEndpoints {
			if n.NodeID == id {
				return n.Host, int32(n.Port), true
			}
		}
		return "", 0, false
	})
	return &raft.VoteResponse{Leadership: l, Granted: p.VoteGranted}, nil
}

func beginRequest(b *raft.BeginQuorumEpochRequest) kmsg.Request {
	m := kmsg.NewPtrBeginQuorumEpochRequest()
	m.ClusterID, m.VoterID = textOrNull(b.ClusterID), int32(b.Voter.ID)
	p := kmsg.NewBeginQuorumEpochRequestTopicPartition()
	p.VoterDirectoryID, p.LeaderID, p.LeaderEpoch = b.Voter.Dir, int32(b.LeaderID), int32(b.LeaderEpoch)
	t := kmsg.NewBeginQuorumEpochRequestTopic()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	for _, e := range b.Endpoints {
		l := kmsg.NewBeginQuorumEpochRequestLeaderEndpoint()
		l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
		m.LeaderEndpoints = append(m.LeaderEndpoints, l)
	}
	return m
}

func parseBegin(m *kmsg.BeginQuorumEpochRequest) (raft.Body, kmsg.Response) {
	if len(m.Topics) != 1 || m.Topics[0].Topic != kafka.ClusterMetadataTopic ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		resp := kmsg.NewPtrBeginQuorumEpochResponse()
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
		return nil, resp
	}
	p := &m.Topics[0].Partitions[0]
	b := &raft.BeginQuorumEpochRequest{
		ClusterID: deref(m.ClusterID), Voter: keyOf(m.VoterID, p.VoterDirectoryID),
		LeaderID: kafka.NodeID(p.LeaderID), LeaderEpoch: kafka.Epoch(p.LeaderEpoch),
	}
	for _, e := range m.LeaderEndpoints {
		b.Endpoints = append(b.Endpoints, kafka.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return b, nil
}

func (c Codec) beginResponse(b *raft.BeginQuorumEpochResponse, version int16) kmsg.Response {
	m := kmsg.NewPtrBeginQuorumEpochResponse()
	if m.ErrorCode = int16(b.TopError); m.ErrorCode != 0 {
		return m
	}
	p := kmsg.NewBeginQuorumEpochResponseTopicPartition()
	p.ErrorCode, p.LeaderID, p.LeaderEpoch = int16(b.Error), int32(b.LeaderID), int32(b.LeaderEpoch)
	t := kmsg.NewBeginQuorumEpochResponseTopic()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	if e, ok := c.endpoint(&b.Leadership); ok && version >= 1 {
		n := kmsg.NewBeginQuorumEpochResponseNodeEndpoint()
		n.NodeID, n.Host, n.Port = int32(b.LeaderID), e.Host, e.Port
		m.NodeEndpoints = append(m.NodeEndpoints, n)
	}
	return m
}

func (c Codec) parseBeginResponse(m *kmsg.BeginQuorumEpochResponse) (raft.Body, error) {
	if m.ErrorCode != 0 {
		return &raft.BeginQuorumEpochResponse{Leadership: failed(m.ErrorCode)}, nil
	}
	if len(m.Topics) != 1 || m.Topics[0].Topic != kafka.ClusterMetadataTopic ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		return nil, notTheLog(m)
	}
	p := &m.Topics[0].Partitions[0]
	l := c.leadership(0, p.ErrorCode, p.LeaderID, p.LeaderEpoch, func(id int32) (string, int32, bool) {
		for _, n := range m.NodeEndpoints {
			if n.NodeID == id {
				return n.Host, int32(n.Port), true
			}
		}
		return "", 0, false
	})
	return &raft.BeginQuorumEpochResponse{Leadership: l}, nil
}

// endRequest names the successors in both ways: v0 knows their ids only.
func endRequest(b *raft.EndQuorumEpochRequest) kmsg.Request {
	m := kmsg.NewPtrEndQuorumEpochRequest()
	m.ClusterID = textOrNull(b.ClusterID)
	p := kmsg.NewEndQuorumEpochRequestTopicPartition()
	p.LeaderID, p.LeaderEpoch = int32(b.LeaderID), int32(b.LeaderEpoch)
	for _, s := range b.Successors {
		p.PreferredSuccessors = append(p.PreferredSuccessors, int32(s.ID))
		k := kmsg.NewEndQuorumEpochRequestTopicPartitionPreferredCandidate()
		k.CandidateID, k.CandidateDirectoryID = int32(s.ID), s.Dir
		p.PreferredCandidates = append(p.PreferredCandidates, k)
	}
	t := kmsg.NewEndQuorumEpochRequestTopic()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	for _, e := range b.Endpoints {
		l := kmsg.NewEndQuorumEpochRequestLeaderEndpoint()
		l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
		m.LeaderEndpoints = append(m.LeaderEndpoints, l)
	}
	return m
}

func parseEnd(m *kmsg.EndQuorumEpochRequest) (raft.Body, kmsg.Response) {
	if len(m.Topics) != 1 || m.Topics[0].Topic != kafka.ClusterMetadataTopic ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		resp := kmsg.NewPtrEndQuorumEpochResponse()
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
		return nil, resp
	}
	p := &m.Topics[0].Partitions[0]
	b := &raft.EndQuorumEpochRequest{
		ClusterID: deref(m.ClusterID), LeaderID: kafka.NodeID(p.LeaderID), LeaderEpoch: kafka.Epoch(p.LeaderEpoch),
	}
	for _, k := range p.PreferredCandidates {
		b.Successors = append(b.Successors, raft.ReplicaKey{ID: kafka.NodeID(k.CandidateID), Dir: k.CandidateDirectoryID})
	}
	if m.Version == 0 {
		b.Successors = nil
		for _, id := range p.PreferredSuccessors {
			b.Successors = append(b.Successors, raft.ReplicaKey{ID: kafka.NodeID(id)})
		}
	}
	for _, e := range m.LeaderEndpoints {
		b.Endpoints = append(b.Endpoints, kafka.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return b, nil
}

func (c Codec) endResponse(b *raft.EndQuorumEpochResponse, version int16) kmsg.Response {
	m := kmsg.NewPtrEndQuorumEpochResponse()
	if m.ErrorCode = int16(b.TopError); m.ErrorCode != 0 {
		return m
	}
	p := kmsg.NewEndQuorumEpochResponseTopicPartition()
	p.ErrorCode, p.LeaderID, p.LeaderEpoch = int16(b.Error), int32(b.LeaderID), int32(b.LeaderEpoch)
	t := kmsg.NewEndQuorumEpochResponseTopic()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	m.Topics = append(m.Topics, t)
	if e, ok := c.endpoint(&b.Leadership); ok && version >= 1 {
		n := kmsg.NewEndQuorumEpochResponseNodeEndpoint()
		n.NodeID, n.Host, n.Port = int32(b.LeaderID), e.Host, e.Port
		m.NodeEndpoints = append(m.NodeEndpoints, n)
	}
	return m
}

func (c Codec) parseEndResponse(m *kmsg.EndQuorumEpochResponse) (raft.Body, error) {
	if m.ErrorCode != 0 {
		return &raft.EndQuorumEpochResponse{Leadership: failed(m.ErrorCode)}, nil
	}
	if len(m.Topics) != 1 || m.Topics[0].Topic != kafka.ClusterMetadataTopic ||
		len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 0 {
		return nil, notTheLog(m)
	}
	p := &m.Topics[0].Partitions[0]
	l := c.leadership(0, p.ErrorCode, p.LeaderID, p.LeaderEpoch, func(id int32) (string, int32, bool) {
		for _, n := range m.NodeEndpoints {
			if n.NodeID == id {
				return n.Host, int32(n.Port), true
			}
		}
		return "", 0, false
	})
	return &raft.EndQuorumEpochResponse{Leadership: l}, nil
}
