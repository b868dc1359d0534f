package controller

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// MaxRecordsPerOperation bounds what one request may write, as in Kafka.
const MaxRecordsPerOperation = 10_000

// Options configure a Core. Rules and Random are required.
type Options struct {
	NodeID    kafka.NodeID
	ClusterID string
	// Bootstrap are the records that the first leader of an empty log writes;
	// one of them sets metadata.version.
	Bootstrap []VersionedRecord
	// Features are the levels that this node supports, metadata.version among them.
	Features []metadata.Feature
	// Voters lists the controllers of the quorum. Nil means unknown; then only
	// registered controllers are asked whether they support a feature.
	Voters func() []kafka.NodeID
	// KRaftVersion is the level of kraft.version in force; nil is 0. The quorum
	// keeps it in control records, not in the image.
	KRaftVersion func() int16
	Rules        ConfigRules
	// Random gives uniformly distributed bits.
	Random func() uint64

	SessionTimeout           time.Duration // broker.session.timeout.ms
	MaxIdleInterval          time.Duration // metadata.max.idle.interval.ms; 0 is never
	LeaderCheckInterval      time.Duration // leader.imbalance.check.interval.seconds; 0 is never
	DefaultPartitions        int32         // num.partitions
	DefaultReplicationFactor int16         // default.replication.factor
	MinInSyncReplicas        int           // min.insync.replicas of this node's configuration
	UncleanLeaderElection    bool          // unclean.leader.election.enable of it
}

// VersionedRecord is a metadata record with the version to write it in.
type VersionedRecord struct {
	Message record.Message
	Version int16
}

// Event is something that a Core decides on.
type Event interface{ event() }

// Request is a request of a client or broker. Body is a pointer to a request
// of package kmsg.
type Request struct {
	Token uint64 // comes back in the reply
	Body  any
	// Arrived is when this node received it: a session counts from there, not
	// from the decision. Zero is the time of the step.
	Arrived kafka.Mono
}

// Contact is a heartbeat that has arrived at this node.
type Contact struct {
	Broker kafka.NodeID
	Epoch  kafka.BrokerEpoch
	At     kafka.Mono
}

// Contacts are heartbeats that still wait for their decision. Callers tell them
// before DeadlineReached.
type Contacts struct{ List []Contact }

// BrokerConnectionLost: the connection over which a broker sent its heartbeats
// was closed by the broker's side. Never told of one that this node closed.
type BrokerConnectionLost struct {
	Broker kafka.NodeID
	Epoch  kafka.BrokerEpoch // of its last heartbeat
	At     kafka.Mono        // zero is the time of the step
}

// BecameLeader: this node leads the metadata quorum, and tip holds the whole log.
type BecameLeader struct {
	Epoch kafka.Epoch
	// Lost, if it is not nil, is the last leader, whose connections broke by its
	// own side's doing: most likely its process has died, and with it the broker
	// that may be in it.
	Lost *kafka.NodeID
}

// Resigned: leadership is lost, or an append failed; the tip went back.
type Resigned struct{}

// DeadlineReached: the deadline that the Core told has passed.
type DeadlineReached struct{}

func (Request) event()              {}
func (BecameLeader) event()         {}
func (Resigned) event()             {}
func (DeadlineReached) event()      {}
func (Contacts) event()             {}
func (BrokerConnectionLost) event() {}

// Effects is what a step wants to happen, in this order: raise kraft.version,
// append the batches, then, once everything appended so far is committed, send
// the replies.
type Effects struct {
	// KRaft asks the quorum to change kraft.version. If it refuses, nothing is
	// appended and the request that Replies answers fails with its reason.
	KRaft   *KRaftUpgrade
	Batches [][]VersionedRecord
	Replies []Reply
}

// Reset empties the effects for reuse.
func (e *Effects) Reset() { e.KRaft, e.Batches, e.Replies = nil, e.Batches[:0], e.Replies[:0] }

// KRaftUpgrade is a change of kraft.version that all nodes support.
type KRaftUpgrade struct {
	Level        int16
	ValidateOnly bool
}

// Reply answers a request. Body is a pointer to the kmsg response; it is nil
// when the request failed as a whole with Code.
type Reply struct {
	Token   uint64
	Body    any
	Code    kafka.ErrorCode
	Message string
}

// Core is the active (or waiting) controller. Make it with New.
type Core struct {
	opts       Options
	active     bool
	epoch      kafka.Epoch
	activation kafka.Offset // end of the log when this node became active
	lastAppend kafka.Mono
	sessions   map[kafka.NodeID]*session
	earliest   kafka.Mono // no session ends before it
	// nextBalance is when leaderships are looked at; Never if they are not.
	nextBalance kafka.Mono
}

// New makes a Core that is not active.
func New(opts Options) *Core {
	return &Core{opts: opts, sessions: map[kafka.NodeID]*session{}, earliest: kafka.Never, nextBalance: kafka.Never}
}

// Active tells whether the Core takes requests.
func (c *Core) Active() bool { return c.active }

// step is the context of one Step.
type step struct {
	*Core
	now  kafka.Now
	at   kafka.Mono // when the request arrived
	tip  *metadata.Image
	next kafka.Offset // of the first record that this step writes
	out  *Effects
}

// Step decides on one event. tip includes everything appended so far, committed
// or not; nextOffset is the offset of the first record that Step returns.
func (c *Core) Step(now kafka.Now, ev Event, tip *metadata.Image, nextOffset kafka.Offset, out *Effects) {
	s := &step{c, now, now.Mono, tip, nextOffset, out}
	batches := len(out.Batches)
	switch ev := ev.(type) {
	case BecameLeader:
		s.activate(ev)
	case Resigned:
		c.active = false
		c.sessions, c.earliest, c.nextBalance = map[kafka.NodeID]*session{}, kafka.Never, kafka.Never
	case Contacts:
		c.contacts(ev.List)
	case BrokerConnectionLost:
		s.connectionLost(ev)
	case DeadlineReached:
		if c.active {
			s.deadlineReached()
		}
	case Request:
		if ev.Arrived != 0 {
			s.at = min(ev.Arrived, now.Mono)
		}
		s.request(ev)
	}
	if len(out.Batches) > batches {
		c.lastAppend = now.Mono
	}
}

// Deadline is when DeadlineReached is due, or kafka.Never.
func (c *Core) Deadline() kafka.Mono {
	if !c.active {
		return kafka.Never
	}
	next := min(c.earliest, c.nextBalance)
	if c.opts.MaxIdleInterval > 0 {
		next = min(next, c.lastAppend.Add(c.opts.MaxIdleInterval))
	}
	return next
}

// deadlineReached fences one expired broker, so that the next one is judged by
// the state after it (KAFKA-13173), or writes a NoOp when the log is idle.
func (s *step) deadlineReached() {
	if s.fenceExpired() {
		return // another expired session keeps the deadline in the past
	}
	if s.nextBalance <= s.now.Mono {
		s.balance()
		return
	}
	if idle := s.opts.MaxIdleInterval; idle > 0 && s.now.Mono >= s.lastAppend.Add(idle) && s.tip.Version() != 0 {
		s.write(&record.NoOp{})
	}
}

// versioned gives a record the version that the tip's level asks for.
func (s *step) versioned(m record.Message) VersionedRecord {
	return VersionedRecord{m, s.tip.Version().RecordVersion(m)}
}

// write appends the records as one atomic batch.
func (s *step) write(ms ...record.Message) {
	if len(ms) == 0 {
		return
	}
	batch := make([]VersionedRecord, len(ms))
	for i, m := range ms {
		batch[i] = s.versioned(m)
	}
	s.out.Batches = append(s.out.Batches, batch)
}

// writeSplit appends records that need not be atomic in batches of bounded size.
func (s *step) writeSplit(ms []record.Message) {
	for len(ms) > 0 {
		n := min(len(ms), MaxRecordsPerOperation)
		s.write(ms[:n]...)
		ms = ms[n:]
	}
}

func (s *step) reply(token uint64, body any) {
	s.out.Replies = append(s.out.Replies, Reply{Token: token, Body: body})
}

func (s *step) fail(token uint64, code kafka.ErrorCode, message string) {
	s.out.Replies = append(s.out.Replies, Reply{Token: token, Code: code, Message: message})
}
