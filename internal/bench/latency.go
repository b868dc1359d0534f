package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// LatencyOptions describe a latency test: producers at a fixed rate and
// consumers that follow.
type LatencyOptions struct {
	ProduceOptions
	// Consumers is how many clients share the partitions.
	Consumers int
	// Warmup is the time at the start whose latencies do not count.
	Warmup time.Duration
}

// stampBytes is the head of every value: the run's mark and the due time.
const stampBytes = 16

// drainPoll bounds one poll, so that consumers notice the end of the run;
// drainTimeout is how long they wait for the last records.
const (
	drainPoll    = 100 * time.Millisecond
	drainTimeout = 15 * time.Second
)

// stamp writes the head of a value.
func stamp(value []byte, mark uint64, due time.Duration) {
	binary.BigEndian.PutUint64(value, mark)
	binary.BigEndian.PutUint64(value[8:], uint64(due))
}

// readStamp returns when the record was due; false when it is not of this run.
func readStamp(value []byte, mark uint64) (time.Duration, bool) {
	if len(value) < stampBytes || binary.BigEndian.Uint64(value) != mark {
		return 0, false
	}
	return time.Duration(binary.BigEndian.Uint64(value[8:])), true
}

// follower consumes what the producers of a run write.
type follower struct {
	client   *kgo.Client
	clock    Clock
	mark     uint64
	warmup   time.Duration
	recorder *Recorder
	received *atomic.Int64 // of all followers
	expected *atomic.Int64 // negative until the producers are done
	err      error
}

// Latency writes at a fixed rate and measures the time from the moment a record
// should have been sent to its acknowledgement and to its consumer.
func Latency(ctx context.Context, o LatencyOptions) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	switch {
	case o.Rate <= 0:
		return nil, errors.New("a latency test is open loop; pass --rate, such as --rate 20MB")
	case o.RecordSize < stampBytes:
		return nil, fmt.Errorf("records of %d bytes cannot hold a time; want at least %d", o.RecordSize, stampBytes)
	case o.Consumers < 1:
		return nil, errors.New("want at least 1 consumer")
	case o.Warmup < 0 || o.Stop.Duration > 0 && o.Warmup >= o.Stop.Duration:
		return nil, fmt.Errorf("a warm-up of %v leaves nothing of %v", o.Warmup, o.Stop.Duration)
	}
	admin, err := o.Target.newClient(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	partitions, err := ensureTopic(ctx, admin, o.Topic)
	if err != nil {
		return nil, err
	}
	ends, err := listOffsets(ctx, admin, o.Topic.Name, partitions, latestTimestamp, false)
	if err != nil {
		return nil, err
	}
	return o.measure(ctx, ends)
}

// measure runs producers and consumers that start at the end offsets.
func (o LatencyOptions) measure(ctx context.Context, ends []int64) (*Result, error) {
	clock, mark := newWallClock(), uint64(time.Now().UnixNano())
	senders, err := o.senders(ctx)
	defer closeAll(senders)
	if err != nil {
		return nil, err
	}
	followers, err := o.followers(ctx, ends, clock, mark)
	defer closeFollowers(followers)
	if err != nil {
		return nil, err
	}
	warmup := clock.Now() + o.Warmup
	for _, s := range senders {
		s.warmup, s.fill = warmup, stampedFill(s.payloads, mark)
	}
	m, err := startMeter(o.BrokerPID)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for _, f := range followers {
		f.warmup = warmup
		wg.Go(func() { f.run(ctx) })
	}
	sendErr := runSenders(ctx, senders, clock, o.Stop.Duration)
	r := &Result{Test: "latency", Topic: o.Topic.Name, Partitions: len(ends), TargetMBPerSecond: o.Rate / 1e6}
	acks := sum(r, senders)
	expected := followers[0].expected
	expected.Store(r.Records)
	wg.Wait()
	arrived, errs := NewRecorder(), []error{sendErr}
	for _, f := range followers {
		arrived.Add(f.recorder)
		errs = append(errs, f.err)
	}
	r.Ack, r.EndToEnd = acks.Percentiles(), arrived.Percentiles()
	if err := errors.Join(append(errs, m.finish(r))...); err != nil {
		return nil, err
	}
	r.Notes = append(r.Notes, fmt.Sprintf("open loop: latency counts from the intended send; the first %v do not count", o.Warmup))
	if got, want := r.MBPerSecond, r.TargetMBPerSecond; got < 0.95*want && o.Stop.Duration > time.Second {
		r.Notes = append(r.Notes, "the rate was not reached: broker or client is saturated and the latencies show the queue")
	}
	return r, nil
}

// stampedFill gives each slot a copy of a value of its own and stamps it anew each
// time it is sent.
func stampedFill(payloads *Payloads, mark uint64) func(*slot) {
	return func(sl *slot) {
		if sl.value == nil {
			sl.value = append([]byte(nil), payloads.Next()...)
		}
		stamp(sl.value, mark, sl.due)
		sl.record.Value = sl.value
	}
}

// followers opens the consumers. On an error it returns those it has.
func (o LatencyOptions) followers(ctx context.Context, ends []int64, clock Clock, mark uint64) ([]*follower, error) {
	received, expected := &atomic.Int64{}, &atomic.Int64{}
	expected.Store(-1)
	consume := DefaultConsumeOptions()
	consume.Target, consume.Topic = o.Target, o.Topic.Name
	var followers []*follower
	for i := range min(o.Consumers, len(ends)) {
		from := map[int32]kgo.Offset{}
		for p := i; p < len(ends); p += o.Consumers {
			from[int32(p)] = kgo.NewOffset().At(ends[p])
		}
		client, err := o.Target.newClient(ctx, consume.kgo(from)...)
		if err != nil {
			return followers, err
		}
		followers = append(followers, &follower{
			client: client, clock: clock, mark: mark, recorder: NewRecorder(), received: received, expected: expected,
		})
	}
	return followers, nil
}

// run consumes until everything that was acknowledged has arrived.
func (f *follower) run(ctx context.Context) {
	var drainSince time.Duration
	for {
		expected := f.expected.Load()
		if expected >= 0 && f.received.Load() >= expected {
			return
		}
		if expected >= 0 && drainSince == 0 {
			drainSince = f.clock.Now()
		}
		if expected >= 0 && f.clock.Now()-drainSince > drainTimeout {
			f.err = fmt.Errorf("%d of %d acknowledged records were not consumed within %v", expected-f.received.Load(), expected, drainTimeout)
			return
		}
		poll, cancel := context.WithTimeout(ctx, drainPoll)
		fetches := f.client.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			f.err = ctx.Err()
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			if f.err == nil && !errors.Is(err, context.DeadlineExceeded) {
				f.err = fmt.Errorf("fetch from %s-%d: %w", topic, partition, err)
			}
		})
		if f.err != nil {
			return
		}
		f.take(fetches)
	}
}

// take records the latencies of one poll.
func (f *follower) take(fetches kgo.Fetches) {
	now, n := f.clock.Now(), int64(0)
	fetches.EachRecord(func(r *kgo.Record) {
		due, ours := readStamp(r.Value, f.mark)
		if ours {
			n++
			if due >= f.warmup {
				f.recorder.Record(now - due)
			}
		}
		r.Recycle()
	})
	f.received.Add(n)
}

// closeFollowers closes the consumers' clients.
func closeFollowers(followers []*follower) {
	for _, f := range followers {
		f.client.Close()
	}
}
