package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ConsumeOptions describe a consume test.
type ConsumeOptions struct {
	Target
	Topic string
	// Clients is how many consumers share the partitions, without a group.
	Clients int
	// MaxBytes bounds a fetch response, MaxPartitionBytes one partition's part.
	MaxBytes, MaxPartitionBytes int64
	// Committed reads with isolation level read_committed.
	Committed bool
	// StallTimeout ends a run that gets no records any more.
	StallTimeout time.Duration
}

// DefaultConsumeOptions are those of Kafka's Java consumer.
func DefaultConsumeOptions() ConsumeOptions {
	return ConsumeOptions{Clients: 1, MaxBytes: 50 << 20, MaxPartitionBytes: 1 << 20, StallTimeout: 15 * time.Second}
}

// reader consumes some partitions of a topic up to their end offsets.
type reader struct {
	client         *kgo.Client
	ends           map[int32]int64 // what is still to be reached
	records, bytes int64
}

// Consume reads everything that is in a topic, once, and measures throughput.
func Consume(ctx context.Context, o ConsumeOptions) (*Result, error) {
	if o.Topic == "" {
		return nil, errors.New("no topic; pass --topic NAME")
	}
	if o.Clients < 1 || o.MaxBytes < 1 || o.MaxBytes > 1<<30 || o.MaxPartitionBytes < 1 {
		return nil, errors.New("want at least 1 client, and fetches of 1 B to 1 GiB")
	}
	admin, err := o.Target.newClient(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	partitions, err := topicPartitions(ctx, admin, o.Topic)
	if errors.Is(err, errNoTopic) {
		return nil, fmt.Errorf("topic %q does not exist; fill it first: moldau bench produce --topic %s", o.Topic, o.Topic)
	} else if err != nil {
		return nil, err
	}
	starts, err := listOffsets(ctx, admin, o.Topic, partitions, earliestTimestamp, false)
	if err != nil {
		return nil, err
	}
	ends, err := listOffsets(ctx, admin, o.Topic, partitions, latestTimestamp, o.Committed)
	if err != nil {
		return nil, err
	}
	return o.measure(ctx, starts, ends)
}

// measure reads every partition p from starts[p] to ends[p].
func (o ConsumeOptions) measure(ctx context.Context, starts, ends []int64) (*Result, error) {
	readers := make([]*reader, 0, o.Clients)
	m, err := startMeter(o.BrokerPID)
	if err != nil {
		return nil, err
	}
	for i := range o.Clients {
		from, to := map[int32]kgo.Offset{}, map[int32]int64{}
		for p := i; p < len(ends); p += o.Clients {
			if ends[p] > starts[p] {
				from[int32(p)], to[int32(p)] = kgo.NewOffset().At(starts[p]), ends[p]
			}
		}
		if len(to) == 0 {
			continue
		}
		client, err := o.Target.newClient(ctx, o.kgo(from)...)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		readers = append(readers, &reader{client: client, ends: to})
	}
	if len(readers) == 0 {
		return nil, fmt.Errorf("topic %q is empty; fill it first: moldau bench produce --topic %s", o.Topic, o.Topic)
	}
	r := &Result{Test: "consume", Topic: o.Topic, Partitions: len(ends)}
	errs := make([]error, len(readers))
	var wg sync.WaitGroup
	for i, reader := range readers {
		wg.Go(func() { errs[i] = reader.run(ctx, o.StallTimeout) })
	}
	wg.Wait()
	for _, reader := range readers {
		r.Records += reader.records
		r.Bytes += reader.bytes
	}
	if err := errors.Join(append(errs, m.finish(r))...); err != nil {
		return nil, err
	}
	return r, nil
}

// kgo translates the options for a client that starts at the given offsets.
func (o ConsumeOptions) kgo(from map[int32]kgo.Offset) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.Topic: from}),
		kgo.FetchMaxBytes(int32(o.MaxBytes)), kgo.FetchMaxPartitionBytes(int32(min(o.MaxPartitionBytes, o.MaxBytes))),
		kgo.BrokerMaxReadBytes(int32(min(2*o.MaxBytes+100<<20, 1<<31-1))), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.KeepControlRecords(), kgo.WithPools(&recordPool{}),
	}
	if o.Committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts
}

// run polls until every partition has reached its end offset.
func (r *reader) run(ctx context.Context, stall time.Duration) error {
	for len(r.ends) > 0 {
		poll, cancel := context.WithTimeout(ctx, stall)
		fetches := r.client.PollFetches(poll)
		expired := poll.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if expired {
			return fmt.Errorf("no records for %v with %d partitions unfinished; is the broker stuck?", stall, len(r.ends))
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("fetch from %s-%d: %w", e.Topic, e.Partition, e.Err)
		}
		fetches.EachPartition(r.count)
	}
	return nil
}

// count takes in what one partition returned.
func (r *reader) count(f kgo.FetchTopicPartition) {
	if len(f.Records) == 0 {
		return
	}
	last := f.Records[len(f.Records)-1].Offset
	for _, record := range f.Records {
		if !record.Attrs.IsControl() {
			r.records++
			r.bytes += int64(len(record.Key) + len(record.Value))
		}
		record.Recycle()
	}
	if end, ok := r.ends[f.Partition]; ok && last+1 >= end {
		delete(r.ends, f.Partition)
		r.client.PauseFetchPartitions(map[string][]int32{f.Topic: {f.Partition}})
	}
}

// recordPool reuses the slices that fetched records are decoded into, so that the
// client's garbage does not compete with the broker for CPU.
type recordPool struct{ pool sync.Pool }

// GetRecords is part of kgo.PoolRecords.
func (p *recordPool) GetRecords(n int) []kgo.Record {
	if s, ok := p.pool.Get().(*[]kgo.Record); ok && cap(*s) >= n {
		return (*s)[:0]
	}
	return make([]kgo.Record, 0, n)
}

// PutRecords is part of kgo.PoolRecords.
func (p *recordPool) PutRecords(s []kgo.Record) { p.pool.Put(&s) }
