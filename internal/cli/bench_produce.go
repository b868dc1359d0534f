package cli

import (
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/bench"
)

// sizeFlag is a number of bytes with a unit, such as 1KiB or 20MB.
type sizeFlag int64

// Set is part of pflag.Value.
func (f *sizeFlag) Set(text string) error {
	n, err := bench.ParseSize(text)
	*f = sizeFlag(n)
	return err
}

// String is part of pflag.Value.
func (f *sizeFlag) String() string { return bench.FormatSize(int64(*f)) }

// Type is part of pflag.Value.
func (f *sizeFlag) Type() string { return "size" }

// produceFlags are the flags of tests that write.
type produceFlags struct {
	benchFlags
	options                 bench.ProduceOptions
	recordSize, rate, bytes int64
}

// newProduceFlags returns them with their defaults.
func newProduceFlags() *produceFlags {
	return &produceFlags{
		recordSize: 1 << 10,
		options: bench.ProduceOptions{
			Topic: bench.TopicSpec{Name: "bench", ReplicationFactor: 1}, Producer: bench.DefaultProducerOptions(),
			Clients: 1, Compressible: 1,
		},
	}
}

// add registers the flags.
func (f *produceFlags) add(cmd *cobra.Command) {
	f.benchFlags.add(cmd)
	flags, o, p := cmd.Flags(), &f.options, &f.options.Producer
	flags.StringVar(&o.Topic.Name, "topic", o.Topic.Name, "`name` of the topic, created if missing")
	flags.IntVar(&o.Topic.Partitions, "partitions", 0, "partitions of a new topic (1), or check those of an existing one")
	flags.IntVar(&o.Topic.ReplicationFactor, "replication-factor", o.Topic.ReplicationFactor, "replicas of a new topic")
	flags.BoolVar(&o.Topic.Recreate, "recreate", false, "delete the topic and its data first")
	flags.Var((*sizeFlag)(&f.recordSize), "record-size", "size of a record's value")
	flags.Var((*sizeFlag)(&f.rate), "rate", "open loop at this many bytes per second, all clients together; 0 is full speed")
	flags.Int64Var(&o.Stop.Records, "records", 0, "stop after this many records")
	flags.Var((*sizeFlag)(&f.bytes), "bytes", "stop after this many bytes")
	flags.DurationVar(&o.Stop.Duration, "duration", 0, "stop after this time (10s if nothing else says when)")
	flags.IntVar(&o.Clients, "clients", o.Clients, "how many producers share the work")
	flags.StringVar(&p.Acks, "acks", p.Acks, "0, 1 or all")
	flags.BoolVar(&p.Idempotent, "idempotent", p.Idempotent, "produce idempotently (needs acks all, 5 in flight)")
	flags.StringVar(&p.Compression, "compression", p.Compression, "none, gzip, snappy, lz4 or zstd")
	flags.DurationVar(&p.Linger, "linger", p.Linger, "wait this long to fill a batch")
	flags.Var((*sizeFlag)(&p.BatchBytes), "batch-bytes", "largest batch")
	flags.Var((*sizeFlag)(&p.BufferBytes), "buffer-bytes", "records that a client holds back at most")
	flags.IntVar(&p.InFlight, "in-flight", p.InFlight, "produce requests under way on a connection")
	flags.Float64Var(&o.Compressible, "compressible", o.Compressible, "`ratio` by which values compress, about; 1 is random bytes")
}

// read returns the options that the flags say.
func (f *produceFlags) read() bench.ProduceOptions {
	o := f.options
	o.Target = f.target()
	o.RecordSize, o.Rate, o.Stop.Bytes = int(f.recordSize), float64(f.rate), f.bytes
	if o.Stop == (bench.Stop{}) {
		o.Stop.Duration = 10 * time.Second
	}
	return o
}

// newBenchProduce returns "moldau bench produce".
func newBenchProduce() *cobra.Command {
	f := newProduceFlags()
	cmd := &cobra.Command{
		Use:   "produce --topic NAME",
		Short: "Write records at full speed or at a fixed rate",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			r, err := bench.Produce(cmd.Context(), f.read())
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), r)
		},
	}
	f.add(cmd)
	return cmd
}

// newBenchLatency returns "moldau bench latency".
func newBenchLatency() *cobra.Command {
	f := newProduceFlags()
	f.rate, f.options.Producer.Linger = 20e6, time.Millisecond
	consumers, warmup := 1, 2*time.Second
	cmd := &cobra.Command{
		Use:   "latency --topic NAME --rate SIZE",
		Short: "Measure produce-to-consume latency at a fixed rate",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			o := bench.LatencyOptions{ProduceOptions: f.read(), Consumers: consumers, Warmup: warmup}
			r, err := bench.Latency(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), r)
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&consumers, "consumers", consumers, "how many consumers share the partitions")
	cmd.Flags().DurationVar(&warmup, "warmup", warmup, "time at the start that does not count")
	return cmd
}
