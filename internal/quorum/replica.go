package quorum

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// Executor does what takes long away from the replica. Each calls work on any
// goroutine and then done with its error on the replica's own, never before it
// has returned itself. Nothing is called once the replica has ended.
type Executor interface {
	// Flush is given one job at a time.
	Flush(work func() error, done func(error))
	// Background runs work beside flushes: snapshots.
	Background(work func() error, done func(error))
}

// Replica is the shell without goroutines, clocks and channels of its own: raft
// core, controller core, their files and the write path. Whoever owns it feeds
// it events and wakes it at Deadline. Quorum owns one with a loop, the simulator
// many in virtual time; both run the same code.
//
// Its methods belong to one goroutine, except Image, Leader, Voters and Arrived.
type Replica struct {
	opts  Options
	exec  Executor
	store *Store
	core  *raft.Core
	ctl   *controller.Core // nil without the controller role

	heard       contacts
	image       atomic.Pointer[metadata.Image]
	leader      atomic.Pointer[raft.LeaderAndEpoch]
	voters      atomic.Pointer[raft.VoterSet]
	subscribers []func(*metadata.Delta, *metadata.Image)

	raftAt kafka.Mono
	led    kafka.Epoch // NoEpoch unless this node leads and has been told
	newLed *kafka.Epoch
	// lostLeader is the last leader if its connection broke and nobody else has
	// led since.
	lostLeader *kafka.NodeID
	// upgraded is the raft core's answer to raiseKRaft.
	upgraded *raft.UpgradeResponse
	tip      *metadata.Image
	pending  []appended
	waiting  []waiter
	tokens   map[uint64]func(any, error)
	nextTok  uint64
	snap     snapshots
	fetched  *sealedImage // a downloaded snapshot that raft will load
	failed   error
	closed   bool
}

// OpenReplica recovers the folder: newest valid snapshot, then the log's tail.
// What of the tail is committed is known only when a leader says so (Trap 6).
func OpenReplica(opts Options, exec Executor) (*Replica, error) {
	q := &Replica{
		opts: opts, exec: exec, led: kafka.NoEpoch, tokens: map[uint64]func(any, error){}, raftAt: kafka.Never,
	}
	if q.opts.Net == nil {
		q.opts.Net = nowhere{}
	}
	if err := q.load(); err != nil {
		return nil, errors.Join(err, advice(opts.Dir, err))
	}
	if opts.Controller != nil {
		co := *opts.Controller
		if len(co.Bootstrap) == 0 {
			boot, err := ReadBootstrap(opts.FS, opts.Dir)
			if err != nil {
				return nil, errors.Join(err, q.store.Close())
			}
			co.Bootstrap = boot
		}
		q.askCore(&co)
		q.ctl = controller.New(co)
	}
	return q, nil
}

// load opens the store and makes the image of the snapshot.
func (q *Replica) load() error {
	wall := func() kafka.WallMs { return q.opts.Clock().Wall }
	var delta *metadata.Delta
	store, rec, err := OpenStore(StoreOptions{
		FS: q.opts.FS, Dir: q.opts.Dir, Static: q.opts.Static, Warn: q.opts.Warn,
		OpenLog: func(folder string) (Log, error) {
			return OpenSegments(q.opts.FS, folder, q.opts.Log, wall, q.opts.Warn)
		},
		Flush: q.flush,
		Seal:  q.seal,
	}, func() func(record.Message, int16) error {
		delta = metadata.NewDelta(metadata.Empty())
		return func(m record.Message, _ int16) error { return delta.Replay(m) }
	})
	if err != nil {
		return err
	}
	if err := mayVote(q.opts, rec.Raft); err != nil {
		return errors.Join(err, store.Close())
	}
	img := metadata.Empty()
	if rec.Snapshot.Offset > 0 {
		img = delta.Apply(metadata.Provenance{
			EndOffset: rec.Snapshot.Offset, Epoch: rec.Snapshot.Epoch, TimestampMs: rec.LastContained,
		})
	}
	q.store, q.tip = store, img
	q.image.Store(img)
	q.core = raft.New(q.opts.Raft, rec.Raft)
	q.snap.cfg = q.opts.Snapshots
	q.snap.begin()
	q.leader.Store(&raft.LeaderAndEpoch{Leader: kafka.NoNode, Epoch: kafka.NoEpoch})
	return nil
}

// ErrVoteForgotten: the file that holds this voter's vote is gone.
var ErrVoteForgotten = errors.New("quorum-state is missing")

// mayVote refuses a quorum-state that cannot be true, and a voter among others that has a log, but no quorum-state: it
// may have voted in an epoch that its log does not show, and would vote again
// (HC-006). A quorum of one has nobody to contradict it.
func mayVote(opts Options, disk raft.Restored) error {
	if disk.Election != nil {
		last := disk.Start.Epoch
		if n := len(disk.Epochs); n > 0 {
			last = disk.Epochs[n-1].Epoch
		}
		if e := disk.Election.Epoch; !raft.PlausibleEpoch(e, last) {
			return fmt.Errorf("%s/%s/%s: %w: leaderEpoch %d, but the last epoch of the log is %d; %s",
				opts.Dir, Folder, quorumStateFile, ErrQuorumState, e, last, replaceVoter)
		}
		return nil
	}
	if disk.End == 0 {
		return nil
	}
	var voters raft.VoterSet
	for _, c := range disk.Control {
		if c.Voters != nil {
			voters = *c.Voters
		}
	}
	if voters.Len() < 2 || !voters.Contains(opts.Raft.Self) {
		return nil
	}
	return fmt.Errorf("%w in %s/%s: node %d is one of the voters %s and may have voted already; %s",
		ErrVoteForgotten, opts.Dir, Folder, opts.Raft.Self.ID, voters, replaceVoter)
}

// Subscribe adds someone who is told of every committed change, in offset
// order: f must be quick and hand over what takes long. The first call for a
// node that starts from a snapshot is the step from the empty image. To be
// called before Start.
func (q *Replica) Subscribe(f func(delta *metadata.Delta, img *metadata.Image)) {
	q.subscribers = append(q.subscribers, f)
}

// Start begins to take part in the quorum.
func (q *Replica) Start() {
	if img := q.image.Load(); img.Provenance().EndOffset > 0 {
		delta := metadata.Diff(metadata.Empty(), img)
		for _, f := range q.subscribers {
			f(delta, img)
		}
	}
	q.step(raft.Start{})
}

// Image is the newest committed image.
func (q *Replica) Image() *metadata.Image { return q.image.Load() }

// Leader is the newest known pair of leader and epoch.
func (q *Replica) Leader() raft.LeaderAndEpoch { return *q.leader.Load() }

// Voters are the newest known voters, with their endpoints.
func (q *Replica) Voters() raft.VoterSet {
	if set := q.voters.Load(); set != nil {
		return *set
	}
	return raft.VoterSet{}
}

// Core is for looking only.
func (q *Replica) Core() *raft.Core { return q.core }

// Store is for looking only.
func (q *Replica) Store() *Store { return q.store }

// Err is why the replica has ended; nothing happens in it any more.
func (q *Replica) Err() error { return q.failed }

// Deadline is when Wake is due.
func (q *Replica) Deadline() kafka.Mono {
	at := min(q.raftAt, q.snap.deadline())
	if q.ctl != nil {
		at = min(at, q.ctl.Deadline())
	}
	return at
}

// Wake tells the cores whose time has come. It may come late or without need.
func (q *Replica) Wake() {
	now := q.opts.Clock()
	if q.raftAt <= now.Mono {
		q.step(raft.DeadlineReached{})
	}
	if q.ctl != nil && q.failed == nil && q.ctl.Deadline() <= now.Mono {
		q.ctlDeadline()
	}
	q.maybeSnapshot()
}

// Receive takes a message of another replica. It parses fetched records before
// the core sees the answer; one that cannot be parsed is as good as lost.
func (q *Replica) Receive(ev raft.Event) {
	if lost, ok := ev.(raft.LeaderConnectionLost); ok && lost.Leader == q.leader.Load().Leader {
		q.lostLeader = &lost.Leader
	}
	if r, ok := ev.(raft.Response); ok {
		if f, ok := r.Body.(*raft.FetchResponse); ok {
			if err := ParseFetched(f); err != nil {
				q.warn("fetched records dropped", err)
				ev = raft.RequestFailed{To: r.From, ID: r.ID}
			}
		}
	}
	q.step(ev)
}

// Shutdown leaves the quorum in peace: a leader tells the others.
func (q *Replica) Shutdown() { q.step(raft.Shutdown{}) }

// Abandon fails every request that waits, with ErrStopped. Nothing may be asked
// of the replica any more but Close.
func (q *Replica) Abandon() {
	q.closed = true
	q.failAll(ErrStopped)
}

// Close closes the log.
func (q *Replica) Close() error { return q.store.Close() }

// flush has the log made durable by the executor.
func (q *Replica) flush(f raft.Flush, job FlushJob) {
	q.exec.Flush(job.Run, func(err error) {
		if err == nil {
			err = job.Done()
		}
		if err != nil {
			q.fail(err)
			return
		}
		q.step(raft.Flushed{Flush: f})
	})
}

// step gives the raft core an event and performs its effects.
func (q *Replica) step(ev raft.Event) (rejected error) {
	if q.failed != nil {
		return q.failed
	}
	now := q.opts.Clock()
	var out raft.Effects
	q.core.Step(now, ev, &out)
	if q.opts.Watch != nil {
		q.opts.Watch(ev, &out)
	}
	env := Env{Disk: q.store, Net: ownAnswers{q.opts.Net, q}, Timer: q, App: q}
	if err := Perform(q.core, &out, now, env); err != nil {
		q.fail(err)
		return err
	}
	if q.newLed != nil {
		epoch := *q.newLed
		q.newLed = nil
		q.lead(epoch)
	}
	if q.led != kafka.NoEpoch && (q.core.Role() != raft.Leader || q.core.Election().Epoch != q.led) {
		panic(fmt.Sprintf("quorum: the controller acts for epoch %d, which this node does not lead", q.led))
	}
	return out.Rejected
}

// nowhere is the network of a quorum of one.
type nowhere struct{}

func (nowhere) Request(raft.Outgoing) {}
func (nowhere) Reply(raft.Reply)      {}
func (nowhere) Room() int             { return math.MaxInt }

// Set implements Timer.
func (q *Replica) Set(at kafka.Mono) { q.raftAt = at }

func (q *Replica) warn(msg string, err error) {
	if q.opts.Warn != nil {
		q.opts.Warn(msg, err)
	}
}

// fail ends the replica: no effect is performed any more.
func (q *Replica) fail(err error) {
	if q.failed == nil {
		q.failed = err
	}
}

// advice says what to do about an error, if anybody can.
func advice(dir string, err error) error {
	switch {
	case vfs.NoDescriptor(err):
		return fmt.Errorf("no file could be opened in %s: raise the limit of open files, of this process or of the system, then start again; nothing that was acknowledged is lost", dir)
	case vfs.Exhausted(err):
		return fmt.Errorf("the disk of %s is full: free space there, then start again; nothing that was acknowledged is lost", dir)
	}
	return nil
}
