package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"moldau/internal/kafka"
)

// errEnded tells Send that the link is gone.
var errEnded = errors.New("link has ended")

// pending is a request that is not answered yet.
type pending struct {
	Request
	deadline time.Time
	corr     int32
}

// link is the way to one node. Its goroutine, run, connects, writes, and ends
// connections; each connection has another one that reads.
type link struct {
	p    *Pool
	id   kafka.NodeID
	wake chan struct{}

	mu      sync.Mutex
	ended   error // why, once it has been told to end
	address string
	queue   []*pending // not sent
	flying  []*pending // sent on conn, oldest first
	conn    *conn
	dialing string // address that is being connected to
	cancel  context.CancelFunc

	// The rest belongs to run.
	backoff time.Duration // of the last failure
	resume  time.Time     // no attempt before
	reason  error         // of the last failure
	met     string        // address at which the node has been reached
}

func newLink(p *Pool, id kafka.NodeID) *link {
	return &link{p: p, id: id, wake: make(chan struct{}, 1)}
}

// add queues a request for the node, which is at address.
func (l *link) add(address string, q *pending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended != nil:
		return errEnded
	case len(l.queue)+len(l.flying) >= l.p.opts.MaxQueued:
		return ErrQueueFull
	}
	if l.address = address; l.dialing != "" && l.dialing != address {
		l.cancel() // it has moved while we call at the old place
	}
	l.queue = append(l.queue, q)
	l.poke()
	return nil
}

func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end makes run return, even out of a write to a node that hangs; what is left
// fails with why.
func (l *link) end(why error) {
	l.mu.Lock()
	l.ended = why
	if l.dialing != "" {
		l.cancel()
	}
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		c.close()
	}
	l.poke()
}

func (l *link) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	used := time.Now()
	for {
		l.expire()
		l.mu.Lock()
		ended, busy, idle := l.ended != nil, len(l.queue) > 0, len(l.queue)+len(l.flying) == 0
		l.mu.Unlock()
		if !idle {
			used = time.Now()
		}
		switch {
		case ended || idle && time.Since(used) >= l.p.opts.IdleTimeout && l.retire():
			l.finish()
			return
		case busy && l.ready():
			if l.write() {
				continue
			}
		}
		timer.Reset(l.untilDeadline(used))
		select {
		case <-l.wake:
		case <-timer.C:
		}
	}
}

// retire ends the link if it is still idle.
func (l *link) retire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue)+len(l.flying) > 0 {
		return false
	}
	l.ended = errEnded
	return true
}

// finish fails what is left.
func (l *link) finish() {
	l.p.forget(l)
	l.mu.Lock()
	c, left, why := l.conn, append(l.flying, l.queue...), l.ended
	l.conn, l.flying, l.queue = nil, nil, nil
	l.mu.Unlock()
	if c != nil {
		c.close()
	}
	for _, q := range left {
		q.Done(nil, why)
	}
}

func (l *link) untilDeadline(used time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := used.Add(l.p.opts.IdleTimeout)
	for _, list := range [][]*pending{l.queue, l.flying} {
		for _, q := range list {
			if q.deadline.Before(at) {
				at = q.deadline
			}
		}
	}
	return max(time.Until(at), 0)
}

// expire ends a connection that has broken or whose answers are late, and fails
// late requests that wait.
func (l *link) expire() {
	now := time.Now()
	l.mu.Lock()
	late := func(q *pending) bool { return !q.deadline.After(now) }
	var gone []*pending
	l.queue = slices.DeleteFunc(l.queue, func(q *pending) bool {
		if late(q) {
			gone = append(gone, q)
		}
		return late(q)
	})
	overdue := slices.ContainsFunc(l.flying, late)
	var broken error
	if l.conn != nil {
		broken = l.conn.err
	}
	l.mu.Unlock()
	for _, q := range gone {
		q.Done(nil, ErrTimeout)
	}
	switch {
	case broken != nil:
		l.drop(fmt.Errorf("%w: %w", ErrLost, broken), true)
	case overdue:
		l.drop(ErrTimeout, false)
	}
}

// drop ends the connection and fails what it carried; lost tells that the other
// side ended it. A link that has been told to end closed the connection itself.
func (l *link) drop(err error, lost bool) {
	l.mu.Lock()
	c, carried := l.conn, l.flying
	l.conn, l.flying = nil, nil
	if l.ended != nil {
		err, lost = l.ended, false
	}
	l.mu.Unlock()
	if c == nil {
		return
	}
	c.close()
	l.p.opts.Log.Debug("connection ended", "purpose", l.p.opts.ClientID, "node", l.id, "address", c.address, "reason", err)
	if lost && l.p.opts.Lost != nil {
		l.p.opts.Lost(Node{ID: l.id, Address: c.address})
	}
	for _, q := range carried {
		q.Done(nil, err)
	}
}

// ready tells whether there is a connection to the node's present address. If
// none can be made now, the requests that wait fail.
func (l *link) ready() bool {
	l.mu.Lock()
	address, c := l.address, l.conn
	l.mu.Unlock()
	if c != nil {
		if c.address == address {
			return true
		}
		l.drop(fmt.Errorf("%w: node has moved from %s to %s", ErrLost, c.address, address), false)
		l.backoff, l.resume = 0, time.Time{}
	}
	if time.Now().Before(l.resume) {
		l.failQueue(fmt.Errorf("%w: %w", ErrUnreachable, l.reason))
		return false
	}
	c, err := l.connect(address)
	if err == nil {
		l.mu.Lock()
		ended := l.ended != nil
		if !ended {
			l.conn = c
		}
		l.mu.Unlock()
		if ended {
			c.close()
			return false
		}
		l.backoff, l.resume, l.met = 0, time.Time{}, address
		l.p.work.Add(1)
		go func() {
			defer l.p.work.Done()
			l.read(c)
		}()
		return true
	}
	l.mu.Lock()
	moved := l.address != address
	l.mu.Unlock()
	switch {
	case l.p.ctx.Err() != nil:
		l.failQueue(ErrClosed)
		return false
	case moved:
		l.poke() // at once to where it is now
		return false
	}
	l.backoff = min(max(2*l.backoff, l.p.opts.BackoffMin), l.p.opts.BackoffMax)
	// Spread: nodes that lost the same peer should not call it in step.
	l.resume, l.reason = time.Now().Add(l.backoff/2+rand.N(l.backoff)), err
	l.p.opts.Log.Debug("cannot connect", "purpose", l.p.opts.ClientID, "node", l.id, "address", address, "error", err)
	if l.met == address && errors.Is(err, syscall.ECONNREFUSED) && l.p.opts.Lost != nil {
		l.p.opts.Lost(Node{ID: l.id, Address: address})
	}
	l.failQueue(fmt.Errorf("%w: %w", ErrUnreachable, err))
	return false
}

func (l *link) failQueue(err error) {
	l.mu.Lock()
	waiting := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, q := range waiting {
		q.Done(nil, err)
	}
}

// connect opens a connection and asks for the versions that the node speaks.
func (l *link) connect(address string) (*conn, error) {
	ctx, cancel := context.WithTimeout(l.p.ctx, l.p.opts.ConnectTimeout)
	defer cancel()
	l.mu.Lock()
	l.dialing, l.cancel = address, cancel
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.dialing, l.cancel = "", nil
		l.mu.Unlock()
	}()
	nc, err := l.p.opts.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	// Whatever waits on the connection below ends with the context.
	done := context.AfterFunc(ctx, func() { nc.Close() })
	defer done()
	secured := nc
	if l.p.opts.Secure != nil {
		if secured, err = l.p.opts.Secure(ctx, nc, Node{ID: l.id, Address: address}); err != nil {
			nc.Close()
			return nil, fmt.Errorf("handshake with %s: %w", address, err)
		}
	}
	c := newConn(secured, address, l.p.opts)
	if err := c.negotiate(); err != nil {
		c.close()
		return nil, fmt.Errorf("ask %s for its versions: %w", address, errors.Join(err, ctx.Err()))
	}
	return c, nil
}

// write sends the next request that waits, if the connection may carry it. It
// reports whether it should be called again.
func (l *link) write() bool {
	l.mu.Lock()
	c := l.conn
	if c == nil || len(l.queue) == 0 || len(l.flying) >= l.p.opts.MaxInFlight {
		l.mu.Unlock()
		return false
	}
	q := l.queue[0]
	l.queue = l.queue[1:]
	l.mu.Unlock()
	frame, req, err := c.encode(q)
	if err != nil {
		q.Done(nil, err)
		return true
	}
	l.mu.Lock()
	l.flying = append(l.flying, q)
	c.expect(req)
	l.mu.Unlock()
	if err := c.send(frame, q.deadline); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			l.drop(ErrTimeout, false)
		} else {
			l.drop(fmt.Errorf("%w: %w", ErrLost, err), true)
		}
		return false
	}
	return true
}

// read takes the answers of a connection until it ends.
func (l *link) read(c *conn) {
	for {
		frame, err := c.frame()
		if err == nil {
			err = l.answer(c, frame)
		}
		if err != nil {
			l.mu.Lock()
			c.err = err
			l.mu.Unlock()
			c.close()
			l.poke()
			return
		}
	}
}

// answer gives an answer to the oldest request of the connection.
func (l *link) answer(c *conn, frame []byte) error {
	l.mu.Lock()
	if l.conn != c || len(l.flying) == 0 {
		l.mu.Unlock()
		return errors.New("an answer without a request")
	}
	q, resp := l.flying[0], c.expected[0]
	l.mu.Unlock()
	if err := c.decode(frame, q.corr, resp); err != nil {
		return err
	}
	l.mu.Lock()
	if l.conn != c {
		l.mu.Unlock()
		return net.ErrClosed // ended meanwhile: the request has failed
	}
	l.flying, c.expected = l.flying[1:], c.expected[1:]
	if len(l.queue) > 0 || len(l.flying) == 0 {
		l.poke()
	}
	l.mu.Unlock()
	q.Done(resp, nil)
	return nil
}
