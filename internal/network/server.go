package network

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/wire"
)

// Handler serves requests. Serve runs on the goroutine of the connection and
// must not wait for anything that can take long: it answers at once, or
// arranges for the answer to come later from another goroutine.
type Handler interface {
	Serve(*wire.Request)
}

// Watcher is a Handler that wants to know when a connection ends. byPeer: the
// other end closed it, since its process has died or does not want it any more;
// else this Server did.
type Watcher interface {
	ConnectionClosed(p *wire.Peer, byPeer bool)
}

// Options bound a Server. Zero fields take the defaults.
type Options struct {
	MaxRequestBytes    int           // socket.request.max.bytes
	BudgetBytes        int64         // queued.max.request.bytes, or ours if that is −1
	CachedBytes        int           // of idle frame buffers
	MaxInFlight        int           // requests of one connection without a sent answer
	Limits             *Limits       // of connections, until SetLimits; nil: none
	IdleTimeout        time.Duration // connections.max.idle.ms
	FrameTimeout       time.Duration // for a begun frame to arrive
	StallTimeout       time.Duration // between its bytes, when others wait for memory
	SendTimeout        time.Duration // for a client to take some bytes of its answers
	SendBufferBytes    int           // socket.send.buffer.bytes; 0: the system's
	ReceiveBufferBytes int           // socket.receive.buffer.bytes; 0: the system's
	SendfileMinBytes   int           // shorter ranges are read and sent with the rest
	Log                *slog.Logger
}

// Defaults that are ours, not Kafka's.
const (
	DefaultBudgetBytes      = 48 << 20
	DefaultCachedBytes      = 24 << 20
	DefaultMaxInFlight      = 128
	DefaultFrameTimeout     = 60 * time.Second
	DefaultStallTimeout     = 2 * time.Second
	DefaultSendTimeout      = 60 * time.Second
	DefaultSendfileMinBytes = 32 << 10
	sweepEvery              = time.Second
	quietSweepEvery         = 10 * time.Second // without connections
	trimEvery               = 10               // sweeps
)

func (o Options) withDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.MaxRequestBytes, 100<<20)
	def(&o.CachedBytes, DefaultCachedBytes)
	def(&o.MaxInFlight, DefaultMaxInFlight)
	def(&o.SendfileMinBytes, DefaultSendfileMinBytes)
	if o.Limits == nil {
		l := Unlimited()
		o.Limits = &l
	}
	if o.BudgetBytes <= 0 {
		o.BudgetBytes = DefaultBudgetBytes
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 10 * time.Minute
	}
	if o.FrameTimeout == 0 {
		o.FrameTimeout = DefaultFrameTimeout
	}
	if o.StallTimeout == 0 {
		o.StallTimeout = DefaultStallTimeout
	}
	if o.SendTimeout == 0 {
		o.SendTimeout = DefaultSendTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server owns listeners and their connections.
type Server struct {
	opts   Options
	budget *Budget
	frames *frames
	start  time.Time

	nextID atomic.Uint64
	work   sync.WaitGroup
	aheads atomic.Int32 // connections that have read ahead
	stop   chan struct{}
	busy   chan struct{} // the first connection came

	mu        sync.Mutex
	closed    bool
	listeners []*listener
	conns     map[*conn]struct{}
	gate      *gate
	leaving   int // connections that makeRoom or CloseListener closes
}

// New makes a Server without listeners.
func New(opts Options) *Server {
	opts = opts.withDefaults()
	s := &Server{
		opts: opts, budget: NewBudget(opts.BudgetBytes), frames: newFrames(opts.CachedBytes),
		start: time.Now(), stop: make(chan struct{}), busy: make(chan struct{}, 1),
		conns: map[*conn]struct{}{}, gate: newGate(*opts.Limits),
	}
	s.work.Add(1)
	go s.sweep()
	return s
}

// Listen opens a listener under a name and serves its connections with h. It
// returns the address, whose port is chosen by the system if address has 0.
func (s *Server) Listen(name, address string, h Handler) (net.Addr, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", name, err)
	}
	return l.Addr(), s.Serve(l, name, h)
}

// Connections tells how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// now is the time since the server was made; it never falls.
func (s *Server) now() time.Duration { return time.Since(s.start) }

// sweep closes connections that are idle, or slow in sending or taking bytes.
// With nobody there it hardly ever wakes.
func (s *Server) sweep() {
	defer s.work.Done()
	busy := min(sweepEvery, s.opts.IdleTimeout, s.opts.FrameTimeout, s.opts.StallTimeout, s.opts.SendTimeout)
	timer := time.NewTimer(busy)
	defer timer.Stop()
	for n := 1; ; n++ {
		select {
		case <-s.stop:
			return
		case <-s.busy:
		case <-timer.C:
		}
		if n%trimEvery == 0 {
			s.frames.trim()
		}
		now := s.now()
		_, contended := s.budget.Used()
		s.mu.Lock()
		for c := range s.conns {
			c.checkTimes(now, contended)
		}
		quiet := len(s.conns) == 0
		s.mu.Unlock()
		if quiet {
			timer.Reset(max(busy, quietSweepEvery))
		} else {
			timer.Reset(busy)
		}
	}
}

// Close stops listening, closes every connection and waits until the
// goroutines of connections have ended. Requests whose answers come later find
// their connection gone.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	for _, l := range s.listeners {
		l.shut()
	}
	for c := range s.conns {
		c.shut(nil)
	}
	s.mu.Unlock()
	close(s.stop)
	s.work.Wait()
}
