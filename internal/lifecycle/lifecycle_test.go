package lifecycle

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
)

// Scripts in testdata: a line is "TIME EVENT args"; the lines behind "→" are
// what must come of it.
func TestScripts(t *testing.T) {
	f, err := os.Open("testdata/broker.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b *Broker
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case line == "new":
			b = NewBroker(Options{HeartbeatInterval: 2 * time.Second, RetryBackoff: 100 * time.Millisecond})
			continue
		}
		in, want, _ := strings.Cut(line, "→")
		if got := run(t, b, in); got != strings.TrimSpace(want) {
			t.Errorf("line %d: %s\n got %s\nwant %s", n, in, got, strings.TrimSpace(want))
		}
	}
}

func run(t *testing.T, b *Broker, in string) string {
	t.Helper()
	var ms, x int64
	var word, arg string
	fmt.Sscan(in, &ms, &word, &arg)
	var ev Event
	codes := map[string]kafka.ErrorCode{
		"not-controller": kafka.ErrNotController, "duplicate": kafka.ErrDuplicateBrokerRegistration,
		"stale": kafka.ErrStaleBrokerEpoch, "wrong-cluster": kafka.ErrInconsistentClusterID,
	}
	fmt.Sscan(arg, &x)
	switch word {
	case "loaded":
		ev = Loaded{}
	case "registered":
		ev = Registered{Code: codes[arg], Epoch: kafka.BrokerEpoch(x)}
	case "applied":
		ev = Applied{End: kafka.Offset(x)}
	case "beaten":
		ev = Beaten{Code: codes[arg], Fenced: arg == "fenced", ShutDown: arg == "go"}
	case "deadline":
		ev = DeadlineReached{}
	case "shutdown":
		ev = ShutDown{}
	case "disconnected":
		ev = Disconnected{}
	case "stop":
		ev = Stop{}
	default:
		t.Fatalf("no event %q", word)
	}
	var out Effects
	b.Step(kafka.Now{Mono: kafka.Mono(ms) * kafka.Mono(time.Millisecond)}, ev, &out)
	var got []string
	if out.Register {
		got = append(got, "register")
	}
	if h := out.Heartbeat; h != nil {
		s := fmt.Sprintf("beat epoch=%d at=%d", h.Epoch, h.MetadataOffset)
		if h.WantFence {
			s += " fence"
		}
		if h.WantShutdown {
			s += " shutdown"
		}
		got = append(got, s)
	}
	if out.Unfenced {
		got = append(got, "unfenced")
	}
	if out.ShutDown {
		got = append(got, "gone")
	}
	if out.Duplicate {
		got = append(got, "duplicate")
	}
	if out.Fatal != 0 {
		got = append(got, "fatal="+out.Fatal.String())
	}
	if d := b.Deadline(); d != kafka.Never {
		got = append(got, fmt.Sprintf("deadline=%d", int64(d)/int64(time.Millisecond)))
	}
	return strings.Join(got, " ")
}

// A controller registers when the log does not show its incarnation, asks once
// at a time, and comes back later and later while it is refused.
func TestControllerRegistration(t *testing.T) {
	var c Controller
	now := func(ms int64) kafka.Now { return kafka.Now{Mono: kafka.Mono(ms) * kafka.Mono(time.Millisecond)} }
	for i, s := range []struct {
		at       int64
		ev       ControllerEvent
		register bool
		deadline int64
	}{
		{0, LogMoved{}, false, -1}, // the level does not know registrations
		{1, LogMoved{Supported: true}, true, -1},
		{2, LogMoved{Supported: true}, false, -1}, // one is under way
		{3, ControllerAnswered{Code: kafka.ErrNotController}, false, 103},
		{4, LogMoved{Supported: true}, false, 103},
		{103, ControllerDeadline{}, true, -1},
		{104, ControllerAnswered{Code: kafka.ErrNotController}, false, 304},
		{304, ControllerDeadline{}, true, -1},
		{305, ControllerAnswered{}, false, 2305}, // should show soon
		{306, LogMoved{Supported: true, Registered: true}, false, -1},
		{400, LogMoved{Supported: true}, true, -1}, // somebody unregistered it
		{401, ControllerAnswered{}, false, 2401},
		{2401, ControllerDeadline{}, true, -1}, // was lost with its leader
	} {
		if got := c.Step(now(s.at), s.ev); got != s.register {
			t.Errorf("step %d: register %v", i, got)
		}
		d := int64(-1)
		if c.Deadline() != kafka.Never {
			d = int64(c.Deadline()) / int64(time.Millisecond)
		}
		if d != s.deadline {
			t.Errorf("step %d: deadline %d, want %d", i, d, s.deadline)
		}
	}
}

func TestIDBlocks(t *testing.T) {
	var b IDBlocks
	if _, ok, ask := b.Take(); ok || !ask {
		t.Fatal("an empty block must ask", ok, ask)
	}
	if _, _, ask := b.Take(); ask {
		t.Fatal("asked twice")
	}
	b.Refused()
	if _, _, ask := b.Take(); !ask {
		t.Fatal("did not ask again")
	}
	b.Granted(1000, 10)
	seen := map[kafka.ProducerID]bool{}
	asks := 0
	for i := 0; i < 30; i++ {
		id, ok, ask := b.Take()
		if !ok || seen[id] {
			t.Fatal(i, id, ok)
		}
		seen[id] = true
		if ask {
			asks++
			b.Granted(kafka.ProducerID(2000+i*100), 10)
		}
	}
	if asks != 3 {
		t.Errorf("asked %d times for 30 ids of blocks of 10", asks)
	}
}
