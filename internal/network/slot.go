package network

import (
	"fmt"
	"math"

	"moldau/internal/wire"
)

// maxKeptResponse bounds the response buffer that a spare slot keeps.
const maxKeptResponse = 4 << 10

// slot is the place of one answer in the order of its connection.
type slot struct {
	c       *conn
	req     wire.Request
	frame   []byte
	charge  int64
	produce bool
	filled  bool
	silent  bool // no answer goes out
	onGone  func()
	resp    wire.Response
	sending *wire.Response
}

// Response implements wire.Slot.
func (sl *slot) Response() *wire.Response { return &sl.resp }

// OnGone implements wire.Slot.
func (sl *slot) OnGone(f func()) bool {
	sl.c.mu.Lock()
	defer sl.c.mu.Unlock()
	if sl.c.closed {
		return false
	}
	sl.onGone = f
	return true
}

// FreeFrame implements wire.Slot.
func (sl *slot) FreeFrame() {
	c := sl.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free(sl.frame, sl.charge)
	sl.frame, sl.charge = nil, 0
}

// Broken implements wire.Slot.
func (sl *slot) Broken() bool {
	c := sl.c
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	return closed || c.wasReset()
}

// Drop implements wire.Slot.
func (sl *slot) Drop(err error) {
	c := sl.c
	sl.Fill(nil)
	c.shutAfterAnswers(err)
}

// Fill implements wire.Slot.
func (sl *slot) Fill(resp *wire.Response) {
	c := sl.c
	if resp != nil && !resp.Finish() {
		resp.Release()
		resp = nil
		defer c.shutAfterAnswers(fmt.Errorf("answer is longer than %d bytes", math.MaxInt32))
	}
	c.mu.Lock()
	if sl.filled {
		c.mu.Unlock()
		panic("network: a request was answered twice")
	}
	c.free(sl.frame, sl.charge)
	sl.filled, sl.frame, sl.onGone = true, nil, nil
	sl.sending, sl.silent = resp, resp == nil
	if c.closed {
		if resp != nil {
			resp.Release()
		}
		c.moved.Broadcast()
		c.mu.Unlock()
		return
	}
	if c.flushing || c.holding && len(c.queue) < maxHeld || !c.queue[0].filled {
		c.moved.Broadcast()
		c.mu.Unlock()
		return
	}
	c.flushing = true
	c.flush()
}

// flush sends all answers at the head of the queue that are ready, until there
// is none. Called with mu held and flushing set; returns with mu released.
func (c *conn) flush() {
	for !c.closed {
		n := 0
		for n < len(c.queue) && c.queue[n].filled {
			if sl := c.queue[n]; !sl.silent {
				c.out.add(sl.sending)
			}
			n++
		}
		if n == 0 {
			break
		}
		c.mu.Unlock()
		err := c.out.send(c)
		c.mu.Lock()
		c.retire(n)
		if err != nil {
			c.mu.Unlock()
			c.peerEnd(err) // still flushing: nobody sends behind half an answer
			c.mu.Lock()
		}
	}
	c.flushing = false
	if c.closed {
		c.dropUnsent()
	}
	c.moved.Broadcast()
	c.mu.Unlock()
}

// dropUnsent gives back what the answers hold that a closed connection did not
// send. Called with mu held, not while a flusher is at work.
func (c *conn) dropUnsent() {
	for _, sl := range c.queue {
		if sl.sending != nil {
			sl.sending.Release()
			sl.sending = nil
		}
	}
}

// retire takes the first n slots, whose answers are sent, out of the queue.
func (c *conn) retire(n int) {
	for _, sl := range c.queue[:n] {
		if sl.sending != nil {
			sl.sending.Release()
		}
		if cap(sl.resp.Buf) > maxKeptResponse {
			sl.resp.Buf = nil
		}
		if len(c.spare) < maxSpareSlots {
			*sl = slot{c: c, resp: sl.resp}
			c.spare = append(c.spare, sl)
		}
	}
	rest := copy(c.queue, c.queue[n:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	c.moved.Broadcast()
}
