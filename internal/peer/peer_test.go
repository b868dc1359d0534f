package peer_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/peer"
)

// The request goes out in the highest version that both know, to a node that
// knows only the oldest ApiVersions too. Fails if the version is the caller's.
func TestVersionIsTheHighestCommon(t *testing.T) {
	for _, oldest := range []bool{false, true} {
		f := newFake(t, "127.0.0.1:0")
		f.highest[63], f.oldest = 1, oldest
		f.start()
		p := newPool(t, peer.Options{})
		o := get(t, ask(p, peer.Node{ID: 1, Address: f.address()}, 0))
		must(t, o.err)
		if r := o.resp.(*kmsg.BrokerHeartbeatResponse); r.Version != 1 || !r.IsFenced {
			t.Errorf("answer %+v", r)
		}
		done := make(chan outcome, 1)
		r := peer.Message(kmsg.NewPtrBrokerHeartbeatRequest(), 0, func(r kmsg.Response, err error) { done <- outcome{r, err} })
		r.Min = 2
		p.Send(peer.Node{ID: 1, Address: f.address()}, r)
		if o := get(t, done); !errors.Is(o.err, peer.ErrUnsupportedVersion) {
			t.Errorf("a request that needs version 2: %v", o.err)
		}
		f.mu.Lock()
		if len(f.seen) != 1 || f.seen[0] != 1 || len(f.conns) != 1 {
			t.Errorf("versions %v on %d connections, asked %v", f.seen, len(f.conns), f.asked)
		}
		f.mu.Unlock()
	}
}

// Requests are on the wire together, and each gets its own answer.
func TestPipelining(t *testing.T) {
	const n = 5
	f := newFake(t, "127.0.0.1:0")
	var corrs []int32
	f.serve = func(c net.Conn, _, version int16, corr int32, _ []byte) []byte {
		if corrs = append(corrs, corr); len(corrs) == n { // answers only when all have come
			for i, corr := range corrs {
				resp := kmsg.NewPtrBrokerHeartbeatResponse()
				resp.SetVersion(version)
				resp.ThrottleMillis = int32(i)
				reply(c, corr, append([]byte{0}, resp.AppendTo(nil)...))
			}
		}
		return nil
	}
	f.start()
	p := newPool(t, peer.Options{})
	var waits []chan outcome
	for range n {
		waits = append(waits, ask(p, peer.Node{ID: 1, Address: f.address()}, 0))
	}
	for i, w := range waits {
		o := get(t, w)
		must(t, o.err)
		if got := o.resp.(*kmsg.BrokerHeartbeatResponse).ThrottleMillis; got != int32(i) {
			t.Errorf("request %d got answer %d", i, got)
		}
	}
}

// A connection that the other side ends fails what it carried at once, and is
// reported; so is each refusal after it, but none before the first success.
func TestLostConnectionIsReported(t *testing.T) {
	lost := make(chan peer.Node, 100)
	p := newPool(t, peer.Options{Lost: func(n peer.Node) { lost <- n }, BackoffMax: time.Millisecond})
	f := newFake(t, "127.0.0.1:0")
	called := make(chan struct{}, 10)
	f.serve = func(net.Conn, int16, int16, int32, []byte) []byte { called <- struct{}{}; return nil }
	f.start()
	n := peer.Node{ID: 7, Address: f.address()}
	w := ask(p, n, 0)
	<-called
	f.stop()
	if o := get(t, w); !errors.Is(o.err, peer.ErrLost) {
		t.Errorf("request in flight: %v", o.err)
	}
	if got := <-lost; got != n {
		t.Errorf("lost %v", got)
	}
	for len(lost) == 0 {
		if o := get(t, ask(p, n, 0)); !errors.Is(o.err, peer.ErrUnreachable) {
			t.Fatalf("node is down: %v", o.err)
		}
	}
	<-lost
	never := peer.Node{ID: 8, Address: n.Address}
	get(t, ask(p, never, 0))
	if o := get(t, ask(p, n, 0)); o.err == nil {
		t.Error("answered by nobody")
	}
	for len(lost) > 0 {
		if got := <-lost; got.ID == never.ID {
			t.Error("a node that was never reached is reported lost")
		}
	}
}

// An answer that is late ends the connection; the next request gets a new one.
func TestLateAnswerEndsTheConnection(t *testing.T) {
	f := newFake(t, "127.0.0.1:0")
	good, first := f.serve, make(chan struct{}, 1)
	first <- struct{}{}
	f.serve = func(c net.Conn, k, v int16, corr int32, b []byte) []byte {
		select {
		case <-first:
			return nil
		default:
		}
		return good(c, k, v, corr, b)
	}
	f.start()
	p := newPool(t, peer.Options{Lost: func(peer.Node) { t.Error("our own doing is reported as lost") }})
	n := peer.Node{ID: 1, Address: f.address()}
	if o := get(t, ask(p, n, 50*time.Millisecond)); !errors.Is(o.err, peer.ErrTimeout) {
		t.Errorf("late: %v", o.err)
	}
	must(t, get(t, ask(p, n, 0)).err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.conns) != 2 {
		t.Errorf("%d connections", len(f.conns))
	}
}

// A node that has moved is called at its new address. Fails if ready does not
// compare addresses.
func TestConnectionFollowsTheNode(t *testing.T) {
	p := newPool(t, peer.Options{})
	for range 3 {
		f := newFake(t, "127.0.0.1:0").start()
		must(t, get(t, ask(p, peer.Node{ID: 1, Address: f.address()}, 0)).err)
		f.mu.Lock()
		if len(f.seen) != 1 {
			t.Errorf("%d requests", len(f.seen))
		}
		f.mu.Unlock()
	}
}

// A call at an old address, where nobody answers, ends when the node is known
// to be elsewhere.
func TestMovingEndsACallInProgress(t *testing.T) {
	calling := make(chan struct{})
	f := newFake(t, "127.0.0.1:0").start()
	p := newPool(t, peer.Options{ConnectTimeout: time.Hour, Dial: func(ctx context.Context, address string) (net.Conn, error) {
		if address == "old:1" {
			close(calling)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return net.Dial("tcp", address)
	}})
	first := ask(p, peer.Node{ID: 1, Address: "old:1"}, 0)
	<-calling
	must(t, get(t, ask(p, peer.Node{ID: 1, Address: f.address()}, 0)).err)
	must(t, get(t, first).err)
}

// The name is resolved at each connect. Fails if an address is kept instead.
func TestHC053NamesAreResolvedAtEachConnect(t *testing.T) {
	var mu sync.Mutex
	dns := map[string]string{}
	p := newPool(t, peer.Options{BackoffMax: time.Millisecond, Dial: func(_ context.Context, address string) (net.Conn, error) {
		mu.Lock()
		at, ok := dns[address]
		mu.Unlock()
		if !ok {
			return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
		}
		return net.Dial("tcp", at)
	}})
	n := peer.Node{ID: 1, Address: "node.example:9093"}
	var dnsError *net.DNSError
	if o := get(t, ask(p, n, 0)); !errors.As(o.err, &dnsError) {
		t.Fatalf("the name does not resolve yet: %v", o.err)
	}
	for range 2 {
		f := newFake(t, "127.0.0.1:0").start()
		mu.Lock()
		dns[n.Address] = f.address()
		mu.Unlock()
		end := time.Now().Add(patience)
		for get(t, ask(p, n, 0)).err != nil {
			if time.Now().After(end) {
				t.Fatal("never reached")
			}
		}
		f.stop()
	}
}

// While a node cannot be reached its requests fail at once, not by timeout.
func TestUnreachableFailsAtOnce(t *testing.T) {
	calls := make(chan struct{}, 100)
	p := newPool(t, peer.Options{BackoffMin: time.Hour, BackoffMax: time.Hour, Dial: func(context.Context, string) (net.Conn, error) {
		calls <- struct{}{}
		return nil, errors.New("no way")
	}})
	for range 5 {
		o := get(t, ask(p, peer.Node{ID: 1, Address: "a:1"}, 0))
		if !errors.Is(o.err, peer.ErrUnreachable) || !strings.Contains(o.err.Error(), "no way") {
			t.Errorf("%v", o.err)
		}
	}
	if len(calls) != 1 {
		t.Errorf("%d calls during the back-off", len(calls))
	}
}

func TestBounds(t *testing.T) {
	f := newFake(t, "127.0.0.1:0")
	f.serve = func(net.Conn, int16, int16, int32, []byte) []byte { return nil }
	f.start()
	p := newPool(t, peer.Options{MaxQueued: 3, MaxNodes: 1, MaxInFlight: 1})
	n := peer.Node{ID: 1, Address: f.address()}
	var waits []chan outcome
	for range 3 {
		waits = append(waits, ask(p, n, 0))
	}
	if o := get(t, ask(p, n, 0)); !errors.Is(o.err, peer.ErrQueueFull) {
		t.Errorf("fourth request: %v", o.err)
	}
	if o := get(t, ask(p, peer.Node{ID: 2, Address: f.address()}, 0)); !errors.Is(o.err, peer.ErrQueueFull) {
		t.Errorf("second node: %v", o.err)
	}
	p.Close()
	for i, w := range waits {
		if o := get(t, w); !errors.Is(o.err, peer.ErrClosed) {
			t.Errorf("request %d: %v", i, o.err)
		}
	}
	if o := get(t, ask(p, n, 0)); !errors.Is(o.err, peer.ErrClosed) {
		t.Errorf("after Close: %v", o.err)
	}
}

// Whatever is wrong with an answer ends the connection, not the process.
func TestBadAnswers(t *testing.T) {
	for name, answer := range map[string]func(c net.Conn, corr int32){
		"too long":     func(c net.Conn, _ int32) { c.Write([]byte{0x7f, 0xff, 0xff, 0xff}) },
		"negative":     func(c net.Conn, _ int32) { c.Write([]byte{0xff, 0xff, 0xff, 0xff}) },
		"wrong number": func(c net.Conn, corr int32) { reply(c, corr+1, []byte{0}) },
		"torn":         func(c net.Conn, corr int32) { reply(c, corr, []byte{0, 1}) },
		"empty":        func(c net.Conn, corr int32) { reply(c, corr, nil) },
	} {
		f := newFake(t, "127.0.0.1:0")
		f.serve = func(c net.Conn, _, _ int16, corr int32, _ []byte) []byte { answer(c, corr); return nil }
		f.start()
		p := newPool(t, peer.Options{MaxResponseBytes: 1000})
		if o := get(t, ask(p, peer.Node{ID: 1, Address: f.address()}, 0)); !errors.Is(o.err, peer.ErrLost) {
			t.Errorf("%s: %v", name, o.err)
		}
	}
}

// Close leaves no goroutine behind, whatever the connections are doing; an idle
// connection goes by itself.
func TestNoGoroutineIsLeft(t *testing.T) {
	f := newFake(t, "127.0.0.1:0").start()
	before := runtime.NumGoroutine()
	settle := func(what string, want int) {
		t.Helper()
		for end := time.Now().Add(patience); runtime.NumGoroutine() > want; {
			if time.Now().After(end) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%s: %d goroutines, before %d\n%s", what, runtime.NumGoroutine(), want, buf[:runtime.Stack(buf, true)])
			}
			runtime.Gosched()
		}
	}
	p := newPool(t, peer.Options{IdleTimeout: 20 * time.Millisecond})
	must(t, get(t, ask(p, peer.Node{ID: 1, Address: f.address()}, 0)).err)
	settle("idle", before)
	must(t, get(t, ask(p, peer.Node{ID: 1, Address: f.address()}, 0)).err)
	p.Close()
	settle("closed", before)
	p = newPool(t, peer.Options{Dial: func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }})
	w := ask(p, peer.Node{ID: 1, Address: "a:1"}, 0)
	p.Close()
	if o := get(t, w); o.err == nil {
		t.Error("answered")
	}
	settle("closed while calling", before)
}

// The hook's connection is the one that is used.
func TestSecureWrapsTheConnection(t *testing.T) {
	f := newFake(t, "127.0.0.1:0").start()
	wrapped := make(chan peer.Node, 1)
	p := newPool(t, peer.Options{Secure: func(_ context.Context, c net.Conn, n peer.Node) (net.Conn, error) { wrapped <- n; return c, nil }})
	n := peer.Node{ID: 1, Address: f.address()}
	must(t, get(t, ask(p, n, 0)).err)
	if got := <-wrapped; got != n {
		t.Errorf("%v", got)
	}
	p = newPool(t, peer.Options{Secure: func(context.Context, net.Conn, peer.Node) (net.Conn, error) { return nil, errors.New("untrusted") }})
	if o := get(t, ask(p, n, 0)); o.err == nil || !strings.Contains(o.err.Error(), "untrusted") {
		t.Errorf("%v", o.err)
	}
}
