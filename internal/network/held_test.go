package network

import (
	"errors"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"moldau/internal/wire"
)

// scripted serves requests as a test says.
type scripted func(*wire.Request)

func (f scripted) Serve(q *wire.Request) { f(q) }

// dialScripted listens with a script and connects to it.
func dialScripted(t *testing.T, o Options, script scripted) (*Server, *net.TCPConn) {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	return s, dialNew(t, s, "PLAINTEXT", script)
}

// dialNew opens a listener and connects to it.
func dialNew(t testing.TB, s *Server, listener string, h Handler) *net.TCPConn {
	t.Helper()
	address, err := s.Listen(listener, "127.0.0.1:0", h)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// wantAnswers reads answers and compares their correlation ids.
func wantAnswers(t *testing.T, c net.Conn, want ...int32) {
	t.Helper()
	var got []int32
	for range want {
		id, _ := receive(t, c)
		got = append(got, id)
	}
	if !slices.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
}

// Answers do not wait while the next request waits for memory that others have.
// Fails if acquire does not release.
func TestHeldAnswersDoNotWaitForMemory(t *testing.T) {
	kept := make(chan *wire.Request, 1)
	s, other := dialScripted(t, Options{BudgetBytes: 5000}, func(q *wire.Request) {
		if len(q.Frame) > 4000 {
			kept <- q
			return
		}
		answer(q, "")
	})
	send(t, other, frame(wire.KeyProduce, 1, make([]byte, 4000)))
	late := <-kept
	c, err := net.Dial("tcp", other.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	send(t, c, frame(wire.KeyProduce, 1, nil), frame(wire.KeyProduce, 2, nil), frame(wire.KeyProduce, 3, make([]byte, 1500)))
	wantAnswers(t, c, 1, 2)
	if _, contended := s.budget.Used(); !contended {
		t.Error("the third does not wait")
	}
	answer(late, "")
	wantAnswers(t, other, 1)
	wantAnswers(t, c, 3)
}

// A request that has its connection closed does not take the answers of those before
// it along, nor does one whose answer cannot be sent. Fails if Drop does not send what
// is held back.
func TestDropSendsWhatWasAnsweredBefore(t *testing.T) {
	_, c := dialScripted(t, Options{}, func(q *wire.Request) {
		if wire.PeekKey(q.Frame) == keptKey {
			q.Drop(errors.New("nonsense"))
			return
		}
		answer(q, "")
	})
	one := func(id int32) []byte { return frame(3, id, nil) }
	send(t, c, one(1), one(2), one(3), frame(keptKey, 4, nil), one(5))
	wantAnswers(t, c, 1, 2, 3)
	closedBy(t, c)
}

// A request that takes long does not begin before answers are sent that have waited
// for as long as they may. Fails if serve does not look at the time before it.
func TestHeldAnswersDoNotWaitForASlowRequest(t *testing.T) {
	resume := make(chan struct{})
	_, c := dialScripted(t, Options{}, func(q *wire.Request) {
		switch wire.PeekKey(q.Frame) {
		case keptKey:
			for began := time.Now(); time.Since(began) <= 2*holdFor; {
				runtime.Gosched()
			}
		case keptKey + 1:
			<-resume
		}
		answer(q, "")
	})
	defer close(resume)
	send(t, c, frame(3, 1, nil), frame(keptKey, 2, nil), frame(keptKey+1, 3, nil))
	wantAnswers(t, c, 1, 2)
}

// Trap 13: a Produce that came behind another request does not begin if the client has reset
// the connection meanwhile, which sending the answer of the one before would have
// told. Fails if serve does not ask for it.
func TestTrap13HeldAnswersHideNoReset(t *testing.T) {
	dead := make(chan struct{})
	later := make(chan int16, 10)
	s, c := dialScripted(t, Options{}, func(q *wire.Request) {
		switch key := wire.PeekKey(q.Frame); key {
		case keptKey:
			<-dead
			for !q.Broken() {
				runtime.Gosched()
			}
		case 3:
		default:
			later <- key
		}
		answer(q, "")
	})
	send(t, c, frame(3, 1, nil), frame(keptKey, 2, nil), frame(wire.KeyProduce, 3, nil), frame(21, 4, nil))
	wantAnswers(t, c, 1)
	_ = c.SetLinger(0)
	c.Close()
	close(dead)
	gone(t, s, func() bool { return s.Connections() == 0 })
	close(later)
	for key := range later {
		t.Errorf("a request of API %d was begun", key)
	}
	if used, _ := s.budget.Used(); used != 0 {
		t.Errorf("%d bytes of budget are lost", used)
	}
}
