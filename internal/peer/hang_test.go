package peer_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/peer"
)

// largeWrites tells when a large write begins.
type largeWrites struct {
	net.Conn
	began func()
}

func (c largeWrites) Write(b []byte) (int, error) {
	if len(b) > 1<<20 {
		c.began()
	}
	return c.Conn.Write(b)
}

// hangInWrite gives a pool in which a request to node 1 hangs in a write, since
// that node has ceased to read; and the outcome of that request.
func hangInWrite(t *testing.T) (*peer.Pool, peer.Node, chan outcome) {
	t.Helper()
	f := newFake(t, "127.0.0.1:0")
	over, hangs := make(chan struct{}), atomic.Bool{}
	answer := f.serve
	f.serve = func(c net.Conn, key, version int16, corr int32, body []byte) []byte {
		if !hangs.Swap(true) {
			<-over
		}
		return answer(c, key, version, corr, body)
	}
	f.start()
	t.Cleanup(func() { close(over) })
	began := make(chan struct{})
	p := newPool(t, peer.Options{Secure: func(_ context.Context, c net.Conn, _ peer.Node) (net.Conn, error) {
		return largeWrites{c, sync.OnceFunc(func() { close(began) })}, nil
	}})
	node := peer.Node{ID: 1, Address: f.address()}
	first := ask(p, node, time.Hour)
	large := kmsg.NewPtrBrokerHeartbeatRequest()
	large.OfflineLogDirs = make([][16]byte, 1<<20)
	p.Send(node, peer.Message(large, time.Hour, func(r kmsg.Response, err error) { first <- outcome{r, err} }))
	<-began
	return p, node, first
}

// A node that hangs in the middle of a request is given up, and can be asked
// again over another connection. Fails if end leaves the connection open.
func TestKeepDoesNotWaitForANodeThatHangs(t *testing.T) {
	p, node, hung := hangInWrite(t)
	p.Keep(2)
	for range 2 {
		if o := get(t, hung); !errors.Is(o.err, peer.ErrDropped) {
			t.Errorf("outcome %v, want that it was given up", o.err)
		}
	}
	must(t, get(t, ask(p, node, time.Hour)).err)
}

// Fails if end leaves the connection open: Close would wait for the deadline of
// the request.
func TestCloseDoesNotWaitForANodeThatHangs(t *testing.T) {
	p, _, hung := hangInWrite(t)
	p.Close()
	for range 2 {
		if o := get(t, hung); !errors.Is(o.err, peer.ErrClosed) {
			t.Errorf("outcome %v, want that the pool is closed", o.err)
		}
	}
}
