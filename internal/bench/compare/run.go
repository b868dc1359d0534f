package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moldau/internal/bench"
)

// Options say how much to measure.
type Options struct {
	// Runs is how often everything is repeated.
	Runs int `json:"runs"`
	// Dir is where servers keep their data; each run starts from an empty folder.
	Dir string `json:"-"`
	// Port is the first of two ports on loopback.
	Port int `json:"-"`
	// Bytes is what the 1 KiB test moves; the 100 B test moves a quarter of it.
	Bytes int64 `json:"bytes"`
	// WarmupBytes are written and read before anything is measured.
	WarmupBytes int64 `json:"warmup_bytes"`
	// Partitions of the topics under load.
	Partitions int `json:"partitions"`
	// Rate is the open-loop rate in bytes per second, Duration how long.
	Rate     float64       `json:"rate_bytes_per_s"`
	Duration time.Duration `json:"latency_duration_ns"`
	// Idle is how long an idle server is watched.
	Idle time.Duration `json:"idle_ns"`
	// ManyTopics topics of ManyPartitions each are the many partitions.
	ManyTopics     int `json:"many_topics"`
	ManyPartitions int `json:"many_partitions_per_topic"`
	// FloorServe starts the serving half of the floor.
	FloorServe []string `json:"-"`
	// Progress gets a line per step.
	Progress io.Writer `json:"-"`
}

const (
	// createBatch is how many topics go into one CreateTopics request; a
	// controller takes at most 10,000 records at a time.
	createBatch = 100
	// settle is the pause before an idle server is watched.
	settle = 2 * time.Second
	// smallRecord and largeRecord are the two record sizes.
	smallRecord, largeRecord = 100, 1 << 10
)

// run is one pass over one server.
type run struct {
	Options
	server Server
	out    samples
}

// Run measures all servers and the floor. What was measured before an error is
// lost: a comparison with holes misleads.
func Run(ctx context.Context, o Options, servers []Server) (*Report, error) {
	if o.Runs < 1 || len(servers) == 0 {
		return nil, errors.New("nothing to run; want at least one run of one server")
	}
	where, measured := machine(), map[string]samples{}
	for _, s := range servers {
		measured[s.Name] = samples{}
	}
	order := slices.Clone(servers)
	for i := range o.Runs {
		for _, s := range order {
			r := run{Options: o, server: s, out: measured[s.Name]}
			fmt.Fprintf(o.Progress, "run %d of %d: %s\n", i+1, o.Runs, s.Title)
			if err := r.inFolder(ctx, r.load); err != nil {
				return nil, fmt.Errorf("%s, load: %w", s.Title, err)
			}
			if o.ManyTopics == 0 {
				continue
			}
			if err := r.inFolder(ctx, r.many); err != nil {
				return nil, fmt.Errorf("%s, many partitions: %w", s.Title, err)
			}
		}
		slices.Reverse(order)
	}
	var floor []bench.FloorResult
	for _, chunk := range []int64{1 << 20, 64 << 10, 4 << 10} {
		unix.Sync()
		results, err := bench.Floor(ctx, bench.FloorOptions{Chunk: chunk, Bytes: min(o.Bytes, 1<<30), Passes: 3, Dir: o.Dir, Serve: o.FloorServe})
		if err != nil {
			return nil, err
		}
		floor = append(floor, results...)
	}
	return newReport(where, o, servers, measured, floor), nil
}

// inFolder formats an empty folder, lets do work in it and removes it.
func (r *run) inFolder(ctx context.Context, do func(ctx context.Context, dir string) error) (err error) {
	dir, err := os.MkdirTemp(r.Dir, "moldau-compare-"+r.server.Name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := r.server.format(ctx, dir, r.Port); err != nil {
		return err
	}
	return do(ctx, dir)
}

// step says what is being done and flushes what earlier steps left dirty.
func (r *run) step(name string) {
	unix.Sync()
	fmt.Fprintf(r.Progress, "  %s\n", name)
}

// boot starts the server in dir and waits for check; the time goes to key.
func (r *run) boot(ctx context.Context, dir, key string, check func(*probe) error) (*node, error) {
	n, err := r.server.start(dir, r.Port)
	if err != nil {
		return nil, err
	}
	took, err := n.ready(ctx, check)
	if err != nil {
		_, _ = n.end(syscall.SIGKILL)
		return nil, err
	}
	r.out.add(key, took.Seconds())
	return n, nil
}

// load measures a server at work.
func (r *run) load(ctx context.Context, dir string) (err error) {
	r.step("start")
	n, err := r.boot(ctx, dir, "start_s", serving)
	if err != nil {
		return err
	}
	defer func() { _, _ = n.end(syscall.SIGKILL) }() // a no-op after a clean stop
	r.step("idle")
	if err := r.idle(ctx, n, "idle_cpu", "idle_rss_mb"); err != nil {
		return err
	}
	r.step("warm-up")
	if _, err := bench.Produce(ctx, r.produce(n, "warm", largeRecord, r.WarmupBytes)); err != nil {
		return err
	}
	consume := bench.DefaultConsumeOptions()
	consume.Target, consume.Topic = n.target(), "warm"
	if _, err := bench.Consume(ctx, consume); err != nil {
		return err
	}
	if err := r.throughput(ctx, n); err != nil {
		return err
	}
	if err := r.latency(ctx, n); err != nil {
		return err
	}
	r.step("stop")
	took, err := n.end(syscall.SIGTERM)
	r.out.add("stop_s", took.Seconds())
	return err
}

// idle adds idle CPU and memory.
func (r *run) idle(ctx context.Context, n *node, cpuKey, rssKey string) error {
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	percent, rss, err := n.idle(ctx, r.Idle)
	if err != nil {
		return err
	}
	r.out.add(cpuKey, percent)
	r.out.add(rssKey, float64(rss)/1e6)
	return nil
}

// produce are the options of a full speed test into a topic of its own.
func (r *run) produce(n *node, topic string, size int, bytes int64) bench.ProduceOptions {
	return bench.ProduceOptions{
		Target: n.target(), Topic: bench.TopicSpec{Name: topic, Partitions: r.Partitions, ReplicationFactor: 1},
		Producer: bench.DefaultProducerOptions(), RecordSize: size, Clients: 1, Compressible: 1,
		Stop: bench.Stop{Bytes: bytes},
	}
}

// throughput measures produce and consume at full speed.
func (r *run) throughput(ctx context.Context, n *node) error {
	peak := int64(0)
	take := func(result *bench.Result, err error, rate, cpu string) error {
		if err == nil && result.Failed > 0 {
			err = fmt.Errorf("%d records failed: %s", result.Failed, result.FirstError)
		}
		if err != nil {
			return err
		}
		r.out.add(rate, result.MBPerSecond)
		r.out.add(cpu, result.Broker.CPUPerGB)
		peak = max(peak, result.Broker.PeakRSSBytes)
		return nil
	}
	r.step("produce 1 KiB")
	result, err := bench.Produce(ctx, r.produce(n, "large", largeRecord, r.Bytes))
	if err := take(result, err, "produce_1k_mb_s", "produce_1k_cpu"); err != nil {
		return err
	}
	r.step("consume")
	consume := bench.DefaultConsumeOptions()
	consume.Target, consume.Topic = n.target(), "large"
	result, err = bench.Consume(ctx, consume)
	if err := take(result, err, "consume_mb_s", "consume_cpu"); err != nil {
		return err
	}
	r.step("produce 100 B")
	result, err = bench.Produce(ctx, r.produce(n, "small", smallRecord, r.Bytes/4))
	if err := take(result, err, "produce_100_mb_s", "produce_100_cpu"); err != nil {
		return err
	}
	r.out.add("load_rss_mb", float64(peak)/1e6)
	return nil
}

// latency measures open loop at a fixed rate with a linger of 1 ms.
func (r *run) latency(ctx context.Context, n *node) error {
	r.step("latency")
	o := bench.LatencyOptions{ProduceOptions: r.produce(n, "latency", largeRecord, 0), Consumers: 1, Warmup: r.Duration / 5}
	o.Rate, o.Stop.Duration, o.Producer.Linger = r.Rate, r.Duration, time.Millisecond
	result, err := bench.Latency(ctx, o)
	if err != nil {
		return err
	}
	if result.Failed > 0 || result.Ack == nil || result.EndToEnd == nil {
		return fmt.Errorf("%d records failed: %s", result.Failed, result.FirstError)
	}
	r.out.add("ack_p50_ms", result.Ack.P50Ms)
	r.out.add("ack_p99_ms", result.Ack.P99Ms)
	r.out.add("ack_p999_ms", result.Ack.P999Ms)
	r.out.add("e2e_p50_ms", result.EndToEnd.P50Ms)
	r.out.add("e2e_p99_ms", result.EndToEnd.P99Ms)
	r.out.add("e2e_p999_ms", result.EndToEnd.P999Ms)
	r.out.add("latency_cpu", result.Broker.CPUPerGB)
	return nil
}
