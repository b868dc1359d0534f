package raft

import (
	"errors"

	"moldau/internal/kafka"
)

// Event is what Step takes.
type Event interface{ isEvent() }

// Start is the first event.
type Start struct{}

// DeadlineReached says that the time of Deadline has come. It may come late or
// without need.
type DeadlineReached struct{}

// Request is a request of another replica. Token comes back with the reply.
type Request struct {
	Token uint64
	Body  Body
}

// Response answers the request that Effects.Requests sent under ID to the node.
type Response struct {
	From kafka.NodeID
	ID   uint64
	Body Body
}

// RequestFailed says that the request could not be sent or its connection died.
type RequestFailed struct {
	To kafka.NodeID
	ID uint64
}

// Flushed says that the flush has completed. A failed flush is fatal to the
// process and has no event.
type Flushed struct{ Flush }

// Propose offers batches of application records to the leader, to be appended
// all or not at all. The first one starts at the end offset, all carry Epoch.
type Propose struct {
	Epoch   kafka.Epoch
	Batches []Batch
}

// Resign asks the leader of the epoch to step down; others ignore it.
type Resign struct{ Epoch kafka.Epoch }

// Shutdown asks the node to leave the quorum in peace: a leader hands over,
// nobody starts an election any more.
type Shutdown struct{}

// LeaderConnectionLost says that the connection to the node broke by the other
// side's doing (Trap 16). It matters to a follower of that node if
// Options.FastFailover is set.
type LeaderConnectionLost struct{ Leader kafka.NodeID }

// SnapshotSealed tells how Effects.SealSnapshot has ended. Control are the
// voters and kraft.version that the snapshot holds, at the last offset that it
// contains; Bad says that its content cannot be right, and that it is gone.
type SnapshotSealed struct {
	ID      kafka.OffsetAndEpoch
	Control []Control
	Bad     bool
}

// SnapshotCreated says that a snapshot is durable under its final name.
type SnapshotCreated struct{ ID kafka.OffsetAndEpoch }

// LogStartMoved says that the log was trimmed behind the snapshot that ends at
// Start.
type LogStartMoved struct{ Start kafka.OffsetAndEpoch }

func (Start) isEvent()                {}
func (DeadlineReached) isEvent()      {}
func (Request) isEvent()              {}
func (Response) isEvent()             {}
func (RequestFailed) isEvent()        {}
func (Flushed) isEvent()              {}
func (Propose) isEvent()              {}
func (Resign) isEvent()               {}
func (Shutdown) isEvent()             {}
func (LeaderConnectionLost) isEvent() {}
func (SnapshotSealed) isEvent()       {}
func (SnapshotCreated) isEvent()      {}
func (LogStartMoved) isEvent()        {}

// Batch is one batch of the log. Control lists the voters and kraft.version
// records in it.
type Batch struct {
	Base, Last kafka.Offset
	Epoch      kafka.Epoch
	Bytes      []byte
	Control    []Control
}

// LeaderChange is the batch that a new leader writes first: one LeaderChange
// record, and behind it, if the voter set is not yet in the log or the leader's
// own entry has changed, KRaftVersion and Voters records (Trap 5).
type LeaderChange struct {
	Base     kafka.Offset
	Epoch    kafka.Epoch
	Leader   kafka.NodeID
	Voters   []ReplicaKey
	Granting []ReplicaKey
	// NewVoters is written if it is not nil, with KRaft before it.
	NewVoters *VoterSet
	KRaft     int16
}

// VotersChange is a control batch that a leader writes within its epoch: a new
// voter set, with a KRaftVersion record before it if kraft.version rises.
type VotersChange struct {
	Base   kafka.Offset
	Epoch  kafka.Epoch
	KRaft  *int16 // nil if it stays
	Voters VoterSet
}

// SnapshotPart is a part of a snapshot that is being downloaded. The parts of
// one snapshot come in order; Position 0 begins anew.
type SnapshotPart struct {
	ID       kafka.OffsetAndEpoch
	Position int64
	Bytes    []byte
}

// ElectionState is what quorum-state stores.
type ElectionState struct {
	Epoch  kafka.Epoch
	Leader kafka.NodeID // NoNode if not known
	Voted  ReplicaKey   // NoReplica if no vote was given in Epoch
}

// Flush is a flush of the log up to an end offset; Epoch is that of the last
// record below Offset when the flush began.
type Flush struct {
	Seq    uint64
	Offset kafka.Offset
	Epoch  kafka.Epoch
}

// Outgoing is a request to send. A negative To is one of Options.Bootstrap: the
// shell knows the address. Otherwise At are the node's controller endpoints as
// far as the core knows them.
type Outgoing struct {
	To   kafka.NodeID
	At   []kafka.Endpoint
	ID   uint64
	Body Body
}

// Reply answers the Request with the Token.
type Reply struct {
	Token uint64
	Body  Body
}

// LeaderAndEpoch is one consistent pair: who leads in which epoch; NoNode while
// nobody is known to.
type LeaderAndEpoch struct {
	Leader kafka.NodeID
	Epoch  kafka.Epoch
}

// Effects is what a Step wants done, strictly in the order of the fields. A
// failure of any of the disk operations is fatal.
type Effects struct {
	// Persist must be durable before anything below is done.
	Persist *ElectionState
	// KRaft is the kraft.version in force; it decides in which data version
	// Persist is written (Trap 17).
	KRaft int16
	// Truncate cuts the log to this end offset.
	Truncate *kafka.Offset
	// LeaderChange is to be encoded and appended.
	LeaderChange *LeaderChange
	// VotersChange is to be encoded and appended.
	VotersChange *VotersChange
	// SnapshotPart is to be written behind the parts before it.
	SnapshotPart *SnapshotPart
	// SealSnapshot begins to verify the downloaded snapshot and to make it
	// durable under its name; that ends as a SnapshotSealed event.
	SealSnapshot *kafka.OffsetAndEpoch
	// LoadSnapshot drops the whole log, which then begins where the sealed
	// snapshot ends (HC-039), and replaces the application's state by the
	// snapshot's.
	LoadSnapshot *kafka.OffsetAndEpoch
	// Append are batches to append, to the page cache.
	Append []Batch
	// Flush begins a flush; it completes as a Flushed event.
	Flush *Flush
	// Requests and Replies are to be sent; they may be lost.
	Requests []Outgoing
	Replies  []Reply
	// Leader is the pair to publish, if it has changed.
	Leader *LeaderAndEpoch
	// HighWatermark is the new one, if it has moved.
	HighWatermark *kafka.Offset
	// Resigned tells that the leadership which Led announced has ended.
	// Proposals of that epoch beyond HighWatermark may or may not survive.
	Resigned *kafka.Epoch
	// Led tells that this node leads the epoch and that all before it is
	// committed: once the application has replayed up to HighWatermark it may
	// propose (HC-016). If the step has also Resigned, that was of an earlier
	// epoch: a leadership that does not outlast its step is not announced.
	Led *kafka.Epoch
	// Rejected tells why a Propose was not taken. Nothing was appended.
	Rejected error
	// Fatal ends this replica: a broken invariant or a foreign log. The core
	// ignores every later event.
	Fatal error
}

// Reset empties e for the next Step; slices keep their room.
func (e *Effects) Reset() {
	clear(e.Append)
	clear(e.Requests)
	clear(e.Replies)
	*e = Effects{Append: e.Append[:0], Requests: e.Requests[:0], Replies: e.Replies[:0]}
}

// Reasons for rejecting a proposal.
var (
	// ErrNotLeader: this node does not lead the epoch, or not yet or no longer
	// takes proposals in it.
	ErrNotLeader = errors.New("not the leader of the epoch")
	// ErrWrongOffset: the batches do not continue the log.
	ErrWrongOffset = errors.New("batches do not start at the end of the log")
)
