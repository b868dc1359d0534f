package chaos

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func kills(t *testing.T) int {
	text := os.Getenv("KILLS")
	if text == "" {
		return 8
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("KILLS=%s: %v", text, err)
	}
	return n
}

// The active controller is killed again and again while topics are created:
// nothing acknowledged is lost, and changes go on at once. It fails if a
// controller acknowledged before a majority had the records on disk, or a
// broker answered UNKNOWN_SERVER_ERROR while it looked for the next controller.
func TestKillActiveController(t *testing.T) {
	c := newCluster(t, nil)
	c.start()
	k := c.createTopics()
	cl := c.client()
	var gaps []time.Duration
	for range kills(t) {
		before := k.count()
		c.until("topics between kills", func() error { return more(k, before+50) })
		n := c.leader(cl)
		at := time.Now()
		n.signal(syscall.SIGKILL)
		gaps = append(gaps, k.gap(at))
		n.start()
		c.until("the killed controller caught up", func() error { return caughtUp(c, cl, n) })
	}
	k.check(t)
	t.Logf("from SIGKILL to the next acknowledged change: p50 %v, p99 %v, of %d", percentile(gaps, 50), percentile(gaps, 99), len(gaps))
}

// The active controller stands still for longer than the others wait for it,
// and comes back: it must not have acknowledged anything alone.
func TestPauseActiveController(t *testing.T) {
	c := newCluster(t, nil)
	c.start()
	k := c.createTopics()
	cl := c.client()
	var gaps []time.Duration
	for range 2 {
		before := k.count()
		c.until("topics between pauses", func() error { return more(k, before+50) })
		n := c.leader(cl)
		at := time.Now()
		n.signal(syscall.SIGSTOP)
		gaps = append(gaps, k.gap(at))
		n.signal(syscall.SIGCONT)
		c.until("the paused controller caught up", func() error { return caughtUp(c, cl, n) })
	}
	k.check(t)
	t.Logf("from SIGSTOP to the next acknowledged change: %v", gaps)
}

// Every node is stopped and started in turn: controllers hand over.
func TestRollingRestart(t *testing.T) {
	c := newCluster(t, nil)
	c.start()
	k := c.createTopics()
	cl := c.client()
	var gaps []time.Duration
	for id := 1; id <= 6; id++ {
		before := k.count()
		c.until("topics between restarts", func() error { return more(k, before+50) })
		n := c.nodes[id]
		at := time.Now()
		n.signal(syscall.SIGTERM)
		gaps = append(gaps, k.gap(at))
		n.start()
		if id <= 3 {
			c.until("the restarted controller caught up", func() error { return caughtUp(c, cl, n) })
		} else {
			c.awaitBrokers(3)
		}
	}
	k.check(t)
	t.Logf("from SIGTERM to the next acknowledged change: %v", gaps)
}

// From the acknowledgement of a change to the moment when all brokers show it.
func TestChangesReachAllBrokers(t *testing.T) {
	c := newCluster(t, nil)
	c.start()
	k := &creator{c: c, cl: c.client()}
	var brokers []*kgo.Client
	for _, b := range c.brokers() {
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.address()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		brokers = append(brokers, cl)
	}
	var took []time.Duration
	for i := range 200 {
		name := fmt.Sprint("seen-", i)
		if code, err := k.create(name); err != nil || code != 0 {
			t.Fatal(code, err)
		}
		at := time.Now()
		for _, cl := range brokers {
			for {
				resp, err := ask[*kmsg.MetadataResponse](cl, metadataRequest(name))
				if err != nil {
					t.Fatal(err)
				}
				if resp.Topics[0].ErrorCode == 0 {
					break
				}
				if time.Since(at) > patience {
					t.Fatalf("%s: code %d", name, resp.Topics[0].ErrorCode)
				}
			}
		}
		took = append(took, time.Since(at))
	}
	t.Logf("from the answer to CreateTopics until all brokers show it: p50 %v, p99 %v", percentile(took, 50), percentile(took, 99))
}
