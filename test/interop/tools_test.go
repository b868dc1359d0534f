package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// says fails unless the text holds each of what is wanted.
func says(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !regexp.MustCompile(w).MatchString(text) {
			t.Errorf("%s says\n%s\nwant %q", what, lastLines(text, 15), w)
		}
	}
}

// TestTools runs Apache Kafka's command-line tools against moldau, two JVMs at a
// time.
func TestTools(t *testing.T) {
	needKafka(t)
	n := newNode(t)
	n.startMoldau(t)
	// The chains are independent; the steps of one are not.
	chains := map[string]func(*testing.T, *node, string){
		"topics": topicsTool, "configs": configsTool, "console": consoleTools, "perf": perfTools, "describe": describeTools,
	}
	slots := make(chan struct{}, 2)
	t.Run("chains", func(t *testing.T) {
		for name, chain := range chains {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				chain(t, n, n.addr())
			})
		}
	})
	noForeignFolders(t, n.data())
	n.stop(t)
}

func topicsTool(t *testing.T, n *node, at string) {
	topics := func(args ...string) string {
		return tool(t, append([]string{"topics", "--bootstrap-server", at}, args...)...)
	}
	says(t, "topics --create", topics("--create", "--topic", "made", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=86400000"), "Created topic made")
	says(t, "topics --create --if-not-exists", topics("--create", "--if-not-exists", "--topic", "made"), "^$|WARN|^\\s*$")
	out, err := runTool("", "topics", "--bootstrap-server", at, "--create", "--topic", "made")
	if err == nil {
		t.Error("topics --create of a topic that exists succeeds")
	}
	says(t, "topics --create again", out, "Topic 'made' already exists")
	says(t, "topics --describe", topics("--describe", "--topic", "made"), `PartitionCount: 3`, `ReplicationFactor: 1`, `retention.ms=86400000`, `Partition: 2\s+Leader: 1\s+Replicas: 1\s+Isr: 1`)
	topics("--alter", "--topic", "made", "--partitions", "5")
	says(t, "topics --describe after --alter", topics("--describe", "--topic", "made"), `PartitionCount: 5`, `Partition: 4\s+Leader: 1`)
	says(t, "topics --list", topics("--list"), `(?m)^made$`)
	topics("--delete", "--topic", "made")
	topics("--delete", "--if-exists", "--topic", "made")
	if strings.Contains(topics("--list"), "made") {
		t.Error("a deleted topic is listed")
	}
	out, err = runTool("", "topics", "--bootstrap-server", at, "--delete", "--topic", "made")
	if err == nil || !strings.Contains(out, "does not exist") {
		t.Errorf("topics --delete of what is gone: %v, %s", err, lastLines(out, 3))
	}
}

// configsTool proves that settings take effect on a producer that is running.
func configsTool(t *testing.T, n *node, at string) {
	configs := func(args ...string) string {
		return tool(t, append([]string{"configs", "--bootstrap-server", at}, args...)...)
	}
	r := askNode[*kmsg.CreateTopicsResponse](t, n, createTopics(createTopic("tuned", 1, 1))(nil, 7), 7)
	if r.Topics[0].ErrorCode != 0 {
		t.Fatal(r.Topics[0].ErrorCode)
	}
	says(t, "configs --describe --all of a topic", configs("--describe", "--all", "--entity-type", "topics", "--entity-name", "tuned"), `max.message.bytes=1048588 sensitive=false synonyms=\{DEFAULT_CONFIG:message.max.bytes=1048588\}`)
	says(t, "configs --describe --all of a broker", configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"), `node.id=1 `, `log.cleaner.threads=1 `)
	cl := n.client(t, kgo.ProducerBatchMaxBytes(2_000_000), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite())
	send := func(size int) (*kgo.Record, error) {
		r := &kgo.Record{Topic: "tuned", Key: []byte("k"), Value: make([]byte, size), Timestamp: time.UnixMilli(recent - 60_000)}
		return r, cl.ProduceSync(within(t, 20*time.Second), r).FirstErr()
	}
	if _, err := send(5000); err != nil {
		t.Fatal(err)
	}
	alterTopic := func(set string) {
		configs("--alter", "--entity-type", "topics", "--entity-name", "tuned", "--add-config", set)
	}
	alterTopic("max.message.bytes=1000")
	if _, err := send(5000); err == nil || !strings.Contains(err.Error(), "MESSAGE_TOO_LARGE") {
		t.Errorf("after max.message.bytes=1000 a batch of 5000 bytes gets: %v", err)
	}
	configs("--alter", "--entity-type", "topics", "--entity-name", "tuned", "--delete-config", "max.message.bytes")
	configs("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "message.max.bytes=1200")
	if _, err := send(5000); err == nil {
		t.Error("the default message.max.bytes=1200 of all brokers has no effect")
	}
	configs("--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", "message.max.bytes=9000")
	if _, err := send(5000); err != nil {
		t.Errorf("message.max.bytes=9000 of the broker does not win: %v", err)
	}
	says(t, "configs --describe of the broker", configs("--describe", "--entity-type", "brokers", "--entity-name", "1"), `message.max.bytes=9000 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:message.max.bytes=9000, DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=1200, DEFAULT_CONFIG:message.max.bytes=1048588\}`)
	alterTopic("compression.type=gzip,message.timestamp.type=LogAppendTime")
	rec, err := send(4000)
	if err != nil {
		t.Fatal(err)
	}
	reader := n.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"tuned": {0: kgo.NewOffset().At(rec.Offset)}}))
	fs := reader.PollFetches(within(t, 20*time.Second))
	if list := fs.Records(); len(list) == 0 || list[0].Attrs.CompressionType() != 1 || list[0].Attrs.TimestampType() != 1 || list[0].Timestamp.UnixMilli() <= recent-60_000 {
		t.Errorf("compression.type and message.timestamp.type have no effect: %v, %v", fs.Err(), list)
	}
	out, err := runTool("", "configs", "--bootstrap-server", at, "--alter", "--entity-type", "topics", "--entity-name", "tuned", "--add-config", "retention.ms=soon")
	if err == nil || !strings.Contains(out, "retention.ms") {
		t.Errorf("a bad value: %v, %s", err, lastLines(out, 3))
	}
}

func consoleTools(t *testing.T, n *node, at string) {
	toolWithInput(t, "k1:v1\nk2:v2\nk3:v3\n", "console-producer", "--bootstrap-server", at, "--topic", "console", "--property", "parse.key=true", "--property", "key.separator=:", "--compression-codec", "zstd")
	out := tool(t, "console-consumer", "--bootstrap-server", at, "--topic", "console", "--partition", "0", "--offset", "earliest", "--max-messages", "3", "--timeout-ms", "20000", "--property", "print.key=true", "--property", "print.offset=true")
	says(t, "console-consumer", out, `Offset:0\s+k1\s+v1`, `Offset:2\s+k3\s+v3`)
	out = tool(t, "console-consumer", "--bootstrap-server", at, "--topic", "console", "--partition", "0", "--offset", "1", "--max-messages", "1", "--timeout-ms", "20000", "--isolation-level", "read_committed")
	says(t, "console-consumer --offset 1", out, `(?m)^v2$`)
	for spec, want := range map[string]string{"earliest": "console:0:0", "latest": "console:0:3", "max-timestamp": `console:0:\d`, "earliest-local": "console:0:0", "latest-tiered": `^\s*$|console:0:`, "-1": "console:0:3", fmt.Sprint(recent - 86_400_000): "console:0:0"} {
		says(t, "get-offsets --time "+spec, tool(t, "get-offsets", "--bootstrap-server", at, "--topic", "console", "--time", spec), want)
	}
	// The tool takes its own groups only; with a group it says why it cannot.
	out, _ = runTool("", "get-offsets", "--bootstrap-server", at)
	says(t, "get-offsets of all", out, "console:0:3")
}

func perfTools(t *testing.T, n *node, at string) {
	out := tool(t, "producer-perf-test", "--topic", "perf", "--num-records", "20000", "--record-size", "500", "--throughput", "-1", "--producer-props", "bootstrap.servers="+at, "acks=all", "compression.type=lz4")
	says(t, "producer-perf-test", out, `20000 records sent`)
	out = tool(t, "verifiable-producer", "--bootstrap-server", at, "--topic", "verified", "--max-messages", "200", "--acks", "-1")
	says(t, "verifiable-producer", out, `"acked":200|"acked": ?200`)
	if strings.Contains(out, "producer_send_error") {
		t.Errorf("verifiable-producer: %s", lastLines(out, 5))
	}
	if got := len(n.read(t)["verified-0"]); got != 200 {
		t.Errorf("verifiable-producer's topic has %d records", got)
	}
	if got := len(n.read(t)["perf-0"]); got != 20000 {
		t.Errorf("producer-perf-test's topic has %d records", got)
	}
}

func describeTools(t *testing.T, n *node, at string) {
	says(t, "metadata-quorum describe --status", tool(t, "metadata-quorum", "--bootstrap-server", at, "describe", "--status"), `LeaderId:\s+1`, `LeaderEpoch:\s+\d`, `CurrentVoters:\s+\[\{"id": 1, "directoryId": "`, `MaxFollowerLag:\s+0`)
	says(t, "metadata-quorum describe --replication", tool(t, "metadata-quorum", "--bootstrap-server", at, "describe", "--replication"), `(?m)^1\s+\S+\s+\d+\s+0\s+.*Leader`)
	says(t, "metadata-quorum at the controller", tool(t, "metadata-quorum", "--bootstrap-controller", fmt.Sprintf("127.0.0.1:%d", n.ctl), "describe", "--status"), `LeaderId:\s+1`)
	says(t, "features describe", tool(t, "features", "--bootstrap-server", at, "describe"), `Feature: metadata.version\s.*FinalizedVersionLevel: 4.4-IV2`, `Feature: kraft.version\s.*FinalizedVersionLevel: 1`, `Feature: group.version\s.*FinalizedVersionLevel: 1`)
	out := tool(t, "broker-api-versions", "--bootstrap-server", at)
	says(t, "broker-api-versions", out, `id: 1 rack: null`, `Produce\(0\): 0 to 13 \[usable: 13\]`, `Fetch\(1\): 4 to 18 \[usable: 18\]`, `OffsetCommit\(8\): 2 to 10 \[usable: 10\]`, `ConsumerGroupHeartbeat\(68\): UNSUPPORTED`)
	says(t, "cluster cluster-id", tool(t, "class", "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", at), `Cluster ID: \S{22}`)
	says(t, "log-dirs", tool(t, "log-dirs", "--bootstrap-server", at, "--describe"), `"broker":1`, `"error":null`, `"logDir":"[^"]*data"`)
}

// TestKcat uses librdkafka as Debian packages it.
func TestKcat(t *testing.T) {
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is not installed: apt-get install kcat")
	}
	n := newNode(t)
	n.startMoldau(t)
	run := func(input string, args ...string) string {
		t.Helper()
		cmd := exec.Command(kcat, append([]string{"-b", n.addr(), "-m", "20"}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kcat %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		run("a:1\nb:2\nc:3\n", "-P", "-t", "cat-"+codec, "-K", ":", "-z", codec, "-H", "h=x", "-X", "enable.idempotence=true")
		out := run("", "-C", "-t", "cat-"+codec, "-o", "beginning", "-e", "-q", "-f", "%o %k=%s %h\n")
		if out != "0 a=1 h=x\n1 b=2 h=x\n2 c=3 h=x\n" {
			t.Errorf("%s: kcat reads %q", codec, out)
		}
	}
	says(t, "kcat -L", run("", "-L"), `1 brokers:`, `broker 1 at 127.0.0.1:\d+ \(controller\)`, `topic "cat-zstd" with 1 partitions`)
	says(t, "kcat -Q", run("", "-Q", "-t", "cat-none:0:-1"), `cat-none \[0\] offset 3`)
	n.stop(t)
}

// TestPython uses confluent-kafka, the newest librdkafka, and kafka-python, which
// is written in Python alone.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("makes Python environments")
	}
	for _, c := range []struct{ requirement, script string }{
		{"confluent-kafka==2.16.1", "client.py"},
		{"confluent-kafka==2.16.1", "groups_confluent.py"},
		{"kafka-python==3.0.12", "groups_kafka_python.py"},
	} {
		t.Run(c.script, func(t *testing.T) {
			python := pythonWith(t, c.requirement)
			n := newNode(t)
			n.startMoldau(t)
			if out, err := exec.Command(python, filepath.Join("testdata", c.script), n.addr()).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, lastLines(string(out), 60))
			}
			n.stop(t)
		})
	}
}

var pythonOnce sync.Mutex

// pythonWith makes a virtual environment in the user's cache, once.
func pythonWith(t *testing.T, requirement string) string {
	t.Helper()
	pythonOnce.Lock()
	defer pythonOnce.Unlock()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(cache, "moldau-interop", strings.ReplaceAll(requirement, "==", "-"))
	python := filepath.Join(venv, "bin", "python")
	name, _, _ := strings.Cut(requirement, "==")
	if exec.Command(python, "-c", "import importlib.metadata, sys; importlib.metadata.version(sys.argv[1])", name).Run() == nil {
		return python
	}
	for _, args := range [][]string{{"python3", "-m", "venv", venv}, {python, "-m", "pip", "install", "-q", requirement}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return python
}
