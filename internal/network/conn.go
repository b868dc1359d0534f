package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moldau/internal/wire"
)

const (
	// firstReadBytes is how much memory a frame gets before any of it has
	// arrived; larger frames get more as their bytes come in.
	firstReadBytes = 1 << 20
	// probeBytes of a frame must have come before it is charged, when memory is
	// scarce; growFactor is by how much it may then be ahead of its bytes.
	probeBytes = 4 << 10
	growFactor = 4
	// minRequestBytes is what every request has: key, version, correlation id.
	minRequestBytes = 8
)

// conn is one connection. The fields above mu belong to its reading goroutine.
type conn struct {
	s    *Server
	nc   *net.TCPConn
	raw  syscall.RawConn // of nc
	l    *listener
	h    Handler
	peer wire.Peer

	ahead     ahead
	holding   bool  // answers wait for the next ones; changed with mu held only
	heldSince int64 // when they began to

	gone    chan struct{} // closed with the connection
	byPeer  atomic.Bool   // the other end closed it
	leaving bool          // is being closed by the Server, so makes room; belongs to its mu

	frameSince atomic.Int64 // when the frame being read began; 0: none
	readSince  atomic.Int64 // when its last bytes came; 0: it waits for memory or is whole
	writeSince atomic.Int64 // when the write under way last moved; 0: none
	lastUse    atomic.Int64

	mu       sync.Mutex
	moved    sync.Cond // a slot was filled or sent, or the connection closed
	closed   bool
	flushing bool
	queue    []*slot // in order of arrival, from the oldest answer not sent
	spare    []*slot
	out      writer
}

// maxSpareSlots bounds the slots that a connection keeps for reuse.
const maxSpareSlots = 8

func newConn(s *Server, nc *net.TCPConn, l *listener, peer wire.Peer) *conn {
	c := &conn{s: s, nc: nc, l: l, h: l.h, peer: peer, gone: make(chan struct{})}
	c.raw, _ = nc.SyscallConn() // fails for a nil connection only
	c.moved.L = &c.mu
	c.lastUse.Store(int64(s.now()))
	return c
}

func (c *conn) run() {
	c.peerEnd(c.serve())
	c.dropAhead()
	if w, ok := c.h.(Watcher); ok {
		w.ConnectionClosed(&c.peer, c.byPeer.Load())
	}
}

// peerEnd closes the connection because reading or writing failed, and
// remembers whether that is the other end's doing.
func (c *conn) peerEnd(err error) {
	theirs := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	c.end(err, theirs)
}

func (c *conn) serve() error {
	for {
		frame, charge, err := c.readFrame()
		if err != nil {
			c.release()
			return err
		}
		if !c.mayHold() {
			c.release()
		}
		if c.holding && wire.PeekKey(frame) == wire.KeyProduce && c.wasReset() {
			// Sending the answers that are held would have told (Trap 13). What
			// changes groups looks for itself.
			c.free(frame, charge)
			return syscall.ECONNRESET
		}
		more := c.nextIsWhole()
		if more {
			c.hold()
		}
		sl := c.enqueue(frame, charge)
		if sl == nil {
			return nil // closed while it waited: the frame is dropped unstarted
		}
		c.h.Serve(&sl.req)
		if !more {
			c.release()
		}
	}
}

// readFrame reads one frame and charges the budget for it.
func (c *conn) readFrame() (frame []byte, charge int64, err error) {
	size, err := c.readLength()
	if err != nil {
		return nil, 0, err
	}
	if size < 0 || int(size) > c.s.opts.MaxRequestBytes {
		return nil, 0, fmt.Errorf("frame of %d bytes, socket.request.max.bytes is %d", size, c.s.opts.MaxRequestBytes)
	}
	if size < minRequestBytes {
		return nil, 0, fmt.Errorf("frame of %d bytes is too short for a request", size)
	}
	now := int64(c.s.now())
	c.frameSince.Store(max(now, 1))
	defer c.frameSince.Store(0)
	c.lastUse.Store(now)
	if frame, charge, err = c.readBody(int(size)); err != nil {
		return nil, 0, err
	}
	if extra := wire.DecodeBytes(frame) - charge; extra > 0 {
		if charge+extra > c.s.opts.BudgetBytes {
			c.free(frame, charge)
			return nil, 0, fmt.Errorf("request of %d bytes for API %d is too large to decode in %d bytes of memory", size, wire.PeekKey(frame), c.s.opts.BudgetBytes)
		}
		c.s.budget.Release(charge) // else two large requests could wait for each other
		charge += extra
		if !c.acquire(charge) {
			c.s.frames.put(frame)
			return nil, 0, net.ErrClosed
		}
	}
	return frame, charge, nil
}

// readBody reads size bytes, and up to four of the next frame with them, which
// saves a system call when frames come one behind the other; or it takes them
// from what has been read ahead. With plenty of budget it is charged at once, and
// a large frame gets its memory when its first bytes have come; else memory and
// charge follow the bytes.
func (c *conn) readBody(size int) (buf []byte, charge int64, err error) {
	if whole, err := c.wholeAhead(size); whole || err != nil {
		if err != nil {
			return nil, 0, err
		}
		buf = c.s.frames.get(size)
		copy(buf, c.ahead.bytes)
		c.skip(size)
		return c.chargeWhole(buf, 0)
	}
	first := min(size, probeBytes)
	if c.s.budget.Believe(int64(size)) {
		first, charge = min(size, firstReadBytes), int64(size)
	}
	c.readSince.Store(int64(c.s.now()))
	buf = c.s.frames.get(max(first, len(c.ahead.bytes)) + len(c.ahead.tail))
	got := copy(buf, c.ahead.bytes)
	c.skip(got)
	for got < size {
		room := len(buf) - len(c.ahead.tail)
		if got == room {
			if buf, charge, err = c.growBody(buf, got, size, charge); err != nil {
				return nil, 0, err
			}
			room = len(buf) - len(c.ahead.tail)
		}
		limit := room
		if room == size {
			limit = len(buf)
		}
		n, err := c.nc.Read(buf[got:limit])
		c.readSince.Store(int64(c.s.now()))
		if got += n; got >= size {
			c.ahead.bytes = c.ahead.tail[:copy(c.ahead.tail[:], buf[size:got])]
			break
		}
		if err != nil {
			c.free(buf, charge)
			return nil, 0, unexpected(err)
		}
	}
	c.readSince.Store(0)
	return c.chargeWhole(buf[:size], charge)
}

// chargeWhole charges for the rest of a frame that is there: it is no claim any
// more. It frees the frame if it fails.
func (c *conn) chargeWhole(buf []byte, charge int64) ([]byte, int64, error) {
	if rest := int64(len(buf)) - charge; rest > 0 && !c.acquire(rest) {
		c.free(buf, charge)
		return nil, 0, net.ErrClosed
	}
	return buf, int64(len(buf)), nil
}

// acquire charges n bytes for a frame that is there. Answers that are held back do
// not wait with it.
func (c *conn) acquire(n int64) bool {
	if c.s.budget.TryAcquire(n) {
		return true
	}
	if c.holding {
		c.frameSince.Store(0) // sending has a limit of its own
		c.release()
		c.frameSince.Store(max(int64(c.s.now()), 1))
	}
	return c.s.budget.Acquire(n, c.gone)
}

// growBody gets memory for more of a frame of which got bytes, all that buf
// takes, have come. It frees buf if it fails.
func (c *conn) growBody(buf []byte, got, size int, charge int64) ([]byte, int64, error) {
	c.readSince.Store(0)
	want := size
	if charge < int64(size) {
		want = min(size, growFactor*got)
		n := int64(want)
		if charge > 0 {
			n = c.s.budget.Grow(int64(want)-charge, int64(size)-charge, c.gone)
		} else if !c.s.budget.Acquire(n, c.gone) {
			n = 0
		}
		if n == 0 {
			c.free(buf, charge)
			return nil, 0, net.ErrClosed
		}
		charge += n
		want = int(charge)
	}
	larger := c.s.frames.get(want + len(c.ahead.tail))
	copy(larger, buf[:got])
	c.s.frames.put(buf)
	c.readSince.Store(int64(c.s.now()))
	return larger, charge, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("connection ended inside a frame: %w", io.ErrUnexpectedEOF)
	}
	return err
}

func (c *conn) free(frame []byte, charge int64) {
	c.s.frames.put(frame)
	c.s.budget.Release(charge)
}

// enqueue gives the frame its place and waits until it may start. It returns
// nil if the connection has closed.
func (c *conn) enqueue(frame []byte, charge int64) *slot {
	produce := wire.PeekKey(frame) == wire.KeyProduce
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && (len(c.queue) >= c.s.opts.MaxInFlight || !c.mayStart(produce)) {
		if c.holding {
			c.sendHeld()
			continue
		}
		c.moved.Wait()
	}
	if c.closed {
		c.free(frame, charge)
		return nil
	}
	var sl *slot
	if n := len(c.spare); n > 0 {
		sl, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		sl = &slot{c: c}
	}
	sl.frame, sl.charge, sl.produce = frame, charge, produce
	sl.req = wire.NewRequest(frame, &c.peer, sl)
	c.queue = append(c.queue, sl)
	return sl
}

// mayStart tells whether a request may start beside those that are not
// answered yet. Called with mu held.
func (c *conn) mayStart(produce bool) bool {
	for _, sl := range c.queue {
		if !sl.filled && !(produce && sl.produce) {
			return false
		}
	}
	return true
}

// shutAfterAnswers closes the connection, as shut does, when what was answered before
// has been sent. It may block while the client is slow to read.
func (c *conn) shutAfterAnswers(err error) {
	c.mu.Lock()
	for c.flushing && !c.closed {
		c.moved.Wait()
	}
	c.sendReady()
	c.mu.Unlock()
	c.shut(err)
}

// shut closes the connection, for the reason err; nil and the ordinary end are
// not worth a log line. Safe from any goroutine, any number of times.
func (c *conn) shut(err error) { c.end(err, false) }

func (c *conn) end(err error, byPeer bool) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.byPeer.Store(byPeer)
	c.closed = true
	var gone []func()
	for _, sl := range c.queue {
		if !sl.filled && sl.onGone != nil {
			gone = append(gone, sl.onGone)
			sl.onGone = nil
		}
	}
	if !c.flushing {
		c.dropUnsent()
	}
	c.moved.Broadcast()
	close(c.gone)
	c.mu.Unlock()
	c.nc.Close()
	if err != nil && !ordinaryEnd(err) {
		c.s.opts.Log.Warn("connection closed", "listener", c.peer.Listener, "client", c.peer.Address, "reason", err)
	}
	for _, f := range gone {
		go f()
	}
}

// wasReset asks the kernel whether the other end has reset the connection.
func (c *conn) wasReset() bool {
	reset := false
	err := c.raw.Control(func(fd uintptr) {
		look := [1]unix.PollFd{{Fd: int32(fd)}}
		if n, err := unix.Poll(look[:], 0); err == nil && n > 0 {
			reset = look[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
		}
	})
	return reset || err != nil
}

// ordinaryEnd tells whether a connection's end needs no word of its own.
func ordinaryEnd(err error) bool {
	return errors.Is(err, errNoRoom) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// checkTimes closes the connection if it is idle or stuck.
func (c *conn) checkTimes(now time.Duration, contended bool) {
	late := func(since int64, limit time.Duration) bool { return since != 0 && now-time.Duration(since) > limit }
	switch {
	case late(c.frameSince.Load(), c.s.opts.FrameTimeout):
		go c.shut(fmt.Errorf("frame did not arrive within %s", c.s.opts.FrameTimeout))
	case contended && late(c.readSince.Load(), c.s.opts.StallTimeout):
		go c.shut(fmt.Errorf("frame stood still for %s while others waited for memory", c.s.opts.StallTimeout))
	case late(c.writeSince.Load(), c.s.opts.SendTimeout):
		go c.shut(fmt.Errorf("client took no bytes of its answers for %s", c.s.opts.SendTimeout))
	case late(c.lastUse.Load(), c.s.opts.IdleTimeout) && c.quiet():
		go c.shut(io.EOF)
	}
}

func (c *conn) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) == 0
}
