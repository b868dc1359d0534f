package network

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"moldau/internal/wire"
)

// fakeHandler hands every request to the test.
type fakeHandler struct{ requests chan *wire.Request }

func (f *fakeHandler) Serve(r *wire.Request) { f.requests <- r }

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
	grew chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.grew <- struct{}{}:
	default:
	}
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

type rig struct {
	t    *testing.T
	s    *Server
	h    *fakeHandler
	addr string
	log  *lockedBuffer
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{t: t, h: &fakeHandler{requests: make(chan *wire.Request, 100)}, log: &lockedBuffer{grew: make(chan struct{}, 1)}}
	o.Log = slog.New(slog.NewTextHandler(r.log, nil))
	r.s = New(o)
	t.Cleanup(r.s.Close)
	a, err := r.s.Listen("PLAINTEXT", "127.0.0.1:0", r.h)
	if err != nil {
		t.Fatal(err)
	}
	r.addr = a.String()
	return r
}

func (r *rig) dial() net.Conn {
	r.t.Helper()
	return r.dialTo(r.addr)
}

func (r *rig) dialTo(address string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(20 * time.Second)) // a hung test, not a wait
	r.t.Cleanup(func() { c.Close() })
	return c
}

func frame(key int16, correlation int32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	return append(b, body...)
}

func send(t testing.TB, c net.Conn, frames ...[]byte) {
	t.Helper()
	if _, err := c.Write(bytes.Join(frames, nil)); err != nil {
		t.Fatal(err)
	}
}

func answer(r *wire.Request, body string) {
	h, _, _ := wire.ParseHeader(append(bytes.Clone(r.Frame), 0xff, 0xff), func(_, _ int16) bool { return false })
	resp := r.Response()
	resp.Start(h.CorrelationID, false)
	resp.Buf = append(resp.Buf, body...)
	r.Reply(resp)
}

func receive(t testing.TB, c net.Conn) (int32, string) {
	t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(head[4:])), string(body)
}

func (r *rig) next() *wire.Request {
	r.t.Helper()
	select {
	case q := <-r.h.requests:
		return q
	case <-time.After(20 * time.Second):
		r.t.Fatal("no request came")
		return nil
	}
}

func (r *rig) none(what string) {
	r.t.Helper()
	select {
	case <-r.h.requests:
		r.t.Fatal(what)
	default:
	}
}

// "A second Produce is in the handler while the first still waits"; fails if
// enqueue waits for every predecessor.
func TestProducesArePipelinedAndAnsweredInOrder(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial()
	send(t, c, frame(0, 1, nil), frame(0, 2, nil), frame(0, 3, nil))
	a, b, d := r.next(), r.next(), r.next()
	answer(d, "three")
	answer(b, "two")
	answer(a, "one")
	for i, want := range []string{"one", "two", "three"} {
		if id, got := receive(t, c); got != want || id != int32(i+1) {
			t.Errorf("answer %d is %d %q", i, id, got)
		}
	}
}

// HC-156: fails if mayStart lets anything but Produce pass a waiting request.
func TestHC156OthersWaitForTheirPredecessors(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial()
	send(t, c, frame(0, 1, nil), frame(8, 2, nil), frame(0, 3, nil))
	first := r.next()
	r.none("an OffsetCommit started beside a Produce")
	answer(first, "")
	receive(t, c)
	second := r.next()
	if wire.PeekKey(second.Frame) != 8 {
		t.Fatal("out of order")
	}
	r.none("a Produce started beside an OffsetCommit")
	answer(second, "")
	receive(t, c)
	answer(r.next(), "")
	receive(t, c)
}

// An acks=0 Produce takes no reply.
func TestNoReplyTakesNoPlace(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial()
	send(t, c, frame(0, 1, nil), frame(0, 2, nil))
	r.next().NoReply()
	answer(r.next(), "two")
	if id, got := receive(t, c); id != 2 || got != "two" {
		t.Error(id, got)
	}
}

// HC-157: correlation ids are echoed and never used as keys.
func TestHC157CorrelationIDsAreOpaque(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial()
	ids := []int32{2147483647, -2147483648, -1, 0, 0, 0}
	for _, id := range ids {
		send(t, c, frame(0, id, nil))
	}
	var rs []*wire.Request
	for range ids {
		rs = append(rs, r.next())
	}
	for i := len(rs) - 1; i >= 0; i-- {
		answer(rs[i], string(rune('a'+i)))
	}
	for i, id := range ids {
		if got, body := receive(t, c); got != id || body != string(rune('a'+i)) {
			t.Errorf("answer %d: %d %q", i, got, body)
		}
	}
}

func closedBy(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Fatalf("connection is still open: %d %v", n, err)
	}
}

func (r *rig) waitLog(want string) {
	r.t.Helper()
	hung := time.After(20 * time.Second)
	for !strings.Contains(r.log.String(), want) {
		select {
		case <-r.log.grew:
		case <-hung:
			r.t.Fatalf("log has no %q:\n%s", want, r.log.String())
		}
	}
}

// HC-145: fails if the claimed size is allocated or waited for.
func TestHC145LengthsThatCannotBe(t *testing.T) {
	r := newRig(t, Options{MaxRequestBytes: 1000})
	for name, in := range map[string][]byte{
		"negative": {0xff, 0xff, 0xff, 0xff},
		"2 GB":     {0x7f, 0xff, 0xff, 0xff},
		"zero":     {0, 0, 0, 0},
		"HTTP":     []byte("GET / HTTP/1.1\r\n\r\n"),
		"TLS":      {0x16, 0x03, 0x01, 0x02, 0x00, 0x01},
	} {
		c := r.dial()
		send(t, c, in)
		t.Run(name, func(t *testing.T) { closedBy(t, c) })
	}
	r.waitLog("socket.request.max.bytes")
	c := r.dial() // the others live
	send(t, c, frame(18, 1, nil))
	answer(r.next(), "fine")
	receive(t, c)
}

// Trap 13: fails if enqueue hands out frames after the connection closed.
func TestTrap13FramesOfADeadConnectionAreDropped(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial()
	send(t, c, frame(8, 1, nil), frame(8, 2, nil), frame(8, 3, nil))
	first := r.next()
	gone := make(chan struct{})
	if !first.OnGone(func() { close(gone) }) {
		t.Fatal("gone already")
	}
	r.s.mu.Lock()
	for cn := range r.s.conns {
		go cn.shut(io.EOF)
	}
	r.s.mu.Unlock()
	<-gone
	answer(first, "nobody reads this")
	r.s.Close() // waits for the connection's goroutine
	r.none("a frame of a dead connection was started")
	if used, _ := r.s.budget.Used(); used != 0 {
		t.Errorf("%d bytes of budget are lost", used)
	}
}

func TestConnectionLimits(t *testing.T) {
	limits := Unlimited()
	limits.MaxConnectionsPerIP = 2
	r := newRig(t, Options{Limits: &limits})
	for i := 0; i < 2; i++ {
		c := r.dial()
		send(t, c, frame(18, 1, nil))
		answer(r.next(), "")
		receive(t, c)
	}
	closedBy(t, r.dial())
	r.waitLog("max.connections.per.ip")
}

func TestIdleAndSlowClientsAreClosed(t *testing.T) {
	r := newRig(t, Options{IdleTimeout: 50 * time.Millisecond, FrameTimeout: 50 * time.Millisecond})
	closedBy(t, r.dial())
	half := r.dial()
	send(t, half, frame(18, 1, []byte("never comes"))[:12])
	closedBy(t, half)
	r.waitLog("did not arrive")
	r.s.Close() // waits for the connections' goroutines, which give back what they took
	if used, _ := r.s.budget.Used(); used != 0 {
		t.Errorf("%d bytes of budget are lost", used)
	}
}

// A client that claims memory and stands still must not hold up the others.
func TestStalledFrameYieldsTheBudget(t *testing.T) {
	r := newRig(t, Options{BudgetBytes: 10_000, StallTimeout: 20 * time.Millisecond, FrameTimeout: time.Hour})
	slow := r.dial()
	send(t, slow, frame(0, 1, make([]byte, 9000))[:probeBytes+4])
	for {
		if used, _ := r.s.budget.Used(); used > 0 {
			break
		}
		runtime.Gosched()
	}
	c := r.dial()
	send(t, c, frame(0, 7, make([]byte, 5000)))
	answer(r.next(), "served")
	if _, got := receive(t, c); got != "served" {
		t.Error(got)
	}
	closedBy(t, slow)
}

func TestFrameLargerThanTheBudgetIsServedAlone(t *testing.T) {
	r := newRig(t, Options{BudgetBytes: 1 << 20})
	c := r.dial()
	body := bytes.Repeat([]byte("x"), 5<<20)
	go c.Write(frame(0, 1, body))
	q := r.next()
	if !bytes.Equal(q.Frame[8:], body) {
		t.Error("the frame is not what was sent")
	}
	answer(q, "ok")
	receive(t, c)
}

func TestRequestTooLargeToDecodeIsRefused(t *testing.T) {
	r := newRig(t, Options{BudgetBytes: 1 << 20})
	c := r.dial()
	go c.Write(frame(3, 1, make([]byte, 100_000)))
	r.waitLog("too large to decode")
	if used, _ := r.s.budget.Used(); used != 0 {
		t.Errorf("%d bytes of budget are lost", used)
	}
}

type fileRange struct {
	f        *os.File
	at       int64
	n        int
	released chan struct{}
}

func (f *fileRange) Len() int                                { return f.n }
func (f *fileRange) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, f.at+off) }
func (f *fileRange) Descriptor() (uintptr, int64, bool)      { return f.f.Fd(), f.at, true }
func (f *fileRange) Release()                                { close(f.released) }

func TestFileRangesGoOutBetweenBytes(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 3<<20)
	for i := range content {
		content[i] = byte(i * 7)
	}
	f.Write(content)
	r := newRig(t, Options{SendfileMinBytes: 1000})
	for _, n := range []int{10, 999, 1000, 100_000, 2 << 20} {
		c := r.dial()
		send(t, c, frame(1, 1, nil))
		q := r.next()
		resp := q.Response()
		resp.Start(1, false)
		resp.Buf = append(resp.Buf, "before"...)
		fr := &fileRange{f: f, at: 123, n: n, released: make(chan struct{})}
		resp.File(fr)
		resp.Buf = append(resp.Buf, "after"...)
		go q.Reply(resp)
		_, got := receive(t, c)
		want := "before" + string(content[123:123+n]) + "after"
		if got != want {
			t.Errorf("%d bytes: answer differs", n)
		}
		<-fr.released
	}
}

// A client that reads nothing: ranges are released when it goes.
func TestUnsentRangesAreReleased(t *testing.T) {
	r := newRig(t, Options{})
	c := r.dial()
	send(t, c, frame(0, 1, nil), frame(0, 2, nil))
	first, second := r.next(), r.next()
	fr := &fileRange{n: 10, released: make(chan struct{})}
	resp := second.Response()
	resp.Start(2, false)
	resp.File(fr)
	second.Reply(resp) // waits for the first
	c.Close()
	first.Drop(io.ErrUnexpectedEOF)
	<-fr.released
}

func TestSizeClasses(t *testing.T) {
	for n := 1; n < 1<<21; n += 1 + n/50 {
		class := classOf(n)
		if class < n || class != classOf(class) || class > minFrameBuffer && class-n > n/8+1 {
			t.Fatalf("classOf(%d) = %d", n, class)
		}
	}
}

// ≤ 2 allocations per request: here the whole path of reading and answering.
func BenchmarkRequest(b *testing.B) {
	s := New(Options{})
	defer s.Close()
	a, err := s.Listen("PLAINTEXT", "127.0.0.1:0", echo{})
	if err != nil {
		b.Fatal(err)
	}
	c, err := net.Dial("tcp", a.String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := frame(0, 1, make([]byte, 1000))
	br := bufio.NewReader(c)
	got := make([]byte, 8)
	b.ReportAllocs()
	for b.Loop() {
		c.Write(in)
		if _, err := io.ReadFull(br, got); err != nil {
			b.Fatal(err)
		}
	}
}

type echo struct{}

func (echo) Serve(r *wire.Request) {
	resp := r.Response()
	resp.Start(1, false)
	r.Reply(resp)
}

// watching is a handler that hears of ends of connections.
type watching struct {
	fakeHandler
	ended chan bool
}

func (w *watching) ConnectionClosed(_ *wire.Peer, byPeer bool) { w.ended <- byPeer }

// A handler is told who ended a connection. Fails if a client's end is not told
// as such, or if ours is: then a broker would be fenced for what we did.
func TestWatcherHearsWhoClosed(t *testing.T) {
	s := New(Options{IdleTimeout: time.Hour})
	t.Cleanup(s.Close)
	w := &watching{fakeHandler{make(chan *wire.Request, 10)}, make(chan bool, 10)}
	addr, err := s.Listen("C", "127.0.0.1:0", w)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		end    func(net.Conn, *wire.Request)
		byPeer bool
	}{
		"closed":               {func(c net.Conn, _ *wire.Request) { c.Close() }, true},
		"reset":                {func(c net.Conn, _ *wire.Request) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() }, true},
		"dropped by a handler": {func(_ net.Conn, r *wire.Request) { r.Drop(io.EOF) }, false},
	} {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		send(t, conn, frame(63, 1, nil))
		r := <-w.requests
		c.end(conn, r) // the request may still wait for its answer
		select {
		case byPeer := <-w.ended:
			if byPeer != c.byPeer {
				t.Errorf("%s: by peer %v", name, byPeer)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: nothing was told", name)
		}
	}
}
