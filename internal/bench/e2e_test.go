package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// produceOptions write n records of 100 bytes into topic t with 3 partitions.
func produceOptions(target Target, n int64) ProduceOptions {
	o := ProduceOptions{
		Target: target, Topic: TopicSpec{Name: "t", Partitions: 3}, Producer: DefaultProducerOptions(),
		Stop: Stop{Records: n}, RecordSize: 100, Clients: 2, Compressible: 2,
	}
	o.Producer.Linger, o.Producer.BatchBytes = 0, 4096
	return o
}

func TestProduceThenConsume(t *testing.T) {
	for _, codec := range []string{"none", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			f := newFakeBroker(t)
			o := produceOptions(f.target(), 5001)
			o.Producer.Compression = codec
			r, err := Produce(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Records != 5001 || r.Bytes != 500_100 || r.Failed != 0 || r.Ack.Count != 5001 || r.Partitions != 3 {
				t.Errorf("produced %+v", r)
			}
			consume := DefaultConsumeOptions()
			consume.Target, consume.Topic, consume.Clients = f.target(), "t", 2
			if r, err = Consume(t.Context(), consume); err != nil {
				t.Fatal(err)
			}
			if r.Records != 5001 || r.Bytes != 500_100 || r.MBPerSecond <= 0 {
				t.Errorf("consumed %+v", r)
			}
		})
	}
}

func TestProduceRecreatesAndChecksPartitions(t *testing.T) {
	f := newFakeBroker(t)
	o := produceOptions(f.target(), 10)
	if _, err := Produce(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Topic.Partitions = 2
	if _, err := Produce(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--recreate") {
		t.Errorf("other partitions: %v", err)
	}
	o.Topic.Recreate = true
	if r, err := Produce(t.Context(), o); err != nil || r.Partitions != 2 {
		t.Errorf("recreated: %+v, %v", r, err)
	}
	var left int64
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, log := range f.topics["t"] {
		left += log.end
	}
	if left != 10 {
		t.Errorf("%d records after recreation, want 10", left)
	}
}

func TestProduceCountsFailures(t *testing.T) {
	f := newFakeBroker(t)
	f.refuse = kerr.MessageTooLarge.Code
	r, err := Produce(t.Context(), produceOptions(f.target(), 10))
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed != 10 || r.Records != 0 || r.Ack != nil || !strings.Contains(r.FirstError, "--batch-bytes") {
		t.Errorf("got %+v", r)
	}
}

func TestLatencySeesEveryRecord(t *testing.T) {
	f := newFakeBroker(t)
	o := LatencyOptions{ProduceOptions: produceOptions(f.target(), 500), Consumers: 2}
	o.Rate = 1e6 // 10,000 records a second
	r, err := Latency(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Records != 500 || r.Ack.Count != 500 || r.EndToEnd.Count != 500 {
		t.Errorf("got %+v, ack %+v, end to end %+v", r, r.Ack, r.EndToEnd)
	}
	// Fails if the consumer's clock is not the producer's.
	if r.EndToEnd.MaxMs > 60_000 || r.EndToEnd.MaxMs <= 0 {
		t.Errorf("latencies up to %v ms", r.EndToEnd.MaxMs)
	}
	if r.Seconds < 0.049 { // 499 intervals of 100 µs
		t.Errorf("500 records at 10,000/s took %v s", r.Seconds)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	f := newFakeBroker(t)
	consume := DefaultConsumeOptions()
	consume.Target, consume.Topic = f.target(), "nope"
	_, err := Consume(t.Context(), consume)
	wantError(t, err, "moldau bench produce --topic nope")

	f.mu.Lock()
	f.topics["empty"] = []*fakeLog{{}}
	f.mu.Unlock()
	consume.Topic = "empty"
	_, err = Consume(t.Context(), consume)
	wantError(t, err, "is empty")

	consume.Brokers = nil
	_, err = Consume(t.Context(), consume)
	wantError(t, err, "--brokers")

	o := produceOptions(f.target(), 0)
	_, err = Produce(t.Context(), o)
	wantError(t, err, "--duration")

	o.Stop.Duration = time.Second
	_, err = Latency(t.Context(), LatencyOptions{ProduceOptions: o, Consumers: 1})
	wantError(t, err, "--rate")

	o.BrokerPID = 1 << 30
	_, err = Produce(t.Context(), o)
	wantError(t, err, "is the pid right")
}

func TestNobodyListens(t *testing.T) {
	f := newFakeBroker(t)
	target := f.target()
	f.listener.Close()
	_, err := Produce(t.Context(), produceOptions(target, 1))
	wantError(t, err, "start a broker there")
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
}
