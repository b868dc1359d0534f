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

// ErrorMessage is what the client is told besides.
func (e *ReplyError) ErrorMessage() string { return e.Message }

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
	// Watch sees each step of the raft core before its effects are performed;
	// it is for the simulator's checkers. May be nil.
	Watch func(ev raft.Event, out *raft.Effects)
}

// SnapshotConfig says when snapshots are made and how long old ones stay.
type SnapshotConfig struct {
	MaxBytes       int64 // metadata.log.max.record.bytes.between.snapshots
	MaxIntervalMs  int64 // metadata.log.max.snapshot.interval.ms; 0 is never
	RetentionBytes int64 // metadata.max.retention.bytes; −1 is no bound
	RetentionMs    int64 // metadata.max.retention.ms; −1 is for ever
}

// Quorum is the node's replica with a loop around it; see the package comment.
type Quorum struct {
	replica *Replica // belongs to the loop
	opts    Options

	inbox   chan input
	flushes chan job
	stop    chan struct{}
	done    chan struct{} // closed when nothing more is taken
	ended   chan struct{} // closed when all is over
	workers sync.WaitGroup
	queued  atomic.Int64
	closing atomic.Bool
	started atomic.Bool
	once    sync.Once
	info    atomic.Pointer[raft.Info] // of the end
	err     error                     // of the end
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
	finished func() // by a worker
	describe chan<- raft.Info
	lost     *controller.BrokerConnectionLost
}

type submission struct {
	body    any
	arrived kafka.Mono
	done    func(any, error)
}

// Open recovers the folder; see OpenReplica.
func Open(opts Options) (*Quorum, error) {
	if opts.Clock == nil {
		opts.Clock = systemClock()
	}
	q := &Quorum{
		opts: opts, inbox: make(chan input, maxQueued), flushes: make(chan job, 1),
		stop: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{}),
	}
	var err error
	if q.replica, err = OpenReplica(opts, executor{q}); err != nil {
		return nil, err
	}
	return q, nil
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
	q.replica.Subscribe(f)
}

// Start begins to take part in the quorum.
func (q *Quorum) Start() {
	q.started.Store(true)
	q.workers.Add(1)
	go q.flusher()
	q.replica.Start()
	go q.loop()
}

// Leave takes this node out of the quorum in peace, some time before Stop: a
// leader tells the others, who elect another while this node still answers them.
// It returns at once.
func (q *Quorum) Leave() { q.Deliver(raft.Shutdown{}) }

// Stop ends the loop, after a leader has told the others, and closes the log.
// Waiting requests fail with ErrStopped.
func (q *Quorum) Stop(ctx context.Context) error {
	q.closing.Store(true)
	if !q.started.Load() {
		return q.replica.Close()
	}
	q.once.Do(func() { close(q.stop) })
	select {
	case <-q.ended:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("stop the metadata quorum: %w", ctx.Err())
	}
}

// Submit gives a request to the active controller. done is called once, on the
// loop, with the response or an error; it must not block. If the request was
// decided, that is after everything that the answer rests on is committed.
func (q *Quorum) Submit(_ Context, body any, done func(resp any, err error)) {
	now := q.replica.Arrived(body) // also if the queue is full
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
func (q *Quorum) Image() *metadata.Image { return q.replica.Image() }

// Leader is the newest known pair of leader and epoch.
func (q *Quorum) Leader() raft.LeaderAndEpoch { return q.replica.Leader() }

// Voters are the newest known voters, with their endpoints.
func (q *Quorum) Voters() raft.VoterSet { return q.replica.Voters() }

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
	return q.replica.core.Describe(q.opts.Clock())
}
