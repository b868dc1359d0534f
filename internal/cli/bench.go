package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"moldau/internal/bench"
)

// benchFlags are the flags that every test against a cluster has.
type benchFlags struct {
	brokers   []string
	brokerPID int
	json      bool
}

// NewBench returns "moldau bench" with its subcommands.
func NewBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a Kafka cluster, or this machine without one",
		Long: `Measure a Kafka cluster (moldau or any other), or this machine without one.

The client shares this machine's cores with a broker that runs here; the client's
own CPU is printed so that one can tell. With --broker-pid the CPU and memory of a
local broker are printed too.`,
		Example: `  moldau bench produce --topic t --partitions 8 --record-size 1KiB --bytes 2GB
  moldau bench consume --topic t
  moldau bench latency --topic l --rate 20MB --linger 1ms --duration 30s
  moldau bench floor --chunk 64KiB`,
		Args: cobra.NoArgs,
		RunE: help,
	}
	cmd.AddCommand(newBenchProduce(), newBenchConsume(), newBenchLatency(), newBenchFloor(), newBenchCommits(), newBenchRebalances())
	return cmd
}

// add registers the common flags.
func (f *benchFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.brokers, "brokers", []string{"127.0.0.1:9092"}, "bootstrap `addresses`, host:port, comma-separated")
	cmd.Flags().IntVar(&f.brokerPID, "broker-pid", 0, "process id of the broker on this machine, to measure its CPU and memory")
	addJSON(cmd, &f.json)
}

// addJSON registers --json.
func addJSON(cmd *cobra.Command, json *bool) {
	cmd.Flags().BoolVar(json, "json", false, "print one JSON object instead of text")
}

// target is what the common flags say.
func (f *benchFlags) target() bench.Target {
	return bench.Target{Brokers: f.brokers, BrokerPID: f.brokerPID}
}

// print writes a result as text or JSON and turns failed records into an error.
func (f *benchFlags) print(w io.Writer, r *bench.Result) error {
	if f.json {
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return err
		}
	} else {
		r.Write(w)
	}
	if r.Failed > 0 {
		return fmt.Errorf("%d of %d records failed: %s", r.Failed, r.Failed+r.Records, r.FirstError)
	}
	return nil
}

// newBenchConsume returns "moldau bench consume".
func newBenchConsume() *cobra.Command {
	var common benchFlags
	o := bench.DefaultConsumeOptions()
	isolation := "read_uncommitted"
	cmd := &cobra.Command{
		Use:   "consume --topic NAME",
		Short: "Read everything in a topic once",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch isolation {
			case "read_committed":
				o.Committed = true
			case "read_uncommitted":
			default:
				return fmt.Errorf("isolation %q: want read_uncommitted or read_committed", isolation)
			}
			cmd.SilenceUsage = true
			o.Target = common.target()
			r, err := bench.Consume(cmd.Context(), o)
			if err != nil {
				return err
			}
			return common.print(cmd.OutOrStdout(), r)
		},
	}
	common.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.Topic, "topic", "bench", "`name` of the topic")
	flags.IntVar(&o.Clients, "clients", o.Clients, "how many consumers share the partitions")
	flags.Var((*sizeFlag)(&o.MaxBytes), "max-bytes", "largest fetch response")
	flags.Var((*sizeFlag)(&o.MaxPartitionBytes), "max-partition-bytes", "largest part of one partition in a response")
	flags.StringVar(&isolation, "isolation", isolation, "read_uncommitted or read_committed")
	flags.DurationVar(&o.StallTimeout, "stall-timeout", o.StallTimeout, "give up when no record comes for this long")
	return cmd
}
