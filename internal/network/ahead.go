package network

import (
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// Small requests often come many at a time. Then they are read together, and
// their answers sent together: a system call costs more than most of them.
const (
	// aheadBytes is how much is read at once; smallFrameBytes is what is worth it.
	aheadBytes      = 8 << 10
	smallFrameBytes = 2 << 10
	// maxAheads bounds how many connections have read ahead at the same time; 8 MiB.
	maxAheads = 1024
	// Answers are held back while the next request has come already: that many at
	// most, and no longer than a client would notice when that one begins.
	maxHeld = maxSpareSlots
	holdFor = 200 * time.Microsecond
)

// ahead is what a connection has read of its next frames.
type ahead struct {
	bytes []byte  // in block, or in tail
	block []byte  // aheadBytes long; nil: nothing, or no more than tail
	tail  [4]byte // what came with the end of a frame
	// follows: the length of the frame that is being read came with the frame before.
	follows bool
}

// readLength reads the length in front of a frame; io.EOF if there is none.
func (c *conn) readLength() (int32, error) {
	var length [4]byte
	n := copy(length[:], c.ahead.bytes)
	c.skip(n)
	if c.ahead.follows = n == len(length); !c.ahead.follows {
		// Read into the connection's own bytes: length would have to be allocated.
		for n = copy(c.ahead.tail[:], length[:n]); n < len(length); {
			m, err := c.nc.Read(c.ahead.tail[n:])
			if n += m; err != nil && n < len(length) {
				if errors.Is(err, io.EOF) && n == 0 {
					return 0, io.EOF
				}
				return 0, unexpected(err)
			}
		}
		length = c.ahead.tail
	}
	return int32(binary.BigEndian.Uint32(length[:])), nil
}

// skip takes bytes as read, and gives the block back with the last one: a
// connection that waits has none.
func (c *conn) skip(n int) {
	if c.ahead.bytes = c.ahead.bytes[n:]; len(c.ahead.bytes) == 0 {
		c.dropAhead()
	}
}

// dropAhead forgets what has been read ahead.
func (c *conn) dropAhead() {
	c.ahead.bytes = nil
	if c.ahead.block != nil {
		c.s.frames.put(c.ahead.block)
		c.s.aheads.Add(-1)
		c.ahead.block = nil
	}
}

// wholeAhead reports whether a frame of size bytes has been read; if it is small
// and came behind another, it reads it, with what follows.
func (c *conn) wholeAhead(size int) (bool, error) {
	a := &c.ahead
	if len(a.bytes) >= size {
		return true, nil
	}
	if size > smallFrameBytes || !a.follows {
		return false, nil
	}
	if a.block == nil {
		if c.s.aheads.Add(1) > maxAheads {
			c.s.aheads.Add(-1)
			return false, nil
		}
		a.block = c.s.frames.get(aheadBytes)
	}
	n := copy(a.block, a.bytes)
	for n < size {
		m, err := c.nc.Read(a.block[n:])
		if n += m; err != nil && n < size {
			return false, unexpected(err)
		}
	}
	a.bytes = a.block[:n]
	return true, nil
}

// nextIsWhole tells whether another request has come already.
func (c *conn) nextIsWhole() bool {
	b := c.ahead.bytes
	if len(b) < 4+minRequestBytes {
		return false
	}
	size := int32(binary.BigEndian.Uint32(b))
	return size >= minRequestBytes && int(size) <= len(b)-4
}

// hold lets answers wait for those of the next requests. Only the reading goroutine
// calls it, and release.
func (c *conn) hold() {
	if !c.holding {
		c.mu.Lock()
		c.holding, c.heldSince = true, c.lastUse.Load()
		c.mu.Unlock()
	}
}

// mayHold tells, when a request has just been read, whether answers may wait for its.
func (c *conn) mayHold() bool {
	return c.lastUse.Load()-c.heldSince < int64(holdFor)
}

// release sends the answers that were held back.
func (c *conn) release() {
	if c.holding {
		c.mu.Lock()
		c.sendHeld()
		c.mu.Unlock()
	}
}

// sendHeld sends them. Called with mu held, which it gives up meanwhile.
func (c *conn) sendHeld() {
	c.holding = false
	c.sendReady()
}

// sendReady sends what is answered, unless somebody does. Any goroutine may call it,
// with mu held, which it gives up meanwhile.
func (c *conn) sendReady() {
	if c.flushing || c.closed || len(c.queue) == 0 || !c.queue[0].filled {
		return
	}
	c.flushing = true
	c.flush()
	c.mu.Lock()
}
