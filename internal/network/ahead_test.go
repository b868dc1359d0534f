package network

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"moldau/internal/wire"
)

// echoSums answers at once with the length and checksum of the frame; what has the key
// of kept it keeps.
type echoSums struct{ kept chan *wire.Request }

const keptKey = 77

func (e *echoSums) Serve(q *wire.Request) {
	if wire.PeekKey(q.Frame) == keptKey {
		e.kept <- q
		return
	}
	answer(q, sum(q.Frame))
}

func sum(frame []byte) string { return fmt.Sprintf("%d %08x", len(frame), crc32.ChecksumIEEE(frame)) }

// echoRig listens with echoSums and connects to it.
func echoRig(t testing.TB, o Options) (*Server, *echoSums, net.Conn) {
	t.Helper()
	s, e := New(o), &echoSums{kept: make(chan *wire.Request, 10)}
	t.Cleanup(s.Close)
	return s, e, dialNew(t, s, "PLAINTEXT", e)
}

// Requests of all sizes, in whatever pieces they come, are whole and in order.
// Fails if skip, wholeAhead or readBody loses or doubles a byte.
func TestRequestsInAnyPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		s, _, c := echoRig(t, Options{})
		var stream []byte
		var want []string
		for i := range 300 {
			size := rnd.IntN(200)
			switch rnd.IntN(12) {
			case 0:
				size = smallFrameBytes - minRequestBytes - 2 + rnd.IntN(5)
			case 1:
				size = aheadBytes - minRequestBytes - 6 + rnd.IntN(9)
			case 2:
				size = rnd.IntN(50_000)
			}
			body := make([]byte, size)
			for j := range body {
				body[j] = byte(rnd.Uint32())
			}
			f := frame(3, int32(i), body)
			stream, want = append(stream, f...), append(want, sum(f[4:]))
		}
		go func() {
			for rest := stream; len(rest) > 0; {
				n := min(len(rest), 1+rnd.IntN([]int{3, 100, 20_000}[round%3]))
				if _, err := c.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		for i := range want {
			if id, got := receive(t, c); id != int32(i) || got != want[i] {
				t.Fatalf("round %d: answer %d: %d %q, want %q", round, i, id, got, want[i])
			}
		}
		gone(t, s, func() bool { return s.aheads.Load() == 0 })
		if used, _ := s.budget.Used(); used != 0 {
			t.Fatalf("%d bytes of budget are lost", used)
		}
		c.Close()
		s.Close()
	}
}

func gone(t testing.TB, s *Server, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d connections have read ahead", s.aheads.Load())
		}
	}
}

// Answers that wait for the next request's do not wait for ever: not if that one is
// not answered yet, whether another is behind it or not, and not if it is nonsense.
// They fail if serve does not release after the last request; if enqueue waits without
// sending; if serve does not release before it ends.
func TestHeldAnswersGo(t *testing.T) {
	one, kept := frame(3, 1, []byte("a")), frame(keptKey, 2, nil)
	for what, behind := range map[string][]byte{
		"a request that waits":             kept,
		"one that waits and one behind it": append(bytes.Clone(kept), frame(3, 3, []byte("b"))...),
		"a length that cannot be":          append(bytes.Clone(one), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
		"one that takes too much memory":   append(bytes.Clone(one), frame(3, 1, make([]byte, 300))...),
	} {
		_, e, c := echoRig(t, Options{BudgetBytes: 5000})
		want := 5
		stream := append(bytes.Repeat(one, want), behind...)
		if behind[5] != keptKey {
			want++ // it begins with another good one
		}
		if _, err := c.Write(stream); err != nil {
			t.Fatal(err)
		}
		for range want {
			if _, got := receive(t, c); got != sum(one[4:]) {
				t.Fatalf("%s: %q", what, got)
			}
		}
		if behind[5] != keptKey {
			closedBy(t, c)
			continue
		}
		answer(<-e.kept, "at last")
		if id, got := receive(t, c); id != 2 || got != "at last" {
			t.Errorf("%s: %d %q", what, id, got)
		}
		if len(behind) > len(kept) {
			if id, _ := receive(t, c); id != 3 {
				t.Errorf("%s: %d", what, id)
			}
		}
	}
}

// A connection that ends gives back what it has read ahead, in the middle of a request
// or with whole ones, as one that waits for the next request does
// (TestRequestsInAnyPieces). Fails if run does not drop it.
func TestEndGivesBackWhatWasReadAhead(t *testing.T) {
	s, _, c := echoRig(t, Options{})
	stream := bytes.Repeat(frame(3, 1, make([]byte, 100)), 4)
	if _, err := c.Write(append(stream, frame(3, 2, make([]byte, 100))[:50]...)); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		receive(t, c)
	}
	if s.aheads.Load() != 1 {
		t.Fatal("nothing was read ahead")
	}
	c.Close()
	gone(t, s, func() bool { return s.aheads.Load() == 0 })

	s, e, c := echoRig(t, Options{})
	stream = append(stream, frame(keptKey, 3, nil)...)
	if _, err := c.Write(append(stream, stream...)); err != nil {
		t.Fatal(err)
	}
	(<-e.kept).Drop(io.EOF)
	gone(t, s, func() bool { return s.aheads.Load() == 0 })
}

// Beyond maxAheads connections are served as before.
func TestNotEverybodyReadsAhead(t *testing.T) {
	s, _, c := echoRig(t, Options{})
	s.aheads.Store(maxAheads)
	one := frame(3, 1, []byte("a"))
	if _, err := c.Write(bytes.Repeat(one, 20)); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		receive(t, c)
	}
	if n := s.aheads.Load(); n != maxAheads {
		t.Errorf("%d have read ahead", n)
	}
}

// BenchmarkSmallRequests shows what reading and answering many at a time saves: as
// many requests are under way as the name says.
func BenchmarkSmallRequests(b *testing.B) {
	for _, window := range []int{1, 5, 32} {
		b.Run(fmt.Sprint(window), func(b *testing.B) {
			_, _, c := echoRig(b, Options{})
			_ = c.SetDeadline(time.Time{})
			one := frame(3, 1, make([]byte, 80))
			if _, err := c.Write(bytes.Repeat(one, window-1)); err != nil {
				b.Fatal(err)
			}
			in := make([]byte, 64<<10)
			size := 8 + len(sum(one[4:]))
			got := 0
			b.ReportAllocs()
			for sent := 0; got < b.N*size; {
				n := got/size + 1 - sent // a client that sends one for each that was answered
				if _, err := c.Write(bytes.Repeat(one, n)); err != nil {
					b.Fatal(err)
				}
				sent += n
				m, err := c.Read(in)
				if err != nil {
					b.Fatal(err)
				}
				got += m
			}
		})
	}
}
