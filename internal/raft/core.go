package raft

import (
	"math/rand/v2"
	"slices"
	"time"

	"moldau/internal/kafka"
)

// Options are what the core is told once. Durations are Kafka's
// controller.quorum.*.ms.
type Options struct {
	ClusterID string
	Self      ReplicaKey
	// Endpoints are this node's controller listeners; nil on a broker.
	Endpoints          []kafka.Endpoint
	MinKRaft, MaxKRaft int16
	// CanBecomeVoter is true on controllers: they flush before they fetch even
	// as observers (KAFKA-17332).
	CanBecomeVoter bool
	// Bootstrap are nodes to ask for the leader; if empty, the voters are
	// asked. Negative ids stand for addresses whose node is not known.
	Bootstrap []kafka.NodeID

	ElectionTimeout    time.Duration // a timeout is drawn from [t, 2t)
	ElectionBackoffMax time.Duration
	FetchTimeout       time.Duration
	RequestTimeout     time.Duration
	RetryBackoff       time.Duration
	FetchMaxWait       time.Duration
	FetchMaxBytes      int
	SnapshotMaxBytes   int // of one part; 0 is FetchMaxBytes

	// FastFailover lets a follower act on LeaderConnectionLost. Off in quorums
	// with Apache Kafka's voters.
	FastFailover bool
	// AutoJoin lets an observer ask to become a voter (KIP-1186,
	// controller.quorum.auto.join.enable).
	AutoJoin bool
	// Seed of the random numbers for timeouts.
	Seed uint64
}

// Restored is what the shell found on disk.
type Restored struct {
	// Election is nil if there was no quorum-state.
	Election *ElectionState
	// Start is the log start offset, with the epoch of the snapshot that ends
	// there; zero for a log that begins at 0.
	Start kafka.OffsetAndEpoch
	// Snapshot is the newest snapshot other than the 0-0 checkpoint; zero if none.
	Snapshot kafka.OffsetAndEpoch
	// Epochs are the first offsets of the epochs in the log, ascending.
	Epochs []kafka.OffsetAndEpoch
	End    kafka.Offset
	// Control are the voters and kraft.version records of the static
	// configuration or checkpoint, then of the log, ascending by offset.
	Control []Control
}

// Role is what the replica does at the moment. Whether it is a voter or an
// observer is a matter of the voter set; an observer is never more than
// Unattached or Follower.
type Role int8

// The roles.
const (
	Unattached  Role = iota // knows no leader that it could fetch from
	Follower                // fetches from a leader
	Prospective             // asks whether it would be elected (pre-vote, KIP-996)
	Candidate               // asks for votes
	Leader
	Resigned // was leader of the epoch and can do nothing more in it
)

// String gives Kafka's name of the role.
func (r Role) String() string {
	return [...]string{"Unattached", "Follower", "Prospective", "Candidate", "Leader", "Resigned"}[r]
}

// Core is one replica; see the package comment. Make it with New.
type Core struct {
	opts Options
	rng  *rand.Rand

	now kafka.Now
	out *Effects

	role     Role
	election ElectionState
	stored   *ElectionState // what is on disk
	// leaderAddr are the endpoints of election.Leader, if somebody told them.
	leaderAddr []kafka.Endpoint

	log     logView
	history history
	// hw is the high watermark, NoOffset while it is unknown. It never falls.
	hw kafka.Offset

	// timer is the election timeout (Unattached, Prospective, Candidate,
	// Resigned) or the fetch timeout (Follower).
	timer   kafka.Mono
	nominee nominee
	follow  follow
	// gone is the leader that has said farewell or whose connection broke; a
	// fetch that it answers proves the contrary.
	gone   LeaderAndEpoch
	lead   *lead
	resign resigning
	// sealing is the snapshot that the shell verifies, Offset 0 if none. No
	// records are fetched meanwhile, over changes of role too: they would not
	// join the log that begins behind it.
	sealing kafka.OffsetAndEpoch

	peers    []peer
	nextID   uint64
	wake     kafka.Mono // when sending may go on
	shutdown bool
	dead     bool
	told     LeaderAndEpoch // last published
}

// follow is what a follower keeps about its leader.
type follow struct {
	fetched bool // a fetch has succeeded since we follow and the contact stands
	// download is the snapshot that the leader wants us to load.
	download download
	// update is when the leader may be told of our own entry in the voter set;
	// updated that it has taken it (kraft.version 0).
	update  kafka.Mono
	updated bool
}

// New makes a replica from what is on disk. Its first event must be Start.
func New(opts Options, disk Restored) *Core {
	c := &Core{
		opts:     opts,
		rng:      rand.New(rand.NewPCG(opts.Seed, uint64(opts.Self.ID)+1)),
		election: ElectionState{Leader: kafka.NoNode, Voted: NoReplica},
		hw:       kafka.NoOffset,
		timer:    kafka.Never,
		wake:     kafka.Never,
		told:     LeaderAndEpoch{Leader: kafka.NoNode, Epoch: kafka.NoEpoch},
		gone:     LeaderAndEpoch{Leader: kafka.NoNode},
	}
	c.log = logView{
		start: disk.Start, snapshot: disk.Snapshot, epochs: slices.Clone(disk.Epochs),
		end: disk.End, flushed: disk.Start.Offset,
	}
	if disk.Snapshot.Offset > 0 {
		c.hw = disk.Snapshot.Offset // only committed records are in a snapshot
	}
	if c.opts.SnapshotMaxBytes == 0 {
		c.opts.SnapshotMaxBytes = opts.FetchMaxBytes
	}
	c.history.add(disk.Control...)
	if disk.Election != nil {
		c.election = *disk.Election
		e := *disk.Election
		c.stored = &e
	}
	return c
}

// Step handles one event at now and appends to out what must be done.
func (c *Core) Step(now kafka.Now, ev Event, out *Effects) {
	if c.dead {
		return
	}
	c.now, c.out = now, out
	c.handle(ev)
	if c.dead {
		*out = Effects{Fatal: out.Fatal} // nothing may leave a broken replica
		return
	}
	c.membership()
	c.expire()
	if c.dead {
		*out = Effects{Fatal: out.Fatal}
		return
	}
	c.answerParked()
	if f, ok := c.log.startFlush(); ok && c.mustFlush() {
		out.Flush = &f
	}
	c.send()
	c.finish()
}

// Deadline is when the core wants the next DeadlineReached, at the latest.
func (c *Core) Deadline() kafka.Mono {
	if c.dead {
		return kafka.Never
	}
	return min(c.roleDeadline(), c.wake)
}

func (c *Core) handle(ev Event) {
	switch e := ev.(type) {
	case Start:
		c.start()
	case DeadlineReached:
	case Request:
		c.handleRequest(e)
	case Response:
		c.handleResponse(e)
	case RequestFailed:
		c.requestFailed(e.To, e.ID)
	case Flushed:
		if c.log.flushDone(e.Flush) && c.role == Leader {
			c.advance()
		}
	case Propose:
		c.out.Rejected = c.propose(e)
	case Resign:
		if c.role == Leader && c.election.Epoch == e.Epoch {
			c.becomeResigned()
		}
	case Shutdown:
		c.shutdown = true
		if c.role == Leader {
			c.becomeResigned()
		}
	case LeaderConnectionLost:
		c.connectionLost(e.Leader)
	case SnapshotSealed:
		c.snapshotSealed(e)
	case SnapshotCreated:
		if e.ID.Offset > c.log.snapshot.Offset {
			c.log.snapshot = e.ID
		}
	case LogStartMoved:
		c.logStartMoved(e.Start)
	}
}

// finish turns what changed into effects.
func (c *Core) finish() {
	if c.stored == nil || *c.stored != c.election {
		e := c.election
		c.stored = &e
		c.out.Persist, c.out.KRaft = &e, c.KRaftVersion()
	}
	if l := (LeaderAndEpoch{c.election.Leader, c.election.Epoch}); l != c.told {
		c.told = l
		c.out.Leader = &l
	}
	c.out = nil
}

func (c *Core) fatal(err error) {
	if c.out.Fatal == nil {
		c.out.Fatal = err
	}
	c.dead = true
}

func (c *Core) logStartMoved(start kafka.OffsetAndEpoch) {
	if start.Offset <= c.log.start.Offset {
		return
	}
	c.log.start = start
	c.log.flushed = max(c.log.flushed, start.Offset)
	var keep []kafka.OffsetAndEpoch
	for i, e := range c.log.epochs {
		end := c.log.end
		if i+1 < len(c.log.epochs) {
			end = c.log.epochs[i+1].Offset
		}
		if end > start.Offset {
			e.Offset = max(e.Offset, start.Offset)
			keep = append(keep, e)
		}
	}
	c.log.epochs = keep
	c.history.compact(start.Offset)
}

// membership adjusts the election or fetch timer when a record that was
// appended, cut or loaded has made a voter of this node, or an observer.
func (c *Core) membership() {
	switch {
	case c.role == Leader || c.role == Resigned:
	case c.role == Prospective || c.role == Candidate:
		if !c.mayStand() {
			c.afterLostPreVote() // a loaded snapshot says so
		}
	case !c.mayStand():
		c.timer = kafka.Never
	case c.timer != kafka.Never:
	case c.role == Follower:
		c.timer = c.now.Mono.Add(c.opts.FetchTimeout)
	default:
		c.timer = c.electionTimeout()
	}
}

// mustFlush tells whether this replica's positions may be counted by a leader.
func (c *Core) mustFlush() bool {
	return (c.opts.CanBecomeVoter || c.isVoter()) && !mutantSkipFsync
}

// positionOnDisk tells whether the end of the log may be revealed.
func (c *Core) positionOnDisk() bool { return c.log.flushed >= c.log.end || !c.mustFlush() }

func (c *Core) voters() VoterSet {
	at := c.log.end
	if mutantVotersLate {
		at = min(at, c.hw)
	}
	s, _ := c.history.votersAt(at)
	return s
}

func (c *Core) isVoter() bool { return c.voters().Contains(c.opts.Self) }

// mayStand tells whether this replica may be elected: it is a voter, or was one
// before a removal that is not known to be committed. The others may not know of
// the removal, and need the longer log of this replica, or its vote, to commit
// it (Ongaro, Consensus, 4.2.2). Pre-votes keep it from disturbing a leader.
func (c *Core) mayStand() bool {
	voters, at := c.history.votersAt(c.log.end)
	for !voters.Contains(c.opts.Self) {
		if at < 0 || at < c.hw {
			return false
		}
		voters, at = c.history.votersAt(at - 1) // acts for those who do not know the later one
	}
	return true
}

func (c *Core) onlyVoter() bool { return c.voters().Len() == 1 && c.isVoter() }

// draw gives a random duration from [0, d).
func (c *Core) draw(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(c.rng.Int64N(int64(d)))
}

func (c *Core) electionTimeout() kafka.Mono {
	return c.now.Mono.Add(c.opts.ElectionTimeout + c.draw(c.opts.ElectionTimeout))
}

func (c *Core) leadership(err kafka.ErrorCode) Leadership {
	l := Leadership{Error: err, LeaderID: c.election.Leader, LeaderEpoch: c.election.Epoch}
	if c.role == Leader || c.role == Resigned {
		l.Endpoints = c.opts.Endpoints
	} else if l.LeaderID != kafka.NoNode {
		l.Endpoints = c.leaderAddr
	}
	return l
}
