package peer_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/peer"
	"moldau/internal/wire"
)

// patience bounds every wait; reaching it is a failure.
const patience = 20 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fake is a node that speaks Kafka's protocol as the test says.
type fake struct {
	t       testing.TB
	l       net.Listener
	highest map[int16]int16 // versions that it tells; nil: ApiVersions v0–5 and heartbeats v0–2
	oldest  bool            // knows ApiVersions v0 only
	// serve answers a request; nil answers nothing. It runs in order per connection.
	serve func(c net.Conn, key, version int16, corr int32, body []byte) []byte

	mu    sync.Mutex
	conns []net.Conn
	seen  []int16 // versions of requests other than ApiVersions
	asked []int16 // versions of ApiVersions
	work  sync.WaitGroup
}

func newFake(t testing.TB, address string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	f := &fake{t: t, l: l, highest: map[int16]int16{18: 5, 63: 2}}
	f.serve = func(_ net.Conn, _, version int16, _ int32, _ []byte) []byte {
		resp := kmsg.NewPtrBrokerHeartbeatResponse()
		resp.SetVersion(version)
		resp.IsFenced = true
		return append([]byte{0}, resp.AppendTo(nil)...)
	}
	t.Cleanup(f.stop)
	return f
}

func (f *fake) start() *fake {
	f.work.Add(1)
	go func() {
		defer f.work.Done()
		for {
			c, err := f.l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			f.work.Add(1)
			go func() {
				defer f.work.Done()
				f.talk(c)
			}()
		}
	}()
	return f
}

func (f *fake) address() string { return f.l.Addr().String() }

func (f *fake) stop() {
	f.l.Close()
	f.hangUp()
	f.work.Wait()
}

// hangUp ends all connections.
func (f *fake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}

func (f *fake) talk(c net.Conn) {
	defer c.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, frame); err != nil {
			return
		}
		h, body, err := wire.ParseHeader(frame, func(key, version int16) bool {
			r := kmsg.RequestForKey(key)
			r.SetVersion(version)
			return r.IsFlexible()
		})
		if err != nil {
			f.t.Error(err)
			return
		}
		f.mu.Lock()
		if h.Key == 18 {
			f.asked = append(f.asked, h.Version)
		} else {
			f.seen = append(f.seen, h.Version)
		}
		f.mu.Unlock()
		var answer []byte
		if h.Key == 18 {
			answer = f.versions(h.Version)
		} else {
			answer = f.serve(c, h.Key, h.Version, h.CorrelationID, body)
		}
		if answer != nil {
			reply(c, h.CorrelationID, answer)
		}
	}
}

func reply(c net.Conn, corr int32, answer []byte) {
	out := binary.BigEndian.AppendUint32(nil, uint32(4+len(answer)))
	out = binary.BigEndian.AppendUint32(out, uint32(corr))
	c.Write(append(out, answer...))
}

func (f *fake) versions(version int16) []byte {
	resp := kmsg.NewPtrApiVersionsResponse()
	for k, v := range f.highest {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k, MaxVersion: v})
	}
	resp.SetVersion(version)
	if f.oldest && version > 0 {
		resp.ErrorCode, resp.ApiKeys = int16(kafka.ErrUnsupportedVersion), nil
		resp.SetVersion(0)
	}
	return resp.AppendTo(nil)
}

type outcome struct {
	resp kmsg.Response
	err  error
}

// ask sends a heartbeat and gives the channel of its outcome.
func ask(p *peer.Pool, n peer.Node, timeout time.Duration) chan outcome {
	done := make(chan outcome, 2)
	p.Send(n, peer.Message(kmsg.NewPtrBrokerHeartbeatRequest(), timeout, func(r kmsg.Response, err error) { done <- outcome{r, err} }))
	return done
}

func get(t testing.TB, c chan outcome) outcome {
	t.Helper()
	select {
	case o := <-c:
		return o
	case <-time.After(patience):
		t.Fatal("no outcome")
		return outcome{}
	}
}

func newPool(t testing.TB, o peer.Options) *peer.Pool {
	t.Helper()
	if o.RequestTimeout == 0 {
		o.RequestTimeout = patience
	}
	p := peer.New(o)
	t.Cleanup(p.Close)
	return p
}
