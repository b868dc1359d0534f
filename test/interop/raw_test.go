package interop

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawConn sends requests of any version on one connection, one at a time.
type rawConn struct {
	net.Conn
	r    *bufio.Reader
	next int32
	id   string
}

func dialRaw(addr string) (*rawConn, error) {
	c, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return nil, err
	}
	return &rawConn{Conn: c, r: bufio.NewReader(c), id: "interop"}, nil
}

// dialUntil connects to a port that may yet have to open.
func dialUntil(addr string) (*rawConn, error) {
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		if c, err := dialRaw(addr); err == nil || time.Now().After(end) {
			return c, err
		}
	}
}

func (c *rawConn) send(req kmsg.Request) (int32, error) {
	c.next++
	buf := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.id)).AppendRequest(nil, req, c.next)
	_, err := c.Write(buf)
	return c.next, err
}

// ask sends a request and reads its response.
func (c *rawConn) ask(req kmsg.Request) (kmsg.Response, error) {
	corr, err := c.send(req)
	if err != nil {
		return nil, err
	}
	return c.receive(req, corr)
}

func (c *rawConn) receive(req kmsg.Request, corr int32) (kmsg.Response, error) {
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	body, err := c.frame()
	if err != nil {
		return nil, err
	}
	if len(body) < 4 || int32(binary.BigEndian.Uint32(body)) != corr {
		return nil, fmt.Errorf("the response is not that of request %d", corr)
	}
	body = body[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != 18 {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("the response's header has tags")
		}
		body = body[1:]
	}
	if req.Key() == 18 && len(body) > 1 && binary.BigEndian.Uint16(body) == 35 {
		resp.SetVersion(0)
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decode %T version %d: %w", resp, req.GetVersion(), err)
	}
	if re := resp.AppendTo(nil); len(re) != len(body) {
		return nil, fmt.Errorf("%T version %d has %d bytes, of which %d mean something", resp, req.GetVersion(), len(body), len(re))
	}
	return resp, nil
}

func (c *rawConn) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.r, body)
	return body, err
}

// askNode sends one request on a connection of its own; it must be answered.
func askNode[T kmsg.Response](t testing.TB, n *node, req kmsg.Request, version int16) T {
	t.Helper()
	c, err := dialRaw(n.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req.SetVersion(version)
	resp, err := c.ask(req)
	if err != nil {
		t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp.(T)
}
