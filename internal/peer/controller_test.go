package peer_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/peer"
)

func heartbeat(done chan outcome, timeout time.Duration) peer.Request {
	return peer.Message(kmsg.NewPtrBrokerHeartbeatRequest(), timeout, func(r kmsg.Response, err error) { done <- outcome{r, err} })
}

func notController(r kmsg.Response) bool {
	return r.(*kmsg.BrokerHeartbeatResponse).ErrorCode == int16(kafka.ErrNotController)
}

// A request finds the controller: past nobody, past a dead node and past one
// that says it is not it.
func TestControllerIsFound(t *testing.T) {
	dead := newFake(t, "127.0.0.1:0")
	dead.stop()
	former := newFake(t, "127.0.0.1:0")
	former.serve = func(_ net.Conn, _, version int16, _ int32, _ []byte) []byte {
		resp := kmsg.NewPtrBrokerHeartbeatResponse()
		resp.SetVersion(version)
		resp.ErrorCode = int16(kafka.ErrNotController)
		return append([]byte{0}, resp.AppendTo(nil)...)
	}
	former.start()
	active := newFake(t, "127.0.0.1:0").start()
	var calls atomic.Int32
	p := newPool(t, peer.Options{BackoffMax: time.Millisecond})
	c := peer.NewController(p, func() (peer.Node, bool) {
		switch calls.Add(1) {
		case 1:
			return peer.Node{}, false
		case 2:
			return peer.Node{ID: 1, Address: dead.address()}, true
		case 3:
			return peer.Node{ID: 2, Address: former.address()}, true
		}
		return peer.Node{ID: 3, Address: active.address()}, true
	})
	defer c.Close()
	done := make(chan outcome, 2)
	c.Send(heartbeat(done, 0), notController)
	o := get(t, done)
	must(t, o.err)
	if notController(o.resp) || calls.Load() != 4 {
		t.Errorf("%+v after %d calls", o.resp, calls.Load())
	}
}

// Without a controller a request ends when its time is up, and at once with Close.
func TestControllerIsMissing(t *testing.T) {
	p := newPool(t, peer.Options{})
	c := peer.NewController(p, func() (peer.Node, bool) { return peer.Node{}, false })
	done := make(chan outcome, 2)
	c.Send(heartbeat(done, 20*time.Millisecond), nil)
	if o := get(t, done); !errors.Is(o.err, peer.ErrTimeout) || !errors.Is(o.err, peer.ErrNoController) {
		t.Errorf("%v", o.err)
	}
	c.Send(heartbeat(done, time.Hour), nil)
	c.Close()
	if o := get(t, done); !errors.Is(o.err, peer.ErrClosed) {
		t.Errorf("%v", o.err)
	}
	c.Send(heartbeat(done, time.Hour), nil)
	if o := get(t, done); !errors.Is(o.err, peer.ErrClosed) {
		t.Errorf("%v", o.err)
	}
}

// Changed ends the wait: the pause alone lasts longer than the request may.
func TestControllerChanged(t *testing.T) {
	f := newFake(t, "127.0.0.1:0").start()
	p := newPool(t, peer.Options{RetryPause: time.Hour})
	var known atomic.Bool
	looked := make(chan struct{}, 1000)
	c := peer.NewController(p, func() (peer.Node, bool) {
		looked <- struct{}{}
		return peer.Node{ID: 1, Address: f.address()}, known.Load()
	})
	defer c.Close()
	done := make(chan outcome, 2)
	c.Send(heartbeat(done, 0), nil)
	<-looked
	known.Store(true)
	for len(done) == 0 && len(looked) == 0 {
		c.Changed() // it may not wait yet
	}
	must(t, get(t, done).err)
}

// A controller that hangs is given up when another is known, and asked no more.
// Fails if Changed leaves requests with a former controller.
func TestHangingControllerIsGivenUp(t *testing.T) {
	asked, over := make(chan struct{}), make(chan struct{})
	hanging := newFake(t, "127.0.0.1:0")
	hanging.serve = func(net.Conn, int16, int16, int32, []byte) []byte {
		close(asked)
		<-over
		return nil
	}
	hanging.start()
	defer close(over)
	next := newFake(t, "127.0.0.1:0").start()
	p := newPool(t, peer.Options{})
	var moved atomic.Bool
	c := peer.NewController(p, func() (peer.Node, bool) {
		if moved.Load() {
			return peer.Node{ID: 2, Address: next.address()}, true
		}
		return peer.Node{ID: 1, Address: hanging.address()}, true
	})
	defer c.Close()
	done := make(chan outcome, 1)
	c.Send(heartbeat(done, time.Hour), nil)
	<-asked
	moved.Store(true)
	c.Changed()
	must(t, get(t, done).err)
}
