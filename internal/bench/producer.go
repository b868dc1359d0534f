package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ProducerOptions are the settings of a Kafka producer, named as there.
type ProducerOptions struct {
	// Acks is "0", "1" or "all".
	Acks string
	// Idempotent needs Acks all and fixes InFlight at 5.
	Idempotent bool
	// Compression is none, gzip, snappy, lz4 or zstd.
	Compression string
	Linger      time.Duration
	// BatchBytes bounds a batch, BufferBytes the records a client holds back.
	BatchBytes, BufferBytes int64
	// InFlight bounds the produce requests on a connection.
	InFlight int
}

// DefaultProducerOptions are those of Kafka's Java producer, but with batches up
// to 1 MiB.
func DefaultProducerOptions() ProducerOptions {
	return ProducerOptions{
		Acks: "all", Idempotent: true, Compression: "none", Linger: 5 * time.Millisecond,
		BatchBytes: 1 << 20, BufferBytes: 32 << 20, InFlight: idempotentInFlight,
	}
}

// idempotentInFlight is how many requests an idempotent producer may pipeline.
const idempotentInFlight = 5

// maxBufferedRecords is out of the way: BufferBytes is the bound that counts.
const maxBufferedRecords = 1 << 22

// kgo translates the options, or says which one is wrong.
func (o ProducerOptions) kgo() ([]kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks(), "-1": kgo.AllISRAcks()}
	codec, ok := codecs[o.Compression]
	if !ok {
		return nil, fmt.Errorf("compression %q: want none, gzip, snappy, lz4 or zstd", o.Compression)
	}
	ack, ok := acks[o.Acks]
	if !ok {
		return nil, fmt.Errorf("acks %q: want 0, 1 or all", o.Acks)
	}
	if o.BatchBytes < 1 || o.BatchBytes > 64<<20 || o.BufferBytes < o.BatchBytes || o.BufferBytes > 8<<30 {
		return nil, fmt.Errorf("batches of %d bytes in a buffer of %d: want 1 B to 64 MiB, and a buffer at least as large", o.BatchBytes, o.BufferBytes)
	}
	opts := []kgo.Opt{
		kgo.RequiredAcks(ack), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(o.Linger),
		kgo.ProducerBatchMaxBytes(int32(o.BatchBytes)), kgo.BrokerMaxWriteBytes(int32(requestBytes(o.BatchBytes))),
		kgo.MaxBufferedRecords(maxBufferedRecords), kgo.MaxBufferedBytes(int(o.BufferBytes)),
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(int(o.BatchBytes), false, false, nil)),
	}
	switch {
	case o.Idempotent && ack != kgo.AllISRAcks():
		return nil, fmt.Errorf("an idempotent producer needs --acks all, not %s; pass --idempotent=false", o.Acks)
	case o.Idempotent && o.InFlight != idempotentInFlight:
		return nil, fmt.Errorf("an idempotent producer has %d requests in flight, not %d; pass --idempotent=false", idempotentInFlight, o.InFlight)
	case o.InFlight < 1:
		return nil, errors.New("in-flight: want at least 1")
	case !o.Idempotent:
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(o.InFlight))
	}
	return opts, nil
}

// Stop says when a test ends: at whichever limit comes first. Zero is no limit.
type Stop struct {
	Records  int64
	Bytes    int64
	Duration time.Duration
}

// records is the limit on records of one of n clients, each record size bytes
// large.
func (s Stop) records(client, clients, size int) int64 {
	total := int64(1) << 62
	if s.Records > 0 {
		total = s.Records
	}
	if s.Bytes > 0 {
		total = min(total, (s.Bytes+int64(size)-1)/int64(size))
	}
	share := total / int64(clients)
	if int64(client) < total%int64(clients) {
		share++
	}
	return share
}

// slot is a record under way, reused after its acknowledgement.
type slot struct {
	record kgo.Record
	// due is when the record should have been sent.
	due time.Duration
	// promise is bound once, so that sending allocates nothing.
	promise func(*kgo.Record, error)
	// value is the slot's own buffer, nil when values come from Payloads.
	value []byte
}

// slots is a free list between the sending goroutine and the client's promises.
type slots struct {
	mu   sync.Mutex
	back []*slot // returned, under mu
	free []*slot // the sender's
}

// get returns a free slot, nil when the sender must make one.
func (s *slots) get() *slot {
	if len(s.free) == 0 {
		s.mu.Lock()
		s.free, s.back = s.back, s.free
		s.mu.Unlock()
	}
	if len(s.free) == 0 {
		return nil
	}
	last := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return last
}

// put returns a slot.
func (s *slots) put(sl *slot) {
	s.mu.Lock()
	s.back = append(s.back, sl)
	s.mu.Unlock()
}

// sender produces records with one client on one goroutine, until its limit or
// deadline. Its counters belong to the client's promises, which franz-go runs one
// after the other, and may be read after run returned.
type sender struct {
	client   *kgo.Client
	clock    Clock
	topic    string
	rate     float64 // records per second; 0 = full speed
	limit    int64
	deadline time.Duration // on clock; 0 = none
	warmup   time.Duration // on clock: latencies of records due before do not count
	payloads *Payloads
	// fill prepares the value of a slot that is about to be sent.
	fill func(sl *slot)

	slots   slots
	acks    *Recorder
	acked   int64
	bytes   int64
	failed  int64
	firstEr error
}

// run sends and waits until everything is acknowledged or has failed.
func (s *sender) run(ctx context.Context) error {
	pacer := NewPacer(s.clock, s.rate)
	for range s.limit {
		due, now := pacer.Next(ctx)
		if ctx.Err() != nil || s.deadline > 0 && (now >= s.deadline || due >= s.deadline) {
			break
		}
		sl := s.slots.get()
		if sl == nil {
			sl = s.newSlot()
		}
		sl.due = due
		s.fill(sl)
		value := sl.record.Value
		sl.record = kgo.Record{Topic: s.topic, Value: value}
		s.client.Produce(ctx, &sl.record, sl.promise)
	}
	if err := s.client.Flush(ctx); err != nil {
		return fmt.Errorf("waiting for acknowledgements: %w", err)
	}
	return ctx.Err()
}

// newSlot makes a slot whose promise counts the outcome and frees it.
func (s *sender) newSlot() *slot {
	sl := &slot{}
	sl.promise = func(r *kgo.Record, err error) {
		if err != nil {
			s.failed++
			if s.firstEr == nil {
				s.firstEr = err
			}
		} else {
			s.acked++
			s.bytes += int64(len(r.Value))
			if sl.due >= s.warmup {
				s.acks.Record(s.clock.Now() - sl.due)
			}
		}
		s.slots.put(sl)
	}
	return sl
}

// sum adds the outcome of senders to r and returns their merged latencies.
func sum(r *Result, senders []*sender) *Recorder {
	all := NewRecorder()
	for _, s := range senders {
		r.Records += s.acked
		r.Bytes += s.bytes
		r.Failed += s.failed
		if s.firstEr != nil && r.FirstError == "" {
			r.FirstError = explain(s.firstEr)
		}
		all.Add(s.acks)
	}
	return all
}

// explain adds what to do to errors that users meet often.
func explain(err error) string {
	text := err.Error()
	if strings.Contains(text, "MESSAGE_TOO_LARGE") {
		return text + "; pass a smaller --batch-bytes or --record-size, or raise the topic's max.message.bytes"
	}
	return text
}

// closeAll closes the clients of senders.
func closeAll(senders []*sender) {
	for _, s := range senders {
		s.client.Close()
	}
}

// requestBytes bounds a Produce request: room for one full batch, and for small
// batches of many partitions as much as Java's max.request.size allows.
func requestBytes(batchBytes int64) int64 { return max(2*batchBytes, 2<<20) }
