package quorum

import (
	"errors"
	"time"

	"moldau/internal/kafka"
)

// job is work for a worker, and what the loop does with its outcome.
type job struct {
	work func() error
	done func(error)
}

// executor is the Quorum as its replica sees it: workers do what takes long.
type executor struct{ q *Quorum }

// Flush implements Executor.
func (e executor) Flush(work func() error, done func(error)) { e.q.flushes <- job{work, done} }

// Background implements Executor.
func (e executor) Background(work func() error, done func(error)) {
	e.q.workers.Add(1)
	go func() {
		defer e.q.workers.Done()
		e.q.run(job{work, done})
	}()
}

func (q *Quorum) run(j job) {
	err := j.work()
	select {
	case q.inbox <- input{finished: func() { j.done(err) }}:
	case <-q.done:
	}
}

// flusher runs the flushes, of which the core starts one at a time.
func (q *Quorum) flusher() {
	defer q.workers.Done()
	for j := range q.flushes {
		q.run(j)
	}
}

// loop owns the replica. It sleeps until there is input or a deadline.
func (q *Quorum) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	r := q.replica
	for r.Err() == nil {
		timer.Reset(q.sleep())
		select {
		case in := <-q.inbox:
			q.take(in)
		case <-timer.C:
			r.Wake()
		case <-q.stop:
			r.Shutdown()
			q.end(nil)
			return
		}
	}
	q.end(r.Err())
}

// maxSleep is how long the loop sleeps when nothing has a deadline.
const maxSleep = 24 * time.Hour

func (q *Quorum) sleep() time.Duration {
	at := q.replica.Deadline()
	if at == kafka.Never {
		return maxSleep
	}
	return min(max(at.Sub(q.opts.Clock().Mono), 0), maxSleep)
}

func (q *Quorum) take(in input) {
	switch {
	case in.raft != nil:
		q.replica.Receive(in.raft)
	case in.submit != nil:
		q.replica.Submit(in.submit.body, in.submit.arrived, in.submit.done)
	case in.finished != nil:
		in.finished()
	case in.lost != nil:
		q.replica.BrokerConnectionLost(*in.lost)
	case in.describe != nil:
		in.describe <- q.replica.core.Describe(q.opts.Clock())
	}
}

// end fails what waits and closes the log; err is nil for an orderly stop.
func (q *Quorum) end(err error) {
	defer close(q.ended)
	q.closing.Store(true)
	info := q.replica.core.Describe(q.opts.Clock())
	q.info.Store(&info)
	close(q.flushes)
	close(q.done)
	q.replica.Abandon()
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
	if q.err = err; err == nil {
		q.err = q.replica.Close()
		return
	}
	if q.opts.Fatal != nil {
		q.opts.Fatal(errors.Join(errFatal, err, advice(q.opts.Dir, err)))
	}
}

var errFatal = errors.New("the metadata quorum cannot go on")
