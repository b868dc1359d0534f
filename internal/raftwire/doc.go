// Package raftwire turns the bodies that raft replicas exchange into messages
// of Kafka's protocol and back: Vote v0–2, BeginQuorumEpoch v0–1,
// EndQuorumEpoch v0–1, Fetch v4–18 of __cluster_metadata-0, FetchSnapshot v0–1,
// AddRaftVoter v0–1, RemoveRaftVoter v0, UpdateRaftVoter v0, and ApiVersions
// for a node's range of kraft.version.
//
// The side that asks uses Request and ParseResponse, the side that answers
// ParseRequest and Response. What comes from the other side is checked as
// Kafka's KafkaRaftClient checks it: exactly one topic and one partition, the
// metadata log's; whatever else is wrong with the values is for the core to
// judge.
//
// A codec is a value without state; everything here is a function of its input
// and may be called from any goroutine.
package raftwire

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// Keys of the APIs between replicas.
const (
	KeyFetch            = 1
	KeyApiVersions      = 18
	KeyVote             = 52
	KeyBeginQuorumEpoch = 53
	KeyEndQuorumEpoch   = 54
	KeyFetchSnapshot    = 59
	KeyAddVoter         = 80
	KeyRemoveVoter      = 81
	KeyUpdateVoter      = 82
)

// ErrMessage says that a message is not what a replica may send.
var ErrMessage = errors.New("bad message between replicas")

// Codec knows on which listener the two sides speak. Answers name the leader
// by its endpoint on that listener only (RaftUtil), without the listener's name.
type Codec struct{ Listener string }

// Versions are the versions of an API that can carry a body.
type Versions struct{ Key, Min, Max int16 }

// VersionsOf tells in which versions body can be sent. A pre-vote needs a voter
// that knows it: asked of an older one it must not look like a vote (KIP-996).
func VersionsOf(body raft.Body) (Versions, error) {
	switch b := body.(type) {
	case *raft.VoteRequest:
		if b.PreVote {
			return Versions{KeyVote, 2, 2}, nil
		}
		return Versions{KeyVote, 0, 2}, nil
	case *raft.BeginQuorumEpochRequest:
		return Versions{KeyBeginQuorumEpoch, 0, 1}, nil
	case *raft.EndQuorumEpochRequest:
		return Versions{KeyEndQuorumEpoch, 0, 1}, nil
	case *raft.FetchRequest:
		return Versions{KeyFetch, 12, 18}, nil
	case *raft.FetchSnapshotRequest:
		return Versions{KeyFetchSnapshot, 0, 1}, nil
	case *raft.AddVoterRequest:
		if b.AckEarly {
			return Versions{KeyAddVoter, 1, 1}, nil
		}
		return Versions{KeyAddVoter, 0, 1}, nil
	case *raft.RemoveVoterRequest:
		return Versions{KeyRemoveVoter, 0, 0}, nil
	case *raft.UpdateVoterRequest:
		return Versions{KeyUpdateVoter, 0, 0}, nil
	case *raft.FeaturesRequest:
		return Versions{KeyApiVersions, 3, 5}, nil
	}
	return Versions{}, fmt.Errorf("%w: %T is not sent to others", ErrMessage, body)
}

// Request makes the message that carries body in a version of VersionsOf.
func (c Codec) Request(body raft.Body, version int16) (kmsg.Request, error) {
	v, err := VersionsOf(body)
	if err != nil {
		return nil, err
	}
	if version < v.Min || version > v.Max {
		return nil, fmt.Errorf("%w: %s version %d cannot carry %T", ErrMessage, kmsg.NameForKey(v.Key), version, body)
	}
	var req kmsg.Request
	switch b := body.(type) {
	case *raft.VoteRequest:
		req = voteRequest(b)
	case *raft.BeginQuorumEpochRequest:
		req = beginRequest(b)
	case *raft.EndQuorumEpochRequest:
		req = endRequest(b)
	case *raft.FetchRequest:
		req = fetchRequest(b, version)
	case *raft.FetchSnapshotRequest:
		req = snapshotRequest(b, version)
	case *raft.AddVoterRequest:
		req = addVoterRequest(b)
	case *raft.RemoveVoterRequest:
		req = removeVoterRequest(b)
	case *raft.UpdateVoterRequest:
		req = updateVoterRequest(b)
	case *raft.FeaturesRequest:
		req = featuresRequest()
	}
	req.SetVersion(version)
	return req, nil
}

// ParseResponse reads an answer. The slices of Records and Bytes are those of
// resp.
func (c Codec) ParseResponse(resp kmsg.Response) (raft.Body, error) {
	switch m := resp.(type) {
	case *kmsg.VoteResponse:
		return c.parseVoteResponse(m)
	case *kmsg.BeginQuorumEpochResponse:
		return c.parseBeginResponse(m)
	case *kmsg.EndQuorumEpochResponse:
		return c.parseEndResponse(m)
	case *kmsg.FetchResponse:
		return c.parseFetchResponse(m)
	case *kmsg.FetchSnapshotResponse:
		return c.parseSnapshotResponse(m)
	case *kmsg.AddRaftVoterResponse:
		return &raft.AddVoterResponse{Error: kafka.ErrorCode(m.ErrorCode), Message: deref(m.ErrorMessage)}, nil
	case *kmsg.RemoveRaftVoterResponse:
		return &raft.RemoveVoterResponse{Error: kafka.ErrorCode(m.ErrorCode), Message: deref(m.ErrorMessage)}, nil
	case *kmsg.UpdateRaftVoterResponse:
		return c.parseUpdateVoterResponse(m), nil
	case *kmsg.ApiVersionsResponse:
		return parseFeatures(m), nil
	}
	return nil, fmt.Errorf("%w: a replica does not answer with %T", ErrMessage, resp)
}

// ParseRequest reads a request of another replica. If its shape is wrong, body
// is nil and refusal is the answer.
func (c Codec) ParseRequest(req kmsg.Request) (body raft.Body, refusal kmsg.Response) {
	switch m := req.(type) {
	case *kmsg.VoteRequest:
		body, refusal = parseVote(m)
	case *kmsg.BeginQuorumEpochRequest:
		body, refusal = parseBegin(m)
	case *kmsg.EndQuorumEpochRequest:
		body, refusal = parseEnd(m)
	case *kmsg.FetchRequest:
		body, refusal = parseFetch(m)
	case *kmsg.FetchSnapshotRequest:
		body, refusal = parseSnapshot(m)
	case *kmsg.AddRaftVoterRequest:
		body = parseAddVoter(m)
	case *kmsg.RemoveRaftVoterRequest:
		body = parseRemoveVoter(m)
	case *kmsg.UpdateRaftVoterRequest:
		body = parseUpdateVoter(m)
	default:
		panic(fmt.Sprintf("raftwire: %T is no request between replicas", req))
	}
	if refusal != nil {
		refusal.SetVersion(req.GetVersion())
	}
	return body, refusal
}

// Response makes the answer to a request that came in the given version.
func (c Codec) Response(body raft.Body, version int16) kmsg.Response {
	var resp kmsg.Response
	switch b := body.(type) {
	case *raft.VoteResponse:
		resp = c.voteResponse(b, version)
	case *raft.BeginQuorumEpochResponse:
		resp = c.beginResponse(b, version)
	case *raft.EndQuorumEpochResponse:
		resp = c.endResponse(b, version)
	case *raft.FetchResponse:
		resp = c.fetchResponse(b, version)
	case *raft.FetchSnapshotResponse:
		resp = c.snapshotResponse(b, version)
	case *raft.AddVoterResponse:
		m := kmsg.NewPtrAddRaftVoterResponse()
		m.ErrorCode, m.ErrorMessage = int16(b.Error), textOrNull(b.Message)
		resp = m
	case *raft.RemoveVoterResponse:
		m := kmsg.NewPtrRemoveRaftVoterResponse()
		m.ErrorCode, m.ErrorMessage = int16(b.Error), textOrNull(b.Message)
		resp = m
	case *raft.UpdateVoterResponse:
		resp = c.updateVoterResponse(b)
	default:
		panic(fmt.Sprintf("raftwire: %T is no answer between replicas", body))
	}
	resp.SetVersion(version)
	return resp
}

// endpoint is where the leader listens on the codec's listener.
func (c Codec) endpoint(l *raft.Leadership) (kafka.Endpoint, bool) {
	if l.LeaderID < 0 {
		return kafka.Endpoint{}, false
	}
	for _, e := range l.Endpoints {
		if e.Name == c.Listener {
			return e, true
		}
	}
	return kafka.Endpoint{}, false
}

// leadership fills what an answer says about the leader. node finds the
// leader's endpoint among those of the answer.
func (c Codec) leadership(top, code int16, leader, epoch int32, node func(id int32) (host string, port int32, ok bool)) raft.Leadership {
	l := raft.Leadership{
		TopError: kafka.ErrorCode(top), Error: kafka.ErrorCode(code),
		LeaderID: kafka.NodeID(leader), LeaderEpoch: kafka.Epoch(epoch),
	}
	if leader < 0 {
		return l
	}
	if host, port, ok := node(leader); ok && host != "" && port > 0 && port <= 65535 {
		l.Endpoints = []kafka.Endpoint{{Name: c.Listener, Host: host, Port: uint16(port)}}
	}
	return l
}

// failed is the leadership of an answer that failed as a whole.
func failed(code int16) raft.Leadership {
	return raft.Leadership{TopError: kafka.ErrorCode(code), LeaderID: kafka.NoNode, LeaderEpoch: kafka.NoEpoch}
}

func notTheLog(m kmsg.Response) error {
	return fmt.Errorf("%w: %s is not about partition 0 of %s alone", ErrMessage, kmsg.NameForKey(m.Key()), kafka.ClusterMetadataTopic)
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func keyOf(id int32, dir [16]byte) raft.ReplicaKey {
	if id < 0 {
		return raft.NoReplica
	}
	return raft.ReplicaKey{ID: kafka.NodeID(id), Dir: dir}
}
