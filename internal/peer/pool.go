package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// Errors of a request. All but ErrUnsupportedVersion and ErrClosed may pass.
var (
	// ErrUnsupportedVersion: the node knows no version of the API that can
	// carry the request.
	ErrUnsupportedVersion = errors.New("the node does not support the request")
	// ErrTimeout: no answer in time. The node may have received the request.
	ErrTimeout = errors.New("request timed out")
	// ErrLost: the connection ended before the answer. The node may have
	// received the request.
	ErrLost = errors.New("connection lost")
	// ErrUnreachable: there is no connection, and the time for another attempt
	// has not come or it has failed.
	ErrUnreachable = errors.New("node cannot be reached")
	// ErrQueueFull: too many requests wait for the node, or there are too many nodes.
	ErrQueueFull = errors.New("too many requests wait")
	// ErrDropped: this side gave the node up before the answer (Keep). The node
	// may have received the request.
	ErrDropped = errors.New("the node was given up")
	// ErrClosed: the pool is closed.
	ErrClosed = errors.New("connections are closed")
)

// Node is where to send. The id tells connections apart; the address, host:port,
// is where the node is believed to be now.
type Node struct {
	ID      kafka.NodeID
	Address string
}

// Request is what to send. Min and Max bound the versions that the caller can
// make; Body makes the request in the version that was chosen, on a goroutine
// of the pool.
type Request struct {
	Key, Min, Max int16
	Body          func(version int16) (kmsg.Request, error)
	// Timeout counts from Send; 0 is Options.RequestTimeout.
	Timeout time.Duration
	// Done gets the answer or an error, once, on a goroutine of the pool. While
	// it runs the node's other answers wait.
	Done func(kmsg.Response, error)
}

// Message is a Request whose fields mean the same in all versions that kmsg
// knows of it.
func Message(body kmsg.Request, timeout time.Duration, done func(kmsg.Response, error)) Request {
	return Request{
		Key: body.Key(), Max: body.MaxVersion(), Timeout: timeout, Done: done,
		Body: func(version int16) (kmsg.Request, error) { body.SetVersion(version); return body, nil },
	}
}

// Options of a Pool. Zero fields take the defaults.
type Options struct {
	ClientID       string
	RequestTimeout time.Duration // 30 s
	ConnectTimeout time.Duration // 5 s, for connecting, handshake and ApiVersions together
	BackoffMin     time.Duration // 20 ms
	BackoffMax     time.Duration // 1 s
	IdleTimeout    time.Duration // 10 min, after which an unused connection goes
	RetryPause     time.Duration // 50 ms between the attempts of a Controller

	MaxNodes         int // 1024
	MaxQueued        int // 1000 requests of a node that are not answered
	MaxInFlight      int // 100 of them on the wire
	MaxResponseBytes int // 100 MiB

	// Secure is called on each new connection and gives the one to use: the
	// place for TLS and SASL. nil is plaintext.
	Secure func(ctx context.Context, conn net.Conn, node Node) (net.Conn, error)
	// Dial opens connections; nil is the system's TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Lost hears that the node ended a connection, or refused another one after
	// that. It must not block.
	Lost func(Node)
	Log  *slog.Logger
}

func (o Options) withDefaults() Options {
	span := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	number := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	span(&o.RequestTimeout, 30*time.Second)
	span(&o.ConnectTimeout, 5*time.Second)
	span(&o.BackoffMin, 20*time.Millisecond)
	span(&o.BackoffMax, time.Second)
	span(&o.IdleTimeout, 10*time.Minute)
	span(&o.RetryPause, 50*time.Millisecond)
	number(&o.MaxNodes, 1024)
	number(&o.MaxQueued, 1000)
	number(&o.MaxInFlight, 100)
	number(&o.MaxResponseBytes, 100<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = dialer(o.RequestTimeout)
	}
	return o
}

// Pool is a set of connections for one purpose. Safe for concurrent use.
type Pool struct {
	opts Options
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	links  map[kafka.NodeID]*link
}

// New makes a pool; it connects when there is something to send.
func New(opts Options) *Pool {
	p := &Pool{opts: opts.withDefaults(), links: map[kafka.NodeID]*link{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Send queues a request for a node and returns at once.
func (p *Pool) Send(node Node, r Request) {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = p.opts.RequestTimeout
	}
	q := &pending{Request: r, deadline: time.Now().Add(timeout)}
	for {
		l, err := p.link(node.ID)
		if err != nil {
			p.refuse(q, err)
			return
		}
		err = l.add(node.Address, q)
		if errors.Is(err, errEnded) {
			p.forget(l) // it went idle just now, or was given up: another one
			continue
		}
		if err != nil {
			p.refuse(q, err)
		}
		return
	}
}

// refuse fails a request that no link has taken, not on the caller's goroutine.
func (p *Pool) refuse(q *pending, err error) { go q.Done(nil, err) }

func (p *Pool) link(id kafka.NodeID) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	l := p.links[id]
	if l == nil {
		if len(p.links) >= p.opts.MaxNodes {
			return nil, ErrQueueFull
		}
		l = newLink(p, id)
		p.links[id] = l
		p.work.Add(1)
		go func() {
			defer p.work.Done()
			l.run()
		}()
	}
	return l, nil
}

// forget takes a link that has ended out of the pool.
func (p *Pool) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links[l.id] == l {
		delete(p.links, l.id)
	}
}

// Keep ends the connections to all nodes but one. Their requests fail with
// ErrDropped, whether they were executed or not.
func (p *Pool) Keep(id kafka.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, l := range p.links {
		if n != id {
			l.end(ErrDropped)
		}
	}
}

// Close ends all connections, fails what waits with ErrClosed, and returns when
// no goroutine of the pool is left but those that fail late requests.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	links := make([]*link, 0, len(p.links))
	for _, l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	p.stop()
	for _, l := range links {
		l.end(ErrClosed)
	}
	p.work.Wait()
}
