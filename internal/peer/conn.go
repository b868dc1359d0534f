package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"moldau/internal/kafka"
	"moldau/internal/wire"
)

// dialer opens TCP connections on which a dead host is noticed within timeout:
// by TCP_USER_TIMEOUT while bytes are unacknowledged, by probes otherwise.
func dialer(timeout time.Duration) func(ctx context.Context, address string) (net.Conn, error) {
	d := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: max(timeout/2, time.Second), Interval: max(timeout/4, time.Second), Count: 2},
		ControlContext: func(_ context.Context, _, _ string, c syscall.RawConn) error {
			var err error
			if outer := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout/time.Millisecond))
			}); outer != nil {
				return outer
			}
			return err
		},
	}
	return func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
}

// conn is one connection. What it expects and its error are guarded by the
// link's mutex.
type conn struct {
	nc       net.Conn
	address  string
	opts     Options
	format   *kmsg.RequestFormatter
	versions map[int16][2]int16 // by key: what the node speaks
	corr     int32

	expected []kmsg.Response // of the requests in flight
	err      error           // with which reading ended
}

func newConn(nc net.Conn, address string, opts Options) *conn {
	return &conn{nc: nc, address: address, opts: opts, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(opts.ClientID))}
}

func (c *conn) close() { c.nc.Close() }

// negotiate asks for the node's versions, in ours first; a node that does not
// know that one tells its own (KIP-511).
func (c *conn) negotiate() error {
	version := kmsg.NewPtrApiVersionsRequest().MaxVersion()
	for range 2 {
		resp, err := c.askVersions(version)
		if err != nil {
			return err
		}
		c.versions = map[int16][2]int16{}
		for _, k := range resp.ApiKeys {
			c.versions[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		switch code := kafka.ErrorCode(resp.ErrorCode); code {
		case kafka.NoError:
			return nil
		case kafka.ErrUnsupportedVersion:
			version = min(c.versions[wire.KeyApiVersions][1], version-1) // 0 if it told none
		default:
			return errors.New(code.String())
		}
	}
	return ErrUnsupportedVersion
}

func (c *conn) askVersions(version int16) (*kmsg.ApiVersionsResponse, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(version)
	req.ClientSoftwareName, req.ClientSoftwareVersion = "moldau", "1.0"
	c.corr++
	if _, err := c.nc.Write(c.format.AppendRequest(nil, req, c.corr)); err != nil {
		return nil, err
	}
	frame, err := c.frame()
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(version)
	// An error of version stands in the layout of version 0.
	if len(frame) >= 6 && kafka.ErrorCode(binary.BigEndian.Uint16(frame[4:])) == kafka.ErrUnsupportedVersion {
		resp.SetVersion(0)
	}
	return resp, c.decode(frame, c.corr, resp)
}

// encode makes the frame of a request in the highest version that both know.
func (c *conn) encode(q *pending) ([]byte, kmsg.Request, error) {
	theirs, ok := c.versions[q.Key]
	version := min(q.Max, theirs[1])
	if !ok || version < max(q.Min, theirs[0]) {
		return nil, nil, fmt.Errorf("%w: %s", ErrUnsupportedVersion, kmsg.NameForKey(q.Key))
	}
	req, err := q.Body(version)
	if err != nil {
		return nil, nil, err
	}
	c.corr++
	q.corr = c.corr
	return c.format.AppendRequest(nil, req, q.corr), req, nil
}

// expect remembers how to read the answer to req.
func (c *conn) expect(req kmsg.Request) {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	c.expected = append(c.expected, resp)
}

func (c *conn) send(frame []byte, deadline time.Time) error {
	if err := c.nc.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := c.nc.Write(frame)
	return err
}

// firstReadBytes is how much memory an answer gets before its bytes come.
const firstReadBytes = 1 << 20

// frame reads one answer. Its memory is the answer's own: records stay in it.
func (c *conn) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > c.opts.MaxResponseBytes {
		return nil, fmt.Errorf("answer of %d bytes, between 4 and %d are accepted", size, c.opts.MaxResponseBytes)
	}
	buf := make([]byte, min(size, firstReadBytes))
	for got := 0; ; {
		n, err := io.ReadFull(c.nc, buf[got:])
		if got += n; err != nil {
			return nil, err
		}
		if got == size {
			return buf, nil
		}
		larger := make([]byte, min(size, 2*got))
		copy(larger, buf)
		buf = larger
	}
}

// decode reads an answer into resp.
func (c *conn) decode(frame []byte, corr int32, resp kmsg.Response) error {
	if got := int32(binary.BigEndian.Uint32(frame)); got != corr {
		return fmt.Errorf("answer to request %d, expected was that to %d", got, corr)
	}
	r := wire.NewReader(frame[4:])
	if resp.IsFlexible() && resp.Key() != wire.KeyApiVersions {
		r.SkipTags()
	}
	if r.Err() != nil {
		return r.Err()
	}
	if err := resp.ReadFrom(r.Rest()); err != nil {
		return fmt.Errorf("answer of %s version %d: %w", kmsg.NameForKey(resp.Key()), resp.GetVersion(), err)
	}
	return nil
}
