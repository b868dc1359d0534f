package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// maxQueued bounds the requests that wait for the loop, and the requests whose
// reply waits for a commit.
const maxQueued = 10_000

// Errors of Submit.
var (
	// ErrNotController: this node is not the active controller, or ceased to be
	// before the outcome was known.
	ErrNotController = errors.New("not the active controller")
	// ErrQueueFull: too many requests wait already.
	ErrQueueFull = errors.New("the controller's queue is full")
	// ErrStopped: the node is stopping, or has failed.
	ErrStopped = errors.New("the controller has stopped")
)

// ReplyError is a request that failed as a whole.
type ReplyError struct {
	Code    kafka.ErrorCode
	Message string
}

// Error gives the code and the message.
func (e *ReplyError) Error() string { return e.Code.String() + ": " + e.Message }

// ErrorCode is what the client is told.
func (e *ReplyError) ErrorCode() kafka.ErrorCode { return e.Code }

// Options of a Quorum.
type Options struct {
	FS  vfs.FS
	Dir string // metadata log directory; the folder is made in it

	Raft raft.Options
	// Static are the voters of controller.quorum.voters (kraft.version 0).
	Static raft.VoterSet
	// Controller configures the controller core; nil on a node without that
	// role. Its Bootstrap is filled from the checkpoint of format if empty.
	Controller *controller.Options
	Log        LogConfig
	Snapshots  SnapshotConfig

	// Net sends to other replicas; nil if there are none. Its methods are
	// called on the loop and must not block.
	Net Net
	// Clock gives both clocks; nil is the system's.
	Clock func() kafka.Now
	// Fatal is called once, with the error that ends the process (HC-007).
	Fatal func(error)
	// LeaderChanged hears of every new pair of leader and epoch, on the loop; it
	// must not block. May be nil.
	LeaderChanged func(raft.LeaderAndEpoch)
	// Warn tells of oddities found at start; may be nil.
	Warn func(msg string, err error)
}

// SnapshotConfig says when snapshots are made and how long old ones stay.
type SnapshotConfig struct {
	MaxBytes       int64 // metadata.log.max.record.bytes.between.snapshots
	MaxIntervalMs  int64 // metadata.log.max.snapshot.interval.ms; 0 is never
	RetentionBytes int64 // metadata.max.retention.bytes; −1 is no bound
	RetentionMs    int64 // metadata.max.retention.ms; −1 is for ever
}

// Quorum is the node's replica; see the package comment.
type Quorum struct {
	opts  Options
	store *Store
	core  *raft.Core
	ctl   *controller.Core // nil without the controller role

	inbox   chan input
	flushes chan flushWork
	stop    chan struct{}
	done    chan struct{} // closed when nothing more is taken
	ended   chan struct{} // closed when all is over
	workers sync.WaitGroup
	queued  atomic.Int64
	closing atomic.Bool
	started atomic.Bool
	once    sync.Once

	heard       contacts
	image       atomic.Pointer[metadata.Image]
	leader      atomic.Pointer[raft.LeaderAndEpoch]
	voters      atomic.Pointer[raft.VoterSet]
	info        atomic.Pointer[raft.Info]
	subscribers []func(*metadata.Delta, *metadata.Image)

	// The rest belongs to the loop.
	raftAt kafka.Mono
	led    kafka.Epoch // NoEpoch unless this node leads and has been told
	newLed *kafka.Epoch
	// lostLeader is the last leader if its connection broke and nobody else has
	// led since.
	lostLeader *kafka.NodeID
	tip        *metadata.Image
	pending    []appended
	waiting    []waiter
	tokens     map[uint64]func(any, error)
	nextTok    uint64
	snap       snapshots
	fetched    *sealedImage // a downloaded snapshot that raft will load
	failed     error
}

// Context says who sent a request. The controller core judges the body alone;
// authorization has happened before.
type Context struct {
	Principal string
	Listener  string
}

// input is something for the loop to do; exactly one field is set.
type input struct {
	raft     raft.Event
	submit   *submission
	flushed  *flushWork
	snapshot *snapshotDone
	sealed   *sealedImage
	describe chan<- raft.Info
	lost     *controller.BrokerConnectionLost
}

type submission struct {
	body    any
	arrived kafka.Mono
	done    func(any, error)
}

// Open recovers the folder: newest valid snapshot, then the log's tail. What of
// the tail is committed is known only when a leader says so (Trap 6).
func Open(opts Options) (*Quorum, error) {
	if opts.Clock == nil {
		opts.Clock = systemClock()
	}
	q := &Quorum{
		opts: opts, led: kafka.NoEpoch, tokens: map[uint64]func(any, error){},
		inbox: make(chan input, maxQueued), flushes: make(chan flushWork, 1),
		stop: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{}), raftAt: kafka.Never,
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
func (q *Quorum) load() error {
	wall := func() kafka.WallMs { return q.opts.Clock().Wall }
	var delta *metadata.Delta
	store, rec, err := OpenStore(StoreOptions{
		FS: q.opts.FS, Dir: q.opts.Dir, Static: q.opts.Static, Warn: q.opts.Warn,
		OpenLog: func(folder string) (Log, error) {
			return OpenSegments(q.opts.FS, folder, q.opts.Log, wall, q.opts.Warn)
		},
		Flush: func(f raft.Flush, job FlushJob) { q.flushes <- flushWork{flush: f, job: job} },
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
	q.snap.begin(img.Provenance())
	q.leader.Store(&raft.LeaderAndEpoch{Leader: kafka.NoNode, Epoch: kafka.NoEpoch})
	return nil
}

// ErrVoteForgotten: the file that holds this voter's vote is gone.
var ErrVoteForgotten = errors.New("quorum-state is missing")

// mayVote refuses a voter among others that has a log, but no quorum-state: it
// may have voted in an epoch that its log does not show, and would vote again
// (HC-006). A quorum of one has nobody to contradict it.
func mayVote(opts Options, disk raft.Restored) error {
	if disk.Election != nil || disk.End == 0 {
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
	return fmt.Errorf("%w in %s/%s: node %d is one of the voters %s and may have voted already; restore the file, or replace this voter: remove it from the quorum, format its metadata directory anew, and add it again",
		ErrVoteForgotten, opts.Dir, Folder, opts.Raft.Self.ID, voters)
}

func systemClock() func() kafka.Now {
	start := time.Now()
	return func() kafka.Now {
		now := time.Now()
		return kafka.Now{Mono: kafka.Mono(now.Sub(start)), Wall: kafka.WallMs(now.UnixMilli())}
	}
}

// Subscribe adds someone who is told of every committed change, in offset
// order, on the loop: f must be quick and hand over what takes long. The first
// call for a node that starts from a snapshot is the step from the empty image.
// To be called before Start.
func (q *Quorum) Subscribe(f func(delta *metadata.Delta, img *metadata.Image)) {
	if q.started.Load() {
		panic("quorum: Subscribe after Start")
	}
	q.subscribers = append(q.subscribers, f)
}

// Start begins to take part in the quorum.
func (q *Quorum) Start() {
	q.started.Store(true)
	if img := q.image.Load(); img.Provenance().EndOffset > 0 {
		delta := metadata.Diff(metadata.Empty(), img)
		for _, f := range q.subscribers {
			f(delta, img)
		}
	}
	q.workers.Add(1)
	go q.flusher()
	go q.loop()
}

// Stop ends the loop, after a leader has told the others, and closes the log.
// Waiting requests fail with ErrStopped.
func (q *Quorum) Stop(ctx context.Context) error {
	q.closing.Store(true)
	if !q.started.Load() {
		return q.store.Close()
	}
	q.once.Do(func() { close(q.stop) })
	select {
	case <-q.ended:
		return q.failed
	case <-ctx.Done():
		return fmt.Errorf("stop the metadata quorum: %w", ctx.Err())
	}
}

// Submit gives a request to the active controller. done is called once, on the
// loop, with the response or an error; it must not block. If the request was
// decided, that is after everything that the answer rests on is committed.
func (q *Quorum) Submit(_ Context, body any, done func(resp any, err error)) {
	now := q.opts.Clock().Mono
	q.heard.note(body, now) // also if the queue is full
	switch {
	case q.closing.Load():
		done(nil, ErrStopped)
	case q.queued.Add(1) > maxQueued:
		q.queued.Add(-1)
		done(nil, ErrQueueFull)
	default:
		finish := func(resp any, err error) {
			q.queued.Add(-1)
			done(resp, err)
		}
		select {
		case q.inbox <- input{submit: &submission{body: body, arrived: now, done: finish}}:
		case <-q.done:
			finish(nil, ErrStopped)
		}
	}
}

// Deliver gives the loop a message of another replica. It reports false if the
// node has stopped.
func (q *Quorum) Deliver(ev raft.Event) bool {
	select {
	case q.inbox <- input{raft: ev}:
		return true
	case <-q.done:
		return false
	}
}

// Image is the newest committed image.
func (q *Quorum) Image() *metadata.Image { return q.image.Load() }

// Leader is the newest known pair of leader and epoch.
func (q *Quorum) Leader() raft.LeaderAndEpoch { return *q.leader.Load() }

// Voters are the newest known voters, with their endpoints.
func (q *Quorum) Voters() raft.VoterSet {
	if set := q.voters.Load(); set != nil {
		return *set
	}
	return raft.VoterSet{}
}

// Describe tells about the quorum. Before Start and after Stop it tells what
// was last known.
func (q *Quorum) Describe() raft.Info {
	answer := make(chan raft.Info, 1)
	if q.started.Load() {
		select {
		case q.inbox <- input{describe: answer}:
			select {
			case info := <-answer:
				return info
			case <-q.done:
			}
		case <-q.done:
		}
		return *q.info.Load()
	}
	return q.core.Describe(q.opts.Clock())
}
