package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wireConn is a bare connection: requests out, answers in, in order, with as little
// work as can be. It belongs to one goroutine for writing and one for reading.
type wireConn struct {
	net.Conn
	in    *bufio.Reader
	frame []byte
	fmt   *kmsg.RequestFormatter
	next  int32
}

func dialWire(ctx context.Context, addr, clientID string) (*wireConn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: c, in: bufio.NewReaderSize(c, 16<<10), fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}, nil
}

// encode gives a request's frame.
func (c *wireConn) encode(req kmsg.Request) []byte {
	c.next++
	return c.fmt.AppendRequest(nil, req, c.next)
}

// receive reads one answer into resp, or throws it away if resp is nil.
func (c *wireConn) receive(resp kmsg.Response) error {
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n < 4 || n > 64<<20 {
		return fmt.Errorf("an answer of %d bytes", n)
	}
	if cap(c.frame) < n {
		c.frame = make([]byte, n)
	}
	c.frame = c.frame[:n]
	if _, err := io.ReadFull(c.in, c.frame); err != nil || resp == nil {
		return err
	}
	body := c.frame[4:]
	if resp.IsFlexible() {
		body = body[1:] // no tags in the header
	}
	return resp.ReadFrom(body)
}

// ask sends a request in its version and waits for the answer.
func (c *wireConn) ask(req kmsg.Request, resp kmsg.Response) error {
	resp.SetVersion(req.GetVersion())
	if _, err := c.Write(c.encode(req)); err != nil {
		return err
	}
	return c.receive(resp)
}
