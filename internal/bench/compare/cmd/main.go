// Command cmd compares Apache Kafka and moldau on this machine:
//
//	go run ./internal/bench/compare/cmd --moldau bin/moldau --out bench/results
//
// It prints tables in markdown and writes the same and a JSON file to --out.
// Without --moldau it measures Apache Kafka alone. It also carries "bench", the
// single tests behind the comparison.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/bench/compare"
	"moldau/internal/cli"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	root := newCompare()
	root.AddCommand(cli.NewBench())
	if err := root.ExecuteContext(ctx); err != nil {
		cancel()
		os.Exit(1)
	}
}

// settings are the flags beside compare.Options.
type settings struct {
	options compare.Options
	rate    int64
	moldau  string
	kafka   string
	out     string
	quick   bool
}

// newCompare returns the root command.
func newCompare() *cobra.Command {
	s := settings{options: compare.Options{
		Port: 19392, Partitions: 8, Bytes: 2e9, WarmupBytes: 5e8,
		Duration: 20 * time.Second, Idle: 10 * time.Second, ManyTopics: 1000, ManyPartitions: 10, Runs: 3,
	}}
	cmd := &cobra.Command{
		Use:   "compare --moldau PATH",
		Short: "Run Apache Kafka and moldau in turn on the same work and print the ratios",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			return s.run(cmd)
		},
	}
	flags, o := cmd.Flags(), &s.options
	flags.StringVar(&s.moldau, "moldau", "", "`path` of the moldau binary; without it only Apache Kafka is measured")
	flags.StringVar(&s.kafka, "kafka", "test/kafka/kafka", "`script` that runs Apache Kafka; empty leaves it out")
	flags.StringVar(&s.out, "out", "", "`folder` for compare.md and compare.json")
	flags.StringVar(&o.Dir, "dir", os.TempDir(), "`folder` for the servers' data, on the disk of interest")
	flags.IntVar(&o.Runs, "runs", o.Runs, "how often everything is measured")
	flags.IntVar(&o.Port, "port", o.Port, "first of two free ports on loopback")
	flags.IntVar(&o.Partitions, "partitions", o.Partitions, "partitions of the topics under load")
	flags.Int64Var(&o.Bytes, "bytes", o.Bytes, "bytes of the 1 KiB test; the 100 B test has a quarter")
	flags.Int64Var(&o.WarmupBytes, "warmup-bytes", o.WarmupBytes, "bytes written and read before measuring")
	flags.Int64Var(&s.rate, "rate", 20e6, "open loop rate in bytes per second")
	flags.DurationVar(&o.Duration, "latency-duration", o.Duration, "how long the open loop test lasts")
	flags.DurationVar(&o.Idle, "idle", o.Idle, "how long an idle server is watched")
	flags.IntVar(&o.ManyTopics, "many-topics", o.ManyTopics, "topics of the test with many partitions; 0 leaves it out")
	flags.IntVar(&o.ManyPartitions, "many-partitions", o.ManyPartitions, "partitions of each of them")
	flags.BoolVar(&s.quick, "quick", false, "one short run, to see that everything works")
	return cmd
}

// run measures and writes the report.
func (s *settings) run(cmd *cobra.Command) error {
	o := s.options
	if s.quick {
		o.Runs, o.Bytes, o.WarmupBytes, o.Duration, o.Idle = 1, 2e8, 5e7, 5*time.Second, 3*time.Second
		o.ManyTopics = min(o.ManyTopics, 100)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Rate, o.Progress, o.FloorServe = float64(s.rate), cmd.ErrOrStderr(), []string{self, "bench", "floor"}
	var servers []compare.Server
	if s.kafka != "" {
		script, err := filepath.Abs(s.kafka)
		if err != nil {
			return err
		}
		servers = append(servers, compare.Kafka(script))
	}
	if s.moldau != "" {
		path, err := filepath.Abs(s.moldau)
		if err != nil {
			return err
		}
		servers = append(servers, compare.Moldau(path))
	}
	report, err := compare.Run(cmd.Context(), o, servers)
	if err != nil {
		return err
	}
	report.WriteMarkdown(cmd.OutOrStdout())
	if s.out == "" {
		return nil
	}
	return save(report, s.out)
}

// save writes compare.md and compare.json.
func save(report *compare.Report, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "compare.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	md, err := os.Create(filepath.Join(dir, "compare.md"))
	if err != nil {
		return err
	}
	report.WriteMarkdown(md)
	if err := md.Close(); err != nil {
		return fmt.Errorf("write compare.md: %w", err)
	}
	return nil
}
