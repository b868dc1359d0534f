package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ProduceOptions describe a produce test.
type ProduceOptions struct {
	Target
	Topic    TopicSpec
	Producer ProducerOptions
	Stop     Stop
	// RecordSize is the length of a value, in bytes.
	RecordSize int
	// Rate is the open-loop rate of all clients together in bytes per second; 0
	// is full speed.
	Rate float64
	// Clients is how many producers share the work, each on its own connection.
	Clients int
	// Compressible is how many times smaller values compress, about; 1 is random.
	Compressible float64
}

// validate says what is wrong with the options.
func (o ProduceOptions) validate() error {
	switch {
	case o.Topic.Name == "":
		return errors.New("no topic; pass --topic NAME")
	case o.RecordSize < 1 || o.RecordSize > 64<<20:
		return fmt.Errorf("records of %d bytes: want 1 B to 64 MiB", o.RecordSize)
	case o.Clients < 1 || o.Clients > 1000:
		return fmt.Errorf("%d clients: want 1 to 1000", o.Clients)
	case o.Rate < 0:
		return fmt.Errorf("rate %.0f: want a positive number of bytes per second", o.Rate)
	case o.Compressible < 1:
		return fmt.Errorf("compressible %v: want 1 (random bytes) or more", o.Compressible)
	case o.Producer.Linger < 0:
		return fmt.Errorf("linger %v: want 0 or more", o.Producer.Linger)
	case o.Stop.Records < 0 || o.Stop.Bytes < 0 || o.Stop.Duration < 0:
		return errors.New("records, bytes and duration: want 0 (no limit) or more")
	case o.Stop == (Stop{}):
		return errors.New("nothing says when to stop; pass --duration, --bytes or --records")
	}
	return nil
}

// Produce writes records and measures throughput and the latency of their
// acknowledgements. At full speed that latency includes the time in the client's
// own buffer.
func Produce(ctx context.Context, o ProduceOptions) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
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
	senders, err := o.senders(ctx)
	defer closeAll(senders)
	if err != nil {
		return nil, err
	}
	m, err := startMeter(o.BrokerPID)
	if err != nil {
		return nil, err
	}
	clock := newWallClock()
	err = runSenders(ctx, senders, clock, o.Stop.Duration)
	r := &Result{Test: "produce", Topic: o.Topic.Name, Partitions: partitions, TargetMBPerSecond: o.Rate / 1e6}
	acks := sum(r, senders)
	r.Ack = acks.Percentiles()
	if err := errors.Join(err, m.finish(r)); err != nil {
		return nil, err
	}
	if o.Rate == 0 {
		r.Notes = append(r.Notes, "full speed: the latency includes the wait in the client's buffer; pass --rate to measure the broker's")
	}
	if o.Producer.Acks == "0" {
		r.Notes = append(r.Notes, "acks=0: the latency is that of the client's write, nothing was confirmed")
	}
	return r, nil
}

// senders opens one client per sender. On an error it returns those it has, to
// be closed.
func (o ProduceOptions) senders(ctx context.Context) ([]*sender, error) {
	opts, err := o.Producer.kgo()
	if err != nil {
		return nil, err
	}
	var senders []*sender
	pool := NewPayloads(o.RecordSize, o.Compressible, 1)
	for i := range o.Clients {
		client, err := o.Target.newClient(ctx, opts...)
		if err != nil {
			return senders, err
		}
		payloads := pool.Share(i, o.Clients)
		senders = append(senders, &sender{
			client: client, topic: o.Topic.Name, acks: NewRecorder(),
			rate:     o.Rate / float64(o.RecordSize) / float64(o.Clients),
			limit:    o.Stop.records(i, o.Clients, o.RecordSize),
			payloads: payloads,
			fill:     func(sl *slot) { sl.record.Value = payloads.Next() },
		})
	}
	return senders, nil
}

// runSenders runs all senders on the same clock, from now.
func runSenders(ctx context.Context, senders []*sender, clock Clock, duration time.Duration) error {
	errs := make([]error, len(senders))
	var wg sync.WaitGroup
	for i, s := range senders {
		s.clock = clock
		if duration > 0 {
			s.deadline = clock.Now() + duration
		}
		wg.Go(func() { errs[i] = s.run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
