package raftwire

// AddRaftVoter (v1: may be acknowledged before the commit), RemoveRaftVoter,
// UpdateRaftVoter (KIP-853), and a node's range of kraft.version.

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

func addVoterRequest(b *raft.AddVoterRequest) kmsg.Request {
	m := kmsg.NewPtrAddRaftVoterRequest()
	m.ClusterID, m.TimeoutMillis = textOrNull(b.ClusterID), int32(b.Timeout/time.Millisecond)
	m.VoterID, m.VoterDirectoryID = int32(b.Voter.Key.ID), b.Voter.Key.Dir
	m.AckWhenCommitted = !b.AckEarly
	for _, e := range b.Voter.Endpoints {
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
		m.Listeners = append(m.Listeners, l)
	}
	return m
}

func parseAddVoter(m *kmsg.AddRaftVoterRequest) raft.Body {
	b := &raft.AddVoterRequest{
		ClusterID: deref(m.ClusterID), Timeout: time.Duration(m.TimeoutMillis) * time.Millisecond,
		Voter: raft.Voter{Key: keyOf(m.VoterID, m.VoterDirectoryID)}, AckEarly: m.Version >= 1 && !m.AckWhenCommitted,
	}
	for _, l := range m.Listeners {
		b.Voter.Endpoints = append(b.Voter.Endpoints, kafka.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port})
	}
	return b
}

func removeVoterRequest(b *raft.RemoveVoterRequest) kmsg.Request {
	m := kmsg.NewPtrRemoveRaftVoterRequest()
	m.ClusterID, m.VoterID, m.VoterDirectoryID = textOrNull(b.ClusterID), int32(b.Voter.ID), b.Voter.Dir
	return m
}

func parseRemoveVoter(m *kmsg.RemoveRaftVoterRequest) raft.Body {
	return &raft.RemoveVoterRequest{ClusterID: deref(m.ClusterID), Voter: keyOf(m.VoterID, m.VoterDirectoryID)}
}

func updateVoterRequest(b *raft.UpdateVoterRequest) kmsg.Request {
	m := kmsg.NewPtrUpdateRaftVoterRequest()
	m.ClusterID, m.CurrentLeaderEpoch = textOrNull(b.ClusterID), int32(b.CurrentLeaderEpoch)
	m.VoterID, m.VoterDirectoryID = int32(b.Voter.Key.ID), b.Voter.Key.Dir
	m.KRaftVersionFeature.MinSupportedVersion, m.KRaftVersionFeature.MaxSupportedVersion = b.Voter.MinKRaft, b.Voter.MaxKRaft
	for _, e := range b.Voter.Endpoints {
		l := kmsg.NewUpdateRaftVoterRequestListener()
		l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
		m.Listeners = append(m.Listeners, l)
	}
	return m
}

func parseUpdateVoter(m *kmsg.UpdateRaftVoterRequest) raft.Body {
	b := &raft.UpdateVoterRequest{
		ClusterID: deref(m.ClusterID), CurrentLeaderEpoch: kafka.Epoch(m.CurrentLeaderEpoch),
		Voter: raft.Voter{
			Key:      keyOf(m.VoterID, m.VoterDirectoryID),
			MinKRaft: m.KRaftVersionFeature.MinSupportedVersion, MaxKRaft: m.KRaftVersionFeature.MaxSupportedVersion,
		},
	}
	for _, l := range m.Listeners {
		b.Voter.Endpoints = append(b.Voter.Endpoints, kafka.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port})
	}
	return b
}

func (c Codec) updateVoterResponse(b *raft.UpdateVoterResponse) kmsg.Response {
	m := kmsg.NewPtrUpdateRaftVoterResponse()
	m.ErrorCode = int16(b.TopError)
	m.CurrentLeader.LeaderID, m.CurrentLeader.LeaderEpoch = int32(b.LeaderID), int32(b.LeaderEpoch)
	if e, ok := c.endpoint(&b.Leadership); ok {
		m.CurrentLeader.Host, m.CurrentLeader.Port = e.Host, int32(e.Port)
	}
	return m
}

func (c Codec) parseUpdateVoterResponse(m *kmsg.UpdateRaftVoterResponse) raft.Body {
	l := c.leadership(m.ErrorCode, 0, m.CurrentLeader.LeaderID, m.CurrentLeader.LeaderEpoch, func(int32) (string, int32, bool) {
		return m.CurrentLeader.Host, m.CurrentLeader.Port, true
	})
	return &raft.UpdateVoterResponse{Leadership: l}
}

// Software is what this program calls itself in ApiVersions requests; Kafka
// allows letters, digits, dots and hyphens.
const Software, SoftwareVersion = "moldau", "1.0"

func featuresRequest() kmsg.Request {
	m := kmsg.NewPtrApiVersionsRequest()
	m.ClientSoftwareName, m.ClientSoftwareVersion = Software, SoftwareVersion
	return m
}

func parseFeatures(m *kmsg.ApiVersionsResponse) raft.Body {
	b := &raft.FeaturesResponse{Error: kafka.ErrorCode(m.ErrorCode)}
	for _, f := range m.SupportedFeatures {
		if f.Name == "kraft.version" {
			b.MinKRaft, b.MaxKRaft = f.MinVersion, f.MaxVersion
		}
	}
	return b
}
