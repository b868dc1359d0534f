package quorum

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// flushWork is a flush on its way to the flusher and back.
type flushWork struct {
	flush raft.Flush
	job   FlushJob
	err   error
}

// flusher runs the flushes, of which the core starts one at a time.
func (q *Quorum) flusher() {
	defer q.workers.Done()
	for w := range q.flushes {
		w.err = w.job.Run()
		select {
		case q.inbox <- input{flushed: &w}:
		case <-q.done:
		}
	}
}

// loop owns everything. It sleeps until there is input or a core's deadline.
func (q *Quorum) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	q.step(raft.Start{})
	for q.failed == nil {
		timer.Reset(q.sleep())
		select {
		case in := <-q.inbox:
			q.take(in)
		case <-timer.C:
			q.wake()
		case <-q.stop:
			q.step(raft.Shutdown{})
			q.end(nil)
			return
		}
	}
	q.end(q.failed)
}

// maxSleep is how long the loop sleeps when no core has a deadline.
const maxSleep = 24 * time.Hour

func (q *Quorum) sleep() time.Duration {
	at := min(q.raftAt, q.snap.deadline())
	if q.ctl != nil {
		at = min(at, q.ctl.Deadline())
	}
	if at == kafka.Never {
		return maxSleep
	}
	return min(max(at.Sub(q.opts.Clock().Mono), 0), maxSleep)
}

// wake tells the cores whose time has come.
func (q *Quorum) wake() {
	now := q.opts.Clock()
	if q.raftAt <= now.Mono {
		q.step(raft.DeadlineReached{})
	}
	if q.ctl != nil && q.failed == nil && q.ctl.Deadline() <= now.Mono {
		q.ctlDeadline()
	}
	q.maybeSnapshot()
}

func (q *Quorum) take(in input) {
	switch {
	case in.raft != nil:
		q.receive(in.raft)
	case in.submit != nil:
		q.request(in.submit)
	case in.flushed != nil:
		q.flushed(in.flushed)
	case in.snapshot != nil:
		q.snapshotDone(in.snapshot)
	case in.lost != nil:
		if q.ctl != nil && q.led != kafka.NoEpoch {
			q.control(*in.lost)
		}
	case in.sealed != nil:
		q.sealed(in.sealed)
	case in.describe != nil:
		in.describe <- q.core.Describe(q.opts.Clock())
	}
}

// receive parses fetched records before the core sees the answer. One that
// cannot be parsed is as good as lost.
func (q *Quorum) receive(ev raft.Event) {
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

func (q *Quorum) flushed(w *flushWork) {
	err := w.err
	if err == nil {
		err = w.job.Done()
	}
	if err != nil {
		q.fail(err)
		return
	}
	q.step(raft.Flushed{Flush: w.flush})
}

// step gives the raft core an event and performs its effects.
func (q *Quorum) step(ev raft.Event) (rejected error) {
	if q.failed != nil {
		return q.failed
	}
	now := q.opts.Clock()
	var out raft.Effects
	q.core.Step(now, ev, &out)
	env := Env{Disk: q.store, Net: q.opts.Net, Timer: q, App: q}
	if env.Net == nil {
		env.Net = nowhere{}
	}
	if err := Perform(q.core, &out, now, env); err != nil {
		q.fail(err)
		return err
	}
	if q.newLed != nil {
		epoch := *q.newLed
		q.newLed = nil
		q.lead(epoch)
	}
	return out.Rejected
}

// nowhere is the network of a quorum of one.
type nowhere struct{}

func (nowhere) Request(raft.Outgoing) {}
func (nowhere) Reply(raft.Reply)      {}

// Set implements Timer.
func (q *Quorum) Set(at kafka.Mono) { q.raftAt = at }

func (q *Quorum) warn(msg string, err error) {
	if q.opts.Warn != nil {
		q.opts.Warn(msg, err)
	}
}

// fail ends the loop: no effect is performed any more.
func (q *Quorum) fail(err error) {
	if q.failed == nil {
		q.failed = err
	}
}

// end fails what waits and closes the store; err is nil for an orderly stop.
func (q *Quorum) end(err error) {
	defer close(q.ended)
	q.closing.Store(true)
	info := q.core.Describe(q.opts.Clock())
	q.info.Store(&info)
	close(q.flushes)
	close(q.done)
	q.failAll(ErrStopped)
	q.workers.Wait()
	for {
		select {
		case in := <-q.inbox:
			if in.submit != nil {
				in.submit.done(nil, ErrStopped)
			}
			continue
		default:
		}
		break
	}
	if err == nil {
		q.failed = q.store.Close()
		return
	}
	if q.opts.Fatal != nil {
		q.opts.Fatal(errors.Join(errFatal, err, advice(q.opts.Dir, err)))
	}
}

var errFatal = errors.New("the metadata quorum cannot go on")

// advice says what to do about an error, if anybody can.
func advice(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("the disk of %s is full: free space there, then start again; nothing that was acknowledged is lost", dir)
	}
	return nil
}
