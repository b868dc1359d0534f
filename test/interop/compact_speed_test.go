package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestCompactionSpeed lets moldau and Apache Kafka compact the same folder, with
// the same settings and one thread, and prints how fast they were and what memory
// they took at most. COMPACT_MB says how much (some hundred); without it there is
// nothing to do:
//
//	cd test/interop && COMPACT_MB=400 go test -count=1 -v -run TestCompactionSpeed .
func TestCompactionSpeed(t *testing.T) {
	mb, _ := strconv.Atoi(os.Getenv("COMPACT_MB"))
	if mb == 0 {
		t.Skip("COMPACT_MB is not set")
	}
	needKafka(t)
	t.Logf("%-8s %-8s %10s %10s %12s %12s", "codec", "server", "read MB", "MB/s", "CPU s", "RSS max MB")
	for _, codec := range []struct {
		name string
		opt  kgo.CompressionCodec
	}{{"none", kgo.NoCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()}} {
		n := newNode(t, "log.cleaner.threads=1", "log.cleaner.backoff.ms=100", "log.segment.delete.delay.ms=1")
		n.add(t, "log.cleaner.enable=false")
		n.startMoldau(t)
		fillKeyed(t, n, codec.opt, mb)
		n.stop(t)
		n.add(t, "log.cleaner.enable=true")
		saved := filepath.Join(n.dir, "saved")
		copyTree(t, n.data(), saved)
		for _, server := range []string{"moldau", "kafka"} {
			if err := os.RemoveAll(n.data()); err != nil {
				t.Fatal(err)
			}
			copyTree(t, saved, n.data())
			if server == "moldau" {
				n.startMoldau(t)
			} else {
				n.startKafka(t)
			}
			p := awaitPass(t, n)
			t.Logf("%-8s %-8s %10.0f %10.0f %12.1f %12.0f", codec.name, server, p.mb, p.mb/p.seconds, p.cpu, p.rss)
			n.stop(t)
		}
		os.RemoveAll(n.dir)
	}
}

// fillKeyed writes so many MB of records of 1 kB, half of it random, over an
// eighth as many keys.
func fillKeyed(t *testing.T, n *node, codec kgo.CompressionCodec, mb int) {
	t.Helper()
	cl := n.client(t, kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic("speed"), kgo.ProducerBatchMaxBytes(256<<10), kgo.ProducerLinger(5*time.Millisecond))
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "speed", 1, 1
	for _, kv := range []string{"cleanup.policy=compact", "segment.bytes=67108864"} {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		k, v, _ := strings.Cut(kv, "=")
		c.Name, c.Value = k, &v
		topic.Configs = append(topic.Configs, c)
	}
	req.Topics = append(req.Topics, topic)
	if resp, err := req.RequestWith(within(t, 30*time.Second), cl); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("%v %+v", err, resp)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	count := mb * 1000
	for range count {
		value := make([]byte, 1000)
		for i := 0; i < len(value)/2; i += 8 {
			copy(value[i:], strconv.FormatUint(rnd.Uint64()|1<<63, 36))
		}
		for i := len(value) / 2; i < len(value); i++ {
			value[i] = "a field of the record "[i%22]
		}
		cl.Produce(context.Background(), &kgo.Record{Key: fmt.Appendf(nil, "key-%09d", rnd.IntN(count/8)), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(within(t, 5*time.Minute)); err != nil {
		t.Fatal(err)
	}
}

// pass is what a server says of its pass, and what the system says of the server.
type pass struct{ mb, seconds, cpu, rss float64 }

var (
	moldauPass = regexp.MustCompile(`msg="log cleaned" partition=speed-0 .* dirty=(\d+) .*took=(\S+)`)
	kafkaPass  = regexp.MustCompile(`(?s)cleaned log speed-0 .*?([\d,.]+) MB of log processed in ([\d,.]+) seconds`)
)

func awaitPass(t *testing.T, n *node) pass {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		text, err := os.ReadFile(n.proc.log)
		if err != nil {
			t.Fatal(err)
		}
		var p pass
		if m := moldauPass.FindSubmatch(text); m != nil {
			took, err := time.ParseDuration(string(m[2]))
			if err != nil {
				t.Fatal(err)
			}
			p.mb, p.seconds = number(t, string(m[1]))/(1<<20), took.Seconds()
		} else if m := kafkaPass.FindSubmatch(text); m != nil {
			p.mb, p.seconds = number(t, string(m[1])), number(t, string(m[2]))
		} else {
			continue
		}
		p.cpu, p.rss = usage(t, n.proc.cmd.Process.Pid)
		return p
	}
	t.Fatalf("%s does not clean\n%s", n.proc.name, n.tail())
	return pass{}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// usage gives the CPU seconds of a process since its start, and its largest
// resident size in MB.
func usage(t *testing.T, pid int) (cpu, rss float64) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	cpu = (number(t, fields[11]) + number(t, fields[12])) / 100
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	return cpu, number(t, string(m[1])) / 1024
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-r", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
