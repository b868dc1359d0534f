package interop

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cleaning makes a cleaner that has hardly a pause.
var cleaning = []string{"log.cleaner.backoff.ms=50", "log.cleaner.min.cleanable.ratio=0.01", "log.cleaner.delete.retention.ms=500", "log.segment.delete.delay.ms=200"}

// keyedTopic makes a compacted topic of small segments.
func keyedTopic(t *testing.T, n *node, name string) {
	t.Helper()
	cl := n.client(t)
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	for _, kv := range []string{"cleanup.policy=compact", "segment.bytes=1048576", "segment.ms=300", "max.message.bytes=2097152"} {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		k, v, _ := strings.Cut(kv, "=")
		c.Name, c.Value = k, &v
		topic.Configs = append(topic.Configs, c)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(within(t, 30*time.Second), cl)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("%v %+v", err, resp)
	}
}

// latest is a compacted topic as its producer knows it: key → value.
type latest map[string]string

// write produces count records over a few hundred keys, with every codec, and
// some tombstones; what is acknowledged is noted.
func (l latest) write(t *testing.T, n *node, topic string, count int, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for _, codec := range codecs {
		cl := n.client(t, kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(100))
		for range count / len(codecs) {
			key := fmt.Sprintf("key-%03d", rnd.IntN(300))
			r := &kgo.Record{Key: []byte(key), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte(key)}}}
			if rnd.IntN(10) > 0 {
				r.Value = []byte(fmt.Sprintf("%d-%s", rnd.Uint32(), strings.Repeat("x", rnd.IntN(400))))
				l[key] = string(r.Value)
			} else {
				delete(l, key)
			}
			cl.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := cl.Flush(within(t, 60*time.Second)); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
}

// table reads a topic from its start and gives the last value of each key, and
// how many records there were.
func table(t *testing.T, n *node, topic string) (latest, int) {
	t.Helper()
	at := n.endOffsets(t)[topic+"-0"]
	cl := n.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(at.start)}}))
	defer cl.Close()
	out, count := latest{}, 0
	last := at.start - 1
	for last < at.end-1 { // the last record was written after all others and stays
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		fs := cl.PollFetches(ctx)
		expired := ctx.Err() != nil
		cancel()
		if expired {
			t.Fatalf("no records behind offset %d of %d", last, at.end)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset <= last || len(r.Headers) != 1 || string(r.Headers[0].Value) != string(r.Key) {
				t.Fatalf("record at %d behind %d: %+v", r.Offset, last, r)
			}
			last, count = r.Offset, count+1
			if r.Value == nil {
				delete(out, string(r.Key))
			} else {
				out[string(r.Key)] = string(r.Value)
			}
		})
	}
	return out, count
}

func sameTable(t *testing.T, who string, n *node, topic string, want latest) (records int) {
	t.Helper()
	got, records := table(t, n, topic)
	if !maps.Equal(got, want) {
		t.Fatalf("%s: %d keys, want %d", who, len(got), len(want))
	}
	return records
}

// settle writes until the cleaner has left little more than a record per key.
func (l latest) settle(t *testing.T, who string, n *node, topic string) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; <-time.After(400 * time.Millisecond) {
		l.write(t, n, topic, 5, rand.Uint64()) // rolls the active segment
		if records := sameTable(t, who, n, topic, l); records < 600 {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%s has not compacted: %d records of %d keys\n%s", who, records, len(l), n.tail())
		}
	}
}

// TestCompaction: moldau's cleaner leaves one value per key with all codecs;
// Apache Kafka's dump tool accepts its segments and indexes, Kafka serves them,
// cleans them again, and moldau goes on with what Kafka's cleaner left, also when
// it was killed at work (trap 12).
func TestCompaction(t *testing.T) {
	needKafka(t)
	n := newNode(t, cleaning...)
	n.startMoldau(t)
	keyedTopic(t, n, "table")
	want := latest{}
	want.write(t, n, "table", 20_000, 1)
	want.settle(t, "moldau", n, "table")
	n.stop(t)
	dumpAll(t, n.data())
	if text, err := os.ReadFile(filepath.Join(n.data(), "cleaner-offset-checkpoint")); err != nil || !strings.Contains(string(text), "table 0 ") {
		t.Errorf("cleaner-offset-checkpoint: %q %v", text, err)
	}

	n.startKafka(t)
	sameTable(t, "Kafka on our cleaned folder", n, "table", want)
	want.write(t, n, "table", 20_000, 2)
	want.settle(t, "Kafka", n, "table")
	for round := range uint64(1) {
		want.write(t, n, "table", 30_000, 3+round)
		n.kill(t)
		n.startMoldau(t)
		sameTable(t, "moldau after SIGKILL of Kafka", n, "table", want)
		want.settle(t, "moldau", n, "table")
		want.write(t, n, "table", 30_000, 10+round)
		n.kill(t)
		n.startKafka(t)
		sameTable(t, "Kafka after SIGKILL of moldau", n, "table", want)
	}
	n.stop(t)
	noForeignFolders(t, n.data())
}

// TestHolesOfAKilledKafka: Kafka's cleaner shortens segments, or empties them,
// beyond its recovery point checkpoint, which is a minute old. Killed then, it
// leaves holes between segments that are no losses (trap 12).
func TestHolesOfAKilledKafka(t *testing.T) {
	needKafka(t)
	n := newNode(t, append(cleaning, "log.cleaner.backoff.ms=10000")...)
	n.startKafka(t)
	keyedTopic(t, n, "table")
	want := latest{}
	// A pass that begins while all this is written leaves no hole; then there is a next.
	deadline, more := time.Now().Add(150*time.Second), time.Now()
	for seed, holes := uint64(1), 0; holes == 0; <-time.After(10 * time.Millisecond) {
		if now := time.Now(); now.After(deadline) {
			t.Fatalf("Kafka leaves no holes\n%s", n.tail())
		} else if now.After(more) {
			want.write(t, n, "table", 60_000, seed)
			seed, more = seed+1, time.Now().Add(15*time.Second)
		}
		segments, _ := filepath.Glob(filepath.Join(n.data(), "table-0", "*.log"))
		for _, s := range segments[:max(len(segments)-1, 0)] {
			if info, err := os.Stat(s); err == nil && info.Size() == 0 {
				holes++
			}
		}
	}
	n.kill(t)
	n.startMoldau(t)
	if log, err := os.ReadFile(n.proc.log); err != nil || !strings.Contains(string(log), "has shortened since its last checkpoint") {
		t.Errorf("no holes were found (%v)\n%s", err, n.tail())
	}
	sameTable(t, "moldau after SIGKILL of Kafka", n, "table", want)
	want.settle(t, "moldau", n, "table")
	n.stop(t)
}
