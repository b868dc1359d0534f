package network

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"moldau/internal/wire"
)

// writer gathers answers and sends them: memory with writev, long file ranges
// with sendfile at offsets of our own (the file's cursor is shared), short ones
// by reading them into a buffer that goes with the rest. Only the flusher of
// its connection uses it.
type writer struct {
	responses []*wire.Response
	buffers   net.Buffers // what is passed to writev; consumed by it
	backing   [][]byte
	copies    [][]byte // pooled buffers of short ranges

	file    fileSend
	attempt func(fd uintptr) bool
}

// fileSend is the state of one sendfile loop, kept out of the closure so that
// sending allocates nothing.
type fileSend struct {
	fd        int
	offset    int64
	remaining int
	err       error
}

func (w *writer) add(resp *wire.Response) { w.responses = append(w.responses, resp) }

// send writes all gathered answers.
func (w *writer) send(c *conn) error {
	now := int64(c.s.now())
	c.writeSince.Store(max(now, 1))
	c.lastUse.Store(now)
	err := w.sendAll(c)
	c.writeSince.Store(0)
	for _, b := range w.copies {
		c.s.frames.put(b)
	}
	clear(w.copies)
	clear(w.responses)
	clear(w.backing)
	w.responses, w.copies, w.backing = w.responses[:0], w.copies[:0], w.backing[:0]
	return err
}

func (w *writer) sendAll(c *conn) error {
	for _, resp := range w.responses {
		at := 0
		for _, chunk := range resp.Chunks {
			w.memory(resp.Buf[at:chunk.Before])
			at = chunk.Before
			if chunk.File.Len() == 0 {
				continue
			}
			if err := w.rangeOf(c, chunk.File); err != nil {
				return err
			}
		}
		w.memory(resp.Buf[at:])
	}
	return w.flushMemory(c)
}

func (w *writer) memory(b []byte) {
	if len(b) > 0 {
		w.backing = append(w.backing, b)
	}
}

func (w *writer) rangeOf(c *conn, f wire.FileRange) error {
	if fd, position, ok := f.Descriptor(); ok && f.Len() >= c.s.opts.SendfileMinBytes {
		if err := w.flushMemory(c); err != nil {
			return err
		}
		return w.sendfile(c, int(fd), position, f.Len())
	}
	b := c.s.frames.get(f.Len())
	w.copies = append(w.copies, b)
	if _, err := f.ReadAt(b, 0); err != nil {
		return fmt.Errorf("cannot read records for an answer: %w", err)
	}
	w.memory(b)
	return nil
}

func (w *writer) flushMemory(c *conn) error {
	if len(w.backing) == 0 {
		return nil
	}
	var err error
	if len(w.backing) == 1 {
		_, err = c.nc.Write(w.backing[0])
	} else {
		w.buffers = w.backing
		_, err = w.buffers.WriteTo(c.nc)
	}
	clear(w.backing)
	w.backing = w.backing[:0]
	c.writeSince.Store(max(int64(c.s.now()), 1))
	return err
}

func (w *writer) sendfile(c *conn, fd int, offset int64, n int) error {
	if w.attempt == nil {
		w.attempt = func(sock uintptr) bool { return w.file.step(c, int(sock)) }
	}
	w.file = fileSend{fd: fd, offset: offset, remaining: n}
	if err := c.raw.Write(w.attempt); err != nil {
		return err
	}
	return w.file.err
}

// step sends what the socket takes; false means to wait until it takes more.
func (f *fileSend) step(c *conn, sock int) bool {
	for f.remaining > 0 {
		n, err := unix.Sendfile(sock, f.fd, &f.offset, f.remaining)
		switch {
		case n > 0:
			f.remaining -= n
			c.writeSince.Store(max(int64(c.s.now()), 1))
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false
		case err != nil:
			f.err = fmt.Errorf("sendfile: %w", err)
			return true
		default:
			f.err = fmt.Errorf("sendfile: %w: file ends %d bytes too early", io.ErrUnexpectedEOF, f.remaining)
			return true
		}
	}
	return true
}
