package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The topics that fill writes; each holds something else.
var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()},
}

// content is every record of every partition, as text, in order of offset.
type content map[string][]string

// fill creates topics with every codec, configs, timestamps, small segments and
// idempotent producers, and writes into them. round makes the records differ.
func fill(t *testing.T, n *node, round int) {
	t.Helper()
	if round == 0 {
		resp := askNode[*kmsg.CreateTopicsResponse](t, n, createTopics(
			createTopic("codecs", 5, 1), createTopic("append-time", 1, 1, withConfig("message.timestamp.type", ptr("LogAppendTime"))),
			createTopic("segments", 1, 1, withConfig("segment.bytes", ptr("1048576")), withConfig("index.interval.bytes", ptr("4096"))),
			createTopic("flushed", 1, 1, withConfig("flush.messages", ptr("1"))), createTopic("idempotent", 2, 1),
			createTopic("recompressed", 1, 1, withConfig("compression.type", ptr("zstd"))), createTopic("doomed", 1, 1),
		)(nil, 7), 7)
		for _, r := range resp.Topics {
			if r.ErrorCode != 0 {
				t.Fatalf("create %s: %d", r.Topic, r.ErrorCode)
			}
		}
	}
	ctx := within(t, 60*time.Second)
	for i, c := range codecs {
		cl := n.client(t, kgo.ProducerBatchCompression(c.codec), kgo.DisableIdempotentWrite())
		produce(t, ctx, cl, "codecs", int32(i), round, 60, 40)
		produce(t, ctx, cl, "append-time", 0, round, 5, 40)
		produce(t, ctx, cl, "recompressed", 0, round, 5, 200)
	}
	cl := n.client(t, kgo.ProducerBatchMaxBytes(40_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	produce(t, ctx, cl, "segments", 0, round, 1500, 1500)
	produce(t, ctx, cl, "flushed", 0, round, 20, 40)
	for i := range 10 {
		produce(t, ctx, cl, "idempotent", int32(i%2), round, 7, 20)
	}
	if round == 0 {
		produce(t, ctx, cl, "doomed", 0, round, 7, 20)
		r := askNode[*kmsg.DeleteTopicsResponse](t, n, deleteTopics("doomed")(nil, 6), 6)
		if r.Topics[0].ErrorCode != 0 {
			t.Fatalf("delete doomed: %d", r.Topics[0].ErrorCode)
		}
	}
}

func testRecordOf(topic string, partition int32, round, i, size int) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: partition, Timestamp: time.UnixMilli(recent - 1e6 + int64(i))}
	if i%5 != 0 {
		r.Key = fmt.Appendf(nil, "key-%d", i%7)
	}
	if i%11 != 0 {
		r.Value = fmt.Appendf(nil, "value-%d-%d-%s", round, i, strings.Repeat("x", size))
	}
	if i%3 == 0 {
		r.Headers = []kgo.RecordHeader{{Key: "h1", Value: []byte("v1")}, {Key: "h2"}, {Key: "h1", Value: []byte{}}}
	}
	return r
}

func produce(t *testing.T, ctx context.Context, cl *kgo.Client, topic string, partition int32, round, count, size int) {
	t.Helper()
	var list []*kgo.Record
	for i := range count {
		list = append(list, testRecordOf(topic, partition, round, i, size))
	}
	if err := cl.ProduceSync(ctx, list...).FirstErr(); err != nil {
		t.Fatalf("produce to %s-%d: %v", topic, partition, err)
	}
}

// read consumes everything that is there, control records too.
func (n *node) read(t *testing.T, opts ...kgo.Opt) content {
	t.Helper()
	ends := n.endOffsets(t)
	out := content{}
	assign, left := map[string]map[int32]kgo.Offset{}, map[string]int64{}
	for name, end := range ends {
		topic, p := splitPartition(name)
		if strings.HasPrefix(topic, "__") {
			continue
		}
		out[name] = []string{}
		if end.end > end.start {
			if assign[topic] == nil {
				assign[topic] = map[int32]kgo.Offset{}
			}
			assign[topic][p] = kgo.NewOffset().At(end.start)
			left[name] = end.end
		}
	}
	if len(assign) == 0 {
		return out
	}
	cl := n.client(t, append(opts, kgo.ConsumePartitions(assign), kgo.KeepControlRecords())...)
	defer cl.Close()
	for len(left) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		fs := cl.PollFetches(ctx)
		cancel()
		if ctx.Err() != nil && fs.NumRecords() == 0 {
			break // only what compaction has emptied, or open transactions, is left
		}
		for _, e := range fs.Errors() {
			t.Fatalf("read %s-%d: %v", e.Topic, e.Partition, e.Err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			name := fmt.Sprintf("%s-%d", r.Topic, r.Partition)
			out[name] = append(out[name], recordText(r))
			if end, ok := left[name]; ok && r.Offset >= end-1 {
				delete(left, name)
			}
		})
	}
	return out
}

func recordText(r *kgo.Record) string {
	text := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%q", b)
	}
	s := fmt.Sprintf("%d @%d type %d %s=%s", r.Offset, r.Timestamp.UnixMilli(), r.Attrs.TimestampType(), text(r.Key), text(r.Value))
	if r.Attrs.IsControl() {
		s += " control"
	}
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %s:%s", h.Key, text(h.Value))
	}
	return s
}

type offsets struct{ start, end int64 }

func splitPartition(name string) (string, int32) {
	i := strings.LastIndexByte(name, '-')
	var p int32
	fmt.Sscan(name[i+1:], &p)
	return name[:i], p
}

func (n *node) endOffsets(t *testing.T) map[string]offsets {
	t.Helper()
	m := askNode[*kmsg.MetadataResponse](t, n, &kmsg.MetadataRequest{}, 9)
	out := map[string]offsets{}
	for _, topic := range m.Topics {
		req := kmsg.ListOffsetsRequestTopic{Topic: *topic.Topic}
		for _, p := range topic.Partitions {
			q := kmsg.NewListOffsetsRequestTopicPartition()
			q.Partition, q.CurrentLeaderEpoch = p.Partition, -1
			req.Partitions = append(req.Partitions, q)
		}
		for _, ts := range []int64{-2, -1} {
			for i := range req.Partitions {
				req.Partitions[i].Timestamp = ts
			}
			r := n.listOffsets(t, req)
			for _, p := range r.Topics[0].Partitions {
				if p.ErrorCode != 0 {
					t.Fatalf("offsets of %s-%d: error %d", *topic.Topic, p.Partition, p.ErrorCode)
				}
				name := fmt.Sprintf("%s-%d", *topic.Topic, p.Partition)
				o := out[name]
				if ts == -2 {
					o.start = p.Offset
				} else {
					o.end = p.Offset
				}
				out[name] = o
			}
		}
	}
	return out
}

// listOffsets asks again while a server that has just started does not lead yet.
func (n *node) listOffsets(t *testing.T, q kmsg.ListOffsetsRequestTopic) *kmsg.ListOffsetsResponse {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(50 * time.Millisecond) {
		r := askNode[*kmsg.ListOffsetsResponse](t, n, &kmsg.ListOffsetsRequest{ReplicaID: -1, Topics: []kmsg.ListOffsetsRequestTopic{q}}, 7)
		if !slices.ContainsFunc(r.Topics[0].Partitions, func(p kmsg.ListOffsetsResponseTopicPartition) bool { return p.ErrorCode == 6 }) || time.Now().After(deadline) {
			return r
		}
	}
}

// sameContent fails the test for what differs, except that got may hold more
// records at the end when more is set.
func sameContent(t *testing.T, what string, want, got content, more bool) {
	t.Helper()
	for name, w := range want {
		g := got[name]
		if more && len(g) > len(w) {
			g = g[:len(w)]
		}
		if len(g) != len(w) {
			t.Errorf("%s: %s has %d records, want %d", what, name, len(got[name]), len(w))
			continue
		}
		for i := range w {
			if w[i] != g[i] {
				t.Errorf("%s: %s record %d is\n\t%s\nwant\n\t%s", what, name, i, g[i], w[i])
				break
			}
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && !more {
			t.Errorf("%s: %s is there", what, name)
		}
	}
}

// topicConfigs gives the settings that topics have of their own.
func (n *node) topicConfigs(t *testing.T) []string {
	t.Helper()
	m := askNode[*kmsg.MetadataResponse](t, n, &kmsg.MetadataRequest{}, 9)
	req := &kmsg.DescribeConfigsRequest{}
	for _, topic := range m.Topics {
		q := kmsg.NewDescribeConfigsRequestResource()
		q.ResourceType, q.ResourceName = kmsg.ConfigResourceTypeTopic, *topic.Topic
		req.Resources = append(req.Resources, q)
	}
	var out []string
	for _, r := range askNode[*kmsg.DescribeConfigsResponse](t, n, req, 4).Resources {
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				out = append(out, fmt.Sprintf("%s %s=%s", r.ResourceName, c.Name, *c.Value))
			}
		}
	}
	sort.Strings(out)
	return out
}

var badDump = regexp.MustCompile(`(?i)isvalid: false|exception|mismatch|invalid|corrupt|could not|not found|error`)

// dumpAll has Kafka's dump-log read every file of the data folder.
func dumpAll(t *testing.T, data string) {
	t.Helper()
	var logs, metadata []string
	kinds := map[string]int{}
	filepath.WalkDir(data, func(path string, d os.DirEntry, err error) error {
		ext := filepath.Ext(path)
		if err != nil || d.IsDir() || !slices.Contains([]string{".log", ".index", ".timeindex", ".snapshot", ".checkpoint"}, ext) {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() == 0 && ext != ".log" {
			return nil // an index without entries
		}
		kinds[ext]++
		if strings.Contains(path, "__cluster_metadata-0") && (ext == ".log" || ext == ".checkpoint") {
			metadata = append(metadata, path)
		} else {
			logs = append(logs, path)
		}
		return nil
	})
	for _, ext := range []string{".log", ".index", ".timeindex", ".snapshot", ".checkpoint"} {
		if kinds[ext] == 0 {
			t.Errorf("there is no %s file to check", ext)
		}
	}
	out := tool(t, "dump-log", "--deep-iteration", "--files", strings.Join(logs, ","))
	complain(t, out)
	if n := strings.Count(out, "Dumping "); n != len(logs) {
		t.Errorf("dump-log read %d files of %d", n, len(logs))
	}
	out = tool(t, "dump-log", "--cluster-metadata-decoder", "--files", strings.Join(metadata, ","))
	complain(t, out)
	for _, want := range []string{"TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "REGISTER_BROKER_RECORD", "FEATURE_LEVEL_RECORD", "LeaderChange", "SnapshotHeader", "SnapshotFooter", "KRaftVersion", "KRaftVoters"} {
		if !strings.Contains(out, want) {
			t.Errorf("dump-log shows no %s", want)
		}
	}
}

func complain(t *testing.T, out string) {
	t.Helper()
	for _, line := range strings.Split(out, "\n") {
		head, _, _ := strings.Cut(line, "payload:")
		if badDump.MatchString(head) && !strings.Contains(head, "isvalid: true") {
			t.Errorf("dump-log: %.300s", line)
		}
	}
}

// TestTrap11NoForeignFolders checks what lies in a data folder: anything that is
// not a partition stops Apache Kafka. It fails if, say, diskless data were kept
// in log.dirs.
func noForeignFolders(t *testing.T, data string) {
	t.Helper()
	list, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	ok := regexp.MustCompile(`^[a-zA-Z0-9._-]+-\d+(\.[0-9a-f]{32}-(delete|future|stray))?$`)
	for _, e := range list {
		if e.IsDir() && !ok.MatchString(e.Name()) {
			t.Errorf("Trap 11: %s in log.dirs stops Apache Kafka", e.Name())
		}
	}
}

// TestKafkaStartsOnOurFolder: Apache Kafka reads what moldau wrote and serves
// the same, after a clean stop and after SIGKILL under load; then moldau again.
func TestKafkaStartsOnOurFolder(t *testing.T) {
	needKafka(t)
	n := newNode(t, "metadata.log.max.record.bytes.between.snapshots=4096", "log.segment.delete.delay.ms=60000", "num.network.threads=3")
	n.startMoldau(t)
	fill(t, n, 0)
	want, configs := n.read(t), n.topicConfigs(t)
	n.stop(t)
	dumpAll(t, n.data())
	noForeignFolders(t, n.data())

	n.startKafka(t)
	sameContent(t, "Kafka on our folder", want, n.read(t), false)
	if got := n.topicConfigs(t); !slices.Equal(got, configs) {
		t.Errorf("Kafka sees the configs %v, moldau %v", got, configs)
	}
	fill(t, n, 1)
	want = n.read(t)
	n.stop(t)

	n.startMoldau(t)
	sameContent(t, "moldau after Kafka", want, n.read(t), false)
	acked := killUnderLoad(t, n)
	n.startKafka(t)
	got := n.read(t)
	sameContent(t, "Kafka after SIGKILL of moldau", want, got, true)
	acked.check(t, "Kafka after SIGKILL of moldau", got)
	n.stop(t)
}

// TestWeStartOnKafkasFolder is the reverse.
func TestWeStartOnKafkasFolder(t *testing.T) {
	needKafka(t)
	n := newNode(t, "metadata.log.max.record.bytes.between.snapshots=4096", "log.cleaner.backoff.ms=200")
	n.startKafka(t)
	fill(t, n, 0)
	want, configs := n.read(t), n.topicConfigs(t)
	n.stop(t)

	n.startMoldau(t)
	sameContent(t, "moldau on Kafka's folder", want, n.read(t), false)
	if got := n.topicConfigs(t); !slices.Equal(got, configs) {
		t.Errorf("moldau sees the configs %v, Kafka %v", got, configs)
	}
	fill(t, n, 1)
	want = n.read(t)
	n.stop(t)

	n.startKafka(t)
	sameContent(t, "Kafka after moldau", want, n.read(t), false)
	createCompacted(t, n)
	acked := killUnderLoad(t, n)
	n.startMoldau(t)
	got := n.read(t)
	sameContent(t, "moldau after SIGKILL of Kafka (Trap 12)", want, got, true)
	acked.check(t, "moldau after SIGKILL of Kafka (Trap 12)", got)
	want = n.read(t)
	n.stop(t)
	noForeignFolders(t, n.data())
	n.startKafka(t)
	again := n.read(t)
	delete(want, "compacted-0") // Kafka goes on cleaning it
	delete(again, "compacted-0")
	sameContent(t, "Kafka again", want, again, false)
	n.stop(t)
}

// createCompacted keeps Kafka's cleaner busy.
func createCompacted(t *testing.T, n *node) {
	t.Helper()
	askNode[*kmsg.CreateTopicsResponse](t, n, createTopics(createTopic("compacted", 1, 1, withConfig("cleanup.policy", ptr("compact")),
		withConfig("segment.ms", ptr("100")), withConfig("min.cleanable.dirty.ratio", ptr("0.01"))))(nil, 7), 7)
	cl := n.client(t)
	ctx := within(t, 30*time.Second)
	for i := range 30 { // stamped so far apart that segments roll
		at := time.Now().Add(time.Duration(i-30) * time.Second)
		r := &kgo.Record{Timestamp: at, Topic: "compacted", Key: fmt.Appendf(nil, "key-%d", i%7), Value: fmt.Appendf(nil, "value-%d", i)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// acknowledged remembers what a producer was told.
type acknowledged struct {
	values map[int64]string // by offset
}

// killUnderLoad produces to idempotent-0 and kills the server while it does.
func killUnderLoad(t *testing.T, n *node) *acknowledged {
	t.Helper()
	a := &acknowledged{values: map[int64]string{}}
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *kgo.Record, 100_000)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ctx.Err() == nil && i < 100_000; i++ {
			r := &kgo.Record{Topic: "idempotent", Partition: 0, Value: fmt.Appendf(nil, "load-%d-%s", i, strings.Repeat("y", 500))}
			cl.Produce(ctx, r, func(r *kgo.Record, err error) {
				if err == nil {
					done <- r
				}
			})
		}
	}()
	for range 2000 { // enough acknowledged
		r := <-done
		a.values[r.Offset] = string(r.Value)
	}
	n.kill(t)
	cancel()
	<-stopped
	cl.Close()
	for len(done) > 0 {
		r := <-done
		a.values[r.Offset] = string(r.Value)
	}
	return a
}

func (a *acknowledged) check(t *testing.T, what string, got content) {
	t.Helper()
	at := map[int64]string{}
	for _, text := range got["idempotent-0"] {
		var o int64
		fmt.Sscan(text, &o)
		at[o] = text
	}
	missing := 0
	for o, v := range a.values {
		if !strings.Contains(at[o], v) {
			if missing++; missing < 4 {
				t.Errorf("%s: offset %d was acknowledged as %.30s, but is %.80s", what, o, v, at[o])
			}
		}
	}
	if len(a.values) < 2000 {
		t.Errorf("only %d records were acknowledged", len(a.values))
	}
}

// TestTrap10TwoServersOnOneFolder fails if the lock were one that a JVM does not
// see, such as flock. The JVM that comes second is a controller: a combined one
// looks at the lock only after it has already written to the metadata log, also
// where a JVM is first.
func TestTrap10TwoServersOnOneFolder(t *testing.T) {
	needKafka(t)
	n := newNode(t)
	n.startMoldau(t)
	second := nodeIn(t, t.TempDir(), "log.dirs="+n.data())
	controller := nodeIn(t, t.TempDir(), "log.dirs="+n.data())
	controller.add(t, "process.roles=controller", fmt.Sprintf("listeners=CONTROLLER://127.0.0.1:%d", controller.ctl))
	refused(t, controller, "kafka", "Failed to acquire lock on file .lock")
	refused(t, second, "moldau", "in use by process "+fmt.Sprint(n.proc.cmd.Process.Pid))
	n.stop(t)
	n.startKafka(t)
	refused(t, second, "moldau", "in use by")
	n.stop(t)
}

func refused(t *testing.T, n *node, server, why string) {
	t.Helper()
	args := []string{"server", "--config", n.properties()}
	cmd := execCommand(moldauBinary, args...)
	if server == "kafka" {
		cmd = execCommand(kafkaScript, "exec", n.dir)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := runFor(cmd, 40*time.Second)
	if err == nil || !strings.Contains(strings.ToLower(out.String()), strings.ToLower(why)) {
		t.Errorf("%s on a folder in use: %v, says\n%s\nwant %q", server, err, lastLines(out.String(), 20), why)
	}
}
