package raft

import (
	"time"

	"moldau/internal/kafka"
)

// Body is the body of a request or an answer between replicas. Each mirrors
// the one partition of Kafka's message that carries __cluster_metadata-0; in
// answers TopError is the message's own error code, Error the partition's.
type Body interface{ isBody() }

// VoteRequest asks for a vote, or, with PreVote, whether one would be given
// (Vote v0–2).
type VoteRequest struct {
	ClusterID    string     // "" if not given
	Voter        ReplicaKey // whom it is meant for; NoReplica if not given (v0)
	Replica      ReplicaKey // who asks
	ReplicaEpoch kafka.Epoch
	LastEpoch    kafka.Epoch  // epoch of the last record of its log
	LastOffset   kafka.Offset // its log end offset
	PreVote      bool
}

// Leadership is the part that all answers share: whom the sender believes to
// lead in which epoch.
type Leadership struct {
	TopError, Error kafka.ErrorCode
	LeaderID        kafka.NodeID
	LeaderEpoch     kafka.Epoch
	// Endpoints of the leader; empty if the sender does not know them.
	Endpoints []kafka.Endpoint
}

// VoteResponse answers a VoteRequest.
type VoteResponse struct {
	Leadership
	Granted bool
}

// BeginQuorumEpochRequest announces a leader to a voter (v0–1).
type BeginQuorumEpochRequest struct {
	ClusterID   string
	Voter       ReplicaKey
	LeaderID    kafka.NodeID
	LeaderEpoch kafka.Epoch
	Endpoints   []kafka.Endpoint
}

// BeginQuorumEpochResponse answers a BeginQuorumEpochRequest.
type BeginQuorumEpochResponse struct{ Leadership }

// EndQuorumEpochRequest says that a leader steps down (v0–1). Successors are
// ordered: who has most of the log comes first.
type EndQuorumEpochRequest struct {
	ClusterID   string
	LeaderID    kafka.NodeID
	LeaderEpoch kafka.Epoch
	Successors  []ReplicaKey
	Endpoints   []kafka.Endpoint
}

// EndQuorumEpochResponse answers an EndQuorumEpochRequest.
type EndQuorumEpochResponse struct{ Leadership }

// HighWatermarkUnsupported stands in FetchRequest.HighWatermark for versions
// that cannot carry it (before v18, KIP-1166): such a fetch never returns only
// because the high watermark has moved.
const HighWatermarkUnsupported kafka.Offset = 1<<63 - 1

// FetchRequest asks the leader for records (Fetch v12 and later). That it
// arrives means that the replica has everything below FetchOffset on disk.
type FetchRequest struct {
	ClusterID          string
	Replica            ReplicaKey
	CurrentLeaderEpoch kafka.Epoch
	FetchOffset        kafka.Offset
	LastFetchedEpoch   kafka.Epoch
	HighWatermark      kafka.Offset // as the replica knows it; NoOffset if not
	MaxWait            time.Duration
	MaxBytes           int
}

// NoDivergence stands for "does not diverge" and "no snapshot" in answers.
var NoDivergence = kafka.OffsetAndEpoch{Offset: kafka.NoOffset, Epoch: kafka.NoEpoch}

// FetchResponse answers a FetchRequest.
type FetchResponse struct {
	Leadership
	HighWatermark kafka.Offset         // NoOffset if the leader does not know it yet
	LogStart      kafka.Offset         // the leader's
	Diverging     kafka.OffsetAndEpoch // NoDivergence, or where the epoch ends here
	SnapshotID    kafka.OffsetAndEpoch // NoDivergence, or what to load instead

	// Read is for the sender's shell: which records to put into Records.
	// MaxBytes 0 means none; the first batch is sent whole however long.
	Read ReadRange
	// Records are the batches on the wire.
	Records []byte
	// Batches is what the receiver's shell found in Records.
	Batches []Batch
}

// ReadRange names records of the local log: from an offset, at most so many bytes.
type ReadRange struct {
	From     kafka.Offset
	MaxBytes int
}

// FetchSnapshotRequest asks the leader for a part of a snapshot (FetchSnapshot
// v0–1, KIP-630).
type FetchSnapshotRequest struct {
	ClusterID          string
	Replica            ReplicaKey
	CurrentLeaderEpoch kafka.Epoch
	ID                 kafka.OffsetAndEpoch
	Position           int64 // in bytes
	MaxBytes           int
}

// FetchSnapshotResponse answers a FetchSnapshotRequest.
type FetchSnapshotResponse struct {
	Leadership
	ID        kafka.OffsetAndEpoch
	SizeBytes int64 // of the whole snapshot
	Position  int64
	// MaxBytes is for the sender's shell: how much of the snapshot, from
	// Position on, to put into Bytes, and its size into SizeBytes. The shell
	// sets Error if there is no such snapshot or position. 0 means nothing.
	MaxBytes int
	Bytes    []byte
}

// AddVoterRequest asks the leader to make an observer a voter (AddRaftVoter
// v0–1, KIP-853). The range of kraft.version in Voter is not known yet.
type AddVoterRequest struct {
	ClusterID string
	Timeout   time.Duration
	Voter     Voter
	// AckEarly asks for the answer once the record is appended (v1's
	// AckWhenCommitted = false).
	AckEarly bool
}

// AddVoterResponse answers an AddVoterRequest.
type AddVoterResponse struct {
	Error   kafka.ErrorCode
	Message string
}

// RemoveVoterRequest asks the leader to remove a voter (RemoveRaftVoter v0).
type RemoveVoterRequest struct {
	ClusterID string
	Voter     ReplicaKey
}

// RemoveVoterResponse answers a RemoveVoterRequest.
type RemoveVoterResponse struct {
	Error   kafka.ErrorCode
	Message string
}

// UpdateVoterRequest tells the leader a voter's endpoints and range of
// kraft.version, and under kraft.version 0 its directory (UpdateRaftVoter v0).
type UpdateVoterRequest struct {
	ClusterID          string
	CurrentLeaderEpoch kafka.Epoch
	Voter              Voter
}

// UpdateVoterResponse answers an UpdateVoterRequest; only TopError is used.
type UpdateVoterResponse struct{ Leadership }

// FeaturesRequest asks a future voter for its range of kraft.version
// (ApiVersions).
type FeaturesRequest struct{}

// FeaturesResponse answers a FeaturesRequest. A node that does not know
// kraft.version supports 0 only.
type FeaturesResponse struct {
	Error              kafka.ErrorCode
	MinKRaft, MaxKRaft int16
}

// UpgradeRequest is the operator's wish to raise kraft.version
// (UpdateFeatures). It comes from the node itself.
type UpgradeRequest struct {
	Level        int16
	ValidateOnly bool
}

// UpgradeResponse answers an UpgradeRequest, once the records are appended.
type UpgradeResponse struct {
	Error   kafka.ErrorCode
	Message string
}

func (*FetchSnapshotRequest) isBody()     {}
func (*FetchSnapshotResponse) isBody()    {}
func (*AddVoterRequest) isBody()          {}
func (*AddVoterResponse) isBody()         {}
func (*RemoveVoterRequest) isBody()       {}
func (*RemoveVoterResponse) isBody()      {}
func (*UpdateVoterRequest) isBody()       {}
func (*UpdateVoterResponse) isBody()      {}
func (*FeaturesRequest) isBody()          {}
func (*FeaturesResponse) isBody()         {}
func (*UpgradeRequest) isBody()           {}
func (*UpgradeResponse) isBody()          {}
func (*VoteRequest) isBody()              {}
func (*VoteResponse) isBody()             {}
func (*BeginQuorumEpochRequest) isBody()  {}
func (*BeginQuorumEpochResponse) isBody() {}
func (*EndQuorumEpochRequest) isBody()    {}
func (*EndQuorumEpochResponse) isBody()   {}
func (*FetchRequest) isBody()             {}
func (*FetchResponse) isBody()            {}
