package cli

import (
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/bench"
)

func TestProduceFlags(t *testing.T) {
	base := func(change func(*bench.ProduceOptions)) bench.ProduceOptions {
		o := bench.ProduceOptions{
			Target: bench.Target{Brokers: []string{"127.0.0.1:9092"}}, Topic: bench.TopicSpec{Name: "bench", ReplicationFactor: 1},
			Producer: bench.DefaultProducerOptions(), RecordSize: 1024, Clients: 1, Compressible: 1,
			Stop: bench.Stop{Duration: 10 * time.Second},
		}
		change(&o)
		return o
	}
	tests := []struct {
		args string
		want bench.ProduceOptions
	}{
		{"", base(func(*bench.ProduceOptions) {})},
		{"--rate 20MB --record-size 100 --bytes 1GB", base(func(o *bench.ProduceOptions) {
			o.Rate, o.RecordSize, o.Stop = 20e6, 100, bench.Stop{Bytes: 1e9}
		})},
		{"--brokers a:1,b:2 --broker-pid 7 --topic t --partitions 8 --replication-factor 3 --recreate", base(func(o *bench.ProduceOptions) {
			o.Brokers, o.BrokerPID = []string{"a:1", "b:2"}, 7
			o.Topic = bench.TopicSpec{Name: "t", Partitions: 8, ReplicationFactor: 3, Recreate: true}
		})},
		{"--acks 1 --idempotent=false --in-flight 2 --compression zstd --compressible 4 --linger 1ms --batch-bytes 16KiB --buffer-bytes 1MiB", base(func(o *bench.ProduceOptions) {
			o.Compressible = 4
			o.Producer = bench.ProducerOptions{
				Acks: "1", InFlight: 2, Compression: "zstd", Linger: time.Millisecond, BatchBytes: 16 << 10, BufferBytes: 1 << 20,
			}
		})},
		{"--records 5 --duration 3s --clients 4", base(func(o *bench.ProduceOptions) {
			o.Stop, o.Clients = bench.Stop{Records: 5, Duration: 3 * time.Second}, 4
		})},
	}
	for _, tt := range tests {
		f, cmd := newProduceFlags(), &cobra.Command{Use: "produce"}
		f.add(cmd)
		if err := cmd.ParseFlags(strings.Fields(tt.args)); err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		if got := f.read(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q:\ngot  %+v\nwant %+v", tt.args, got, tt.want)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	tests := map[string]string{
		"produce --rate fast":                    "want a number of bytes",
		"produce --brokers 127.0.0.1:1 --acks 9": "cannot connect to 127.0.0.1:1",
		"produce --record-size 0":                "want 1 B to 64 MiB",
		"produce extra":                          "unknown command",
		"consume --isolation none":               "want read_uncommitted or read_committed",
		"consume --brokers 127.0.0.1:1":          "start a broker there",
		"latency --rate 0":                       "--rate 20MB",
		"latency --record-size 8":                "at least 16",
		"latency --duration 1s":                  "leaves nothing",
		"floor --bytes 10 --chunk 20":            "at least one chunk",
		"floor --dir /no/such/folder":            "pass --dir",
		"produce --records -1":                   "want 0 (no limit) or more",
		"produce --duration -1s":                 "want 0 (no limit) or more",
		"produce --linger -1ms":                  "want 0 or more",
		"produce --compressible 0":               "want 1 (random bytes)",
		"nonsense":                               "unknown command",
	}
	for args, want := range tests {
		root := &cobra.Command{Use: "moldau"}
		root.AddCommand(NewBench())
		root.SetArgs(append([]string{"bench"}, strings.Fields(args)...))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", args, err, want)
		}
	}
}

func TestFloorChildRunsTheSameCommand(t *testing.T) {
	root := &cobra.Command{Use: "moldau"}
	root.AddCommand(NewBench())
	floor, _, err := root.Find([]string{"bench", "floor"})
	if err != nil {
		t.Fatal(err)
	}
	child, err := floorChild(floor)
	if err != nil || len(child) != 3 || child[1] != "bench" || child[2] != "floor" {
		t.Errorf("child = %q, %v", child, err)
	}
	if _, err := floorChild(newBenchFloor()); err == nil {
		t.Error("a command without a root has a child")
	}
}
