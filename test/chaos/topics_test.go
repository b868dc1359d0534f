package chaos

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// creator creates topics at full speed until it is stopped.
type creator struct {
	c    *cluster
	cl   *kgo.Client
	stop chan struct{}
	wait sync.WaitGroup

	mu    sync.Mutex
	next  int
	acked map[string]time.Time // when the answer came
	begun map[string]time.Time
	codes map[int16]int
}

// workers is how many requests are under way at a time.
const workers = 4

func (c *cluster) createTopics() *creator {
	k := &creator{c: c, cl: c.client(), stop: make(chan struct{}), acked: map[string]time.Time{}, begun: map[string]time.Time{}, codes: map[int16]int{}}
	for range workers {
		k.wait.Go(k.work)
	}
	return k
}

func (k *creator) work() {
	for {
		select {
		case <-k.stop:
			return
		default:
		}
		k.mu.Lock()
		name := fmt.Sprintf("topic-%06d", k.next)
		k.next++
		k.begun[name] = time.Now()
		k.mu.Unlock()
		code, err := k.create(name)
		now := time.Now()
		if err != nil {
			<-time.After(5 * time.Millisecond)
			continue // unknown outcome
		}
		k.mu.Lock()
		k.codes[code]++
		// Answered twice: a broker tried again after it had lost the first answer.
		if code == 0 || code == 36 {
			k.acked[name] = now
		}
		k.mu.Unlock()
	}
}

// create asks for a topic, once.
func (k *creator) create(name string) (code int16, err error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 5000
	resp, err := ask[*kmsg.CreateTopicsResponse](k.cl, req)
	switch {
	case err != nil:
		return 0, err
	case len(resp.Topics) != 1:
		return 0, fmt.Errorf("%d topics in the answer", len(resp.Topics))
	}
	return resp.Topics[0].ErrorCode, nil
}

// count is how many topics have been acknowledged.
func (k *creator) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.acked)
}

// gap is how long it took from a moment to the next acknowledgement of a
// request that was sent after it.
func (k *creator) gap(from time.Time) time.Duration {
	k.c.t.Helper()
	var took time.Duration
	k.c.until("an acknowledged change", func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		took = 0
		for name, at := range k.acked {
			if k.begun[name].After(from) && (took == 0 || at.Sub(from) < took) {
				took = at.Sub(from)
			}
		}
		if took == 0 {
			return fmt.Errorf("none of %d; codes %v", len(k.acked), k.codes)
		}
		return nil
	})
	return took
}

// check stops and compares what was acknowledged with what there is.
func (k *creator) check(t testing.TB) {
	t.Helper()
	close(k.stop)
	k.wait.Wait()
	if n := k.codes[-1]; n > 0 {
		t.Errorf("%d answers were UNKNOWN_SERVER_ERROR (HC-047)", n)
	}
	there := map[string]bool{}
	for _, b := range k.c.brokers() {
		if b.cmd == nil {
			continue
		}
		k.c.until("all topics at each broker", func() error {
			cl, err := kgo.NewClient(kgo.SeedBrokers(b.address()))
			if err != nil {
				return err
			}
			defer cl.Close()
			req := kmsg.NewPtrMetadataRequest() // null: all topics
			resp, err := ask[*kmsg.MetadataResponse](cl, req)
			if err != nil {
				return err
			}
			clear(there)
			for _, topic := range resp.Topics {
				there[*topic.Topic] = true
			}
			for name := range k.acked {
				if !there[name] {
					return fmt.Errorf("%s was acknowledged, and broker %d has not got it", name, b.id)
				}
			}
			return nil
		})
	}
	t.Logf("%d topics asked for, %d acknowledged, %d there; codes %v", k.next, len(k.acked), len(there), k.codes)
}

// percentile gives the p-th percentile.
func percentile(d []time.Duration, p int) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, len(s)*p/100)]
}
