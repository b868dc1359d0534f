package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kills is how often TestKillLoop kills the server; serveWithin is what a start
// may take: less than the 9 s of the session of the process that was killed.
const (
	kills       = 20
	serveWithin = 8 * time.Second
)

// TestKillLoop: an idempotent producer with acks=all writes numbered records
// while moldau is killed and started again at random moments. Every record that
// was acknowledged is there once and in order, and every start serves at once.
// It fails if a start waited for the session of its own ghost (Kafka's broker
// session timeout), or if a producer's state were not rebuilt from the log.
func TestKillLoop(t *testing.T) {
	n := newNode(t, "log.segment.bytes=1048576")
	n.startMoldau(t)
	r := askNode[*kmsg.CreateTopicsResponse](t, n, createTopics(createTopic("numbers", 3, 1))(nil, 7), 7)
	if r.Topics[0].ErrorCode != 0 {
		t.Fatalf("create: %d", r.Topics[0].ErrorCode)
	}
	w := startNumbers(t, n)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	for range kills {
		w.await(t, 1+rnd.IntN(40_000)) // a moment that no clock decides
		n.kill(t)
		began := time.Now()
		n.startMoldau(t)
		if took := time.Since(began); took > serveWithin {
			t.Errorf("serving %s after the start", took)
		}
	}
	w.stop()
	w.check(t, n.read(t))
	n.stop(t)
}

// numbers is a producer of numbered records to three partitions.
type numbers struct {
	cl     *kgo.Client
	cancel context.CancelFunc
	ended  chan struct{}
	mu     sync.Mutex
	acked  map[string]int64 // value → offset
	failed []error
	grew   chan struct{}
}

// await returns when n more records have been acknowledged, or given up.
func (w *numbers) await(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.acked) + len(w.failed)
	}
	hung := time.After(60 * time.Second)
	for target := count() + n; count() < target; {
		select {
		case <-w.grew:
		case <-hung:
			t.Fatal("no record is acknowledged any more")
		}
	}
}

func startNumbers(t *testing.T, n *node) *numbers {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MetadataMinAge(20*time.Millisecond), kgo.MaxBufferedRecords(2000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &numbers{cl: cl, cancel: cancel, ended: make(chan struct{}), acked: map[string]int64{}, grew: make(chan struct{}, 1)}
	go func() {
		defer close(w.ended)
		for i := 0; ctx.Err() == nil; i++ {
			r := &kgo.Record{Topic: "numbers", Partition: int32(i % 3), Value: fmt.Appendf(nil, "%09d-%s", i, strings.Repeat("z", 100))}
			cl.Produce(context.Background(), r, w.done)
		}
	}()
	return w
}

func (w *numbers) done(r *kgo.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.grew <- struct{}{}:
	default:
	}
	if err != nil {
		w.failed = append(w.failed, err)
		return
	}
	w.acked[fmt.Sprintf("%d/%s", r.Partition, r.Value)] = r.Offset
}

func (w *numbers) stop() {
	w.cancel()
	<-w.ended
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := w.cl.Flush(ctx); err != nil {
		w.failed = append(w.failed, err)
	}
	w.cl.Close()
}

func (w *numbers) check(t *testing.T, got content) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) > 0 {
		t.Errorf("%d records failed, the first with: %v", len(w.failed), w.failed[0])
	}
	seen, total := map[string]int{}, 0
	for p := range 3 {
		last := -1
		for _, text := range got[fmt.Sprintf("numbers-%d", p)] {
			var offset int64
			fmt.Sscan(text, &offset)
			value := strings.Trim(text[strings.Index(text, "=")+1:], `"`)
			key := fmt.Sprintf("%d/%s", p, value)
			seen[key]++
			total++
			var number int
			fmt.Sscanf(value, "%09d", &number)
			if number <= last {
				t.Errorf("partition %d: %d follows %d", p, number, last)
			}
			last = number
			if o, ok := w.acked[key]; ok && o != offset {
				t.Errorf("%s was acknowledged at %d, but is at %d", key[:12], o, offset)
			}
		}
	}
	for key := range w.acked {
		if seen[key] != 1 {
			t.Errorf("%s was acknowledged and is there %d times", key[:12], seen[key])
		}
	}
	t.Logf("%d records acknowledged, %d in the log", len(w.acked), total)
	if len(w.acked) < 1000 {
		t.Errorf("only %d records were acknowledged", len(w.acked))
	}
}
