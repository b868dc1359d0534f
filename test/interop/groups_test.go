package interop

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestGroupTools runs Kafka's own consumers, and its tools for groups.
func TestGroupTools(t *testing.T) {
	needKafka(t)
	n := newNode(t, "group.initial.rebalance.delay.ms=0")
	n.startMoldau(t)
	createFilled(t, n, "words", 4, 400)
	chains := map[string]func(*testing.T, *node){"console": consoleGroup, "verifiable": verifiableConsumers, "tools": consumerGroupsTool, "perf": consumerPerf}
	slots := make(chan struct{}, 2)
	t.Run("chains", func(t *testing.T) {
		for name, chain := range chains {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				chain(t, n)
			})
		}
	})
	noForeignFolders(t, n.data())
	n.stop(t)
}

// createFilled makes a topic with count records, evenly spread.
func createFilled(t *testing.T, n *node, topic string, partitions int32, count int, change ...func(*kmsg.CreateTopicsRequestTopic)) {
	t.Helper()
	if r := askNode[*kmsg.CreateTopicsResponse](t, n, createTopics(createTopic(topic, partitions, 1, change...))(nil, 7), 7); r.Topics[0].ErrorCode != 0 {
		t.Fatalf("create %s: %d", topic, r.Topics[0].ErrorCode)
	}
	produceMore(t, n, topic, partitions, count)
}

func produceMore(t *testing.T, n *node, topic string, partitions int32, count int) {
	t.Helper()
	cl := n.client(t)
	for i := range count {
		cl.Produce(context.Background(), &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: fmt.Appendf(nil, "word-%d", i)}, nil)
	}
	if err := cl.Flush(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// consume runs the console consumer until it has seen count records.
func consume(t *testing.T, n *node, topic, group string, count int, more ...string) string {
	t.Helper()
	return tool(t, append([]string{"console-consumer", "--bootstrap-server", n.addr(), "--topic", topic, "--group", group, "--max-messages", fmt.Sprint(count), "--timeout-ms", "20000"}, more...)...)
}

func consoleGroup(t *testing.T, n *node) {
	says(t, "the first consumer", consume(t, n, "words", "console", 400, "--from-beginning"), "Processed a total of 400 messages", "word-399")
	produceMore(t, n, "words", 4, 8)
	out := consume(t, n, "words", "console", 8)
	says(t, "the second goes on where the first ended", out, "Processed a total of 8 messages")
	if strings.Contains(out, "word-9") {
		t.Errorf("it reads again what was committed: %s", lastLines(out, 10))
	}
	says(t, "consumer-groups", consumerGroups(t, n, "--describe", "--group", "console"), `console\s+words\s+0\s+102\s+102\s+0\s+-`, `console\s+words\s+3\s+102\s+102\s+0\s+-`)
}

func consumerGroups(t *testing.T, n *node, args ...string) string {
	t.Helper()
	return tool(t, append([]string{"consumer-groups", "--bootstrap-server", n.addr()}, args...)...)
}

func consumerPerf(t *testing.T, n *node) {
	createFilled(t, n, "perf", 2, 5000)
	out := tool(t, "consumer-perf-test", "--bootstrap-server", n.addr(), "--topic", "perf", "--num-records", "5000", "--timeout", "20000", "--hide-header")
	if f := strings.Split(lastLines(out, 1), ","); len(f) < 5 || strings.TrimSpace(f[4]) != "5000" {
		t.Errorf("consumer-perf-test: %s", lastLines(out, 5))
	}
}

// verifiableConsumers has two members share a topic; one is killed, the other
// takes over; then both are static.
func verifiableConsumers(t *testing.T, n *node) {
	createFilled(t, n, "verified", 4, 100)
	start := func(args ...string) *consumerProcess {
		return startConsumer(t, n, append([]string{"--group-id", "verifiable", "--topic", "verified", "--session-timeout", "6000", "--reset-policy", "earliest"}, args...)...)
	}
	a := start()
	a.await(t, `"name":"partitions_assigned","partitions":\[[^]]*verified[^]]*"partition":3`)
	b := start()
	b.await(t, `"name":"partitions_assigned"`)
	a.await(t, `"name":"partitions_revoked"`, `"name":"offsets_committed"[^\n]*"success":true`)
	b.kill()
	a.await(t, `(?s)"partitions_revoked".*"partitions_assigned".*"partitions_assigned"`)
	a.stop(t)
	says(t, "after they left", consumerGroups(t, n, "--describe", "--group", "verifiable"), `verifiable\s+verified\s+0\s+25\s+25\s+0`, `verifiable\s+verified\s+3\s+25\s+25\s+0`)

	s := start("--group-instance-id", "one")
	s.await(t, `"name":"partitions_assigned"`)
	says(t, "a static member", consumerGroups(t, n, "--describe", "--group", "verifiable", "--members", "--verbose"), `verifiable\s+one-\S+\s+one\s+/127.0.0.1\s+\S+\s+4`)
	s.kill()
	s = start("--group-instance-id", "one")
	s.await(t, `"name":"partitions_assigned"`)
	says(t, "it comes back within its session", consumerGroups(t, n, "--describe", "--group", "verifiable", "--state"), `Stable\s+1`)
	s.stop(t)
}

// consumerProcess is a running VerifiableConsumer.
type consumerProcess struct {
	cmd *exec.Cmd
	out *growing
}

func startConsumer(t *testing.T, n *node, args ...string) *consumerProcess {
	t.Helper()
	p := &consumerProcess{cmd: execCommand(kafkaScript, append([]string{"class", "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", n.addr()}, args...)...), out: newGrowing()}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

func (p *consumerProcess) await(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !p.out.await(regexp.MustCompile(pattern), 40*time.Second) {
			t.Fatalf("the consumer never says %s:\n%s", pattern, lastLines(p.out.String(), 30))
		}
	}
}

// stop ends the consumer as an operator does: it leaves its group.
func (p *consumerProcess) stop(t *testing.T) {
	t.Helper()
	endProcess(p.cmd)
	p.await(t, `"name":"shutdown_complete"`)
	_ = p.cmd.Wait()
}

func (p *consumerProcess) kill() {
	if p.cmd.ProcessState == nil {
		killProcess(p.cmd)
		_ = p.cmd.Wait()
	}
}

func consumerGroupsTool(t *testing.T, n *node) {
	createFilled(t, n, "managed", 2, 20)
	consume(t, n, "managed", "managed", 20, "--from-beginning")
	says(t, "--list", consumerGroups(t, n, "--list"), `(?m)^managed$`)
	says(t, "--list --state --type", consumerGroups(t, n, "--list", "--state", "--type"), `managed\s+Classic\s+Empty`)
	says(t, "--describe --all-groups", consumerGroups(t, n, "--describe", "--all-groups"), `managed\s+managed\s+1\s+10\s+10\s+0`)
	says(t, "groups --list", tool(t, "groups", "--bootstrap-server", n.addr(), "--list"), `managed\s+Classic\s+consumer`)
	says(t, "--reset-offsets", consumerGroups(t, n, "--reset-offsets", "--group", "managed", "--topic", "managed", "--to-offset", "3", "--execute"), `managed\s+managed\s+0\s+3`)
	says(t, "read again", consume(t, n, "managed", "managed", 14), "Processed a total of 14 messages")
	says(t, "--delete-offsets", consumerGroups(t, n, "--delete-offsets", "--group", "managed", "--topic", "managed:0"), `managed\s+0\s+Successful`)
	says(t, "--describe --offsets", consumerGroups(t, n, "--describe", "--group", "managed", "--offsets"), `managed\s+managed\s+1\s+10\s+10`)
	says(t, "--delete", consumerGroups(t, n, "--delete", "--group", "managed"), "was successful")
	out, err := runTool("", "consumer-groups", "--bootstrap-server", n.addr(), "--describe", "--group", "managed")
	if err == nil && !strings.Contains(out, "not found") {
		t.Errorf("a deleted group is described: %s", out)
	}
}

// Group ids whose Java hash is unusual (Trap 8): not ASCII, two UTF-16 units, and
// the one that hashes to the smallest integer.
var unusualGroups = []string{"plain", "grüppe", "\U0001d11e", "polygenelubricants"}

// TestGroupsSurviveTheSwap: what Kafka wrote of all kinds of groups is there when
// moldau takes its folder over, and still when Kafka takes it back.
func TestGroupsSurviveTheSwap(t *testing.T) {
	needKafka(t)
	n := newNode(t, "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=7", "share.coordinator.state.topic.num.partitions=1", "log.cleaner.backoff.ms=500")
	n.startKafka(t)
	createFilled(t, n, "swap", 2, 40, withConfig("retention.ms", ptr("-1")))
	createFilled(t, n, "old", 1, 40)
	for i, g := range unusualGroups {
		commitAt(t, n, g, "swap", int64(5+i))
	}
	consume(t, n, "swap", "classic", 40, "--from-beginning")
	consume(t, n, "swap", "modern", 40, "--from-beginning", "--consumer-property", "group.protocol=consumer")
	shared(t, n)
	want := committed(t, n, append([]string{"classic", "modern"}, unusualGroups...)...)
	listed := listGroups(t, n)
	n.stop(t)

	n.startMoldau(t)
	sameLines(t, "offsets after Kafka", want, committed(t, n, append([]string{"classic", "modern"}, unusualGroups...)...))
	sameLines(t, "groups after Kafka", listed, listGroups(t, n))
	produceMore(t, n, "swap", 2, 6)
	says(t, "the classic group goes on", consume(t, n, "swap", "classic", 6), "Processed a total of 6 messages")
	for i, g := range unusualGroups {
		commitAt(t, n, g, "swap", int64(15+i))
	}
	commitAt(t, n, "new", "swap", 3)
	want = committed(t, n, append([]string{"classic", "modern", "new"}, unusualGroups...)...)
	listed = listGroups(t, n)
	n.stop(t)
	noForeignFolders(t, n.data())
	dumpAll(t, n.data())

	// Trap 9: with such retention Kafka would delete the offsets if it did not know
	// that they are compacted.
	n.add(t, "log.retention.ms=1000", "log.retention.check.interval.ms=500", "log.roll.ms=1000", "log.initial.task.delay.ms=0")
	n.startKafka(t)
	sameLines(t, "offsets after moldau", want, committed(t, n, append([]string{"classic", "modern", "new"}, unusualGroups...)...))
	sameLines(t, "groups after moldau", listed, listGroups(t, n))
	says(t, "the modern group goes on", consume(t, n, "swap", "modern", 6, "--consumer-property", "group.protocol=consumer"), "Processed a total of 6 messages")
	shared(t, n)
	if earliest := n.endOffsets(t)["old-0"]; earliest.start == 0 {
		t.Errorf("retention did not run: %+v", earliest)
	}
	for _, line := range committed(t, n, append([]string{"classic", "new"}, unusualGroups...)...) {
		if !slices.Contains(want, line) {
			t.Errorf("after retention has run: %s", line)
		}
	}
	n.stop(t)
}

// shared reads with a share group, which sees what it has not acknowledged.
func shared(t *testing.T, n *node) {
	t.Helper()
	if out, err := runTool("", "console-share-consumer", "--bootstrap-server", n.addr(), "--topic", "swap", "--group", "shared", "--timeout-ms", "6000"); err != nil {
		t.Errorf("console-share-consumer: %v\n%s", err, lastLines(out, 10))
	}
}

// commitAt commits offset for both partitions of topic, as a tool does.
func commitAt(t *testing.T, n *node, group, topic string, offset int64) {
	t.Helper()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.Generation = group, -1
	one := kmsg.NewOffsetCommitRequestTopic()
	s := side{n: n}
	s.refresh(t)
	one.Topic, one.TopicID = topic, topicID(&s, topic)
	for p := range int32(2) {
		r := kmsg.NewOffsetCommitRequestTopicPartition()
		r.Partition, r.Offset, r.Metadata = p, offset, ptr("by hand")
		one.Partitions = append(one.Partitions, r)
	}
	q.Topics = []kmsg.OffsetCommitRequestTopic{one}
	ctx := within(t, 20*time.Second)
	cl := n.client(t)
	r := mustRequest[*kmsg.OffsetCommitResponse](t, ctx, cl, q)
	for _, p := range r.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			t.Fatalf("commit for %q: %d", group, p.ErrorCode)
		}
	}
}

// committed gives the offsets of groups as lines.
func committed(t *testing.T, n *node, groups ...string) (lines []string) {
	t.Helper()
	ctx, cl := within(t, 30*time.Second), n.client(t)
	for _, g := range groups {
		q := kmsg.NewPtrOffsetFetchRequest()
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group, q.Groups, q.Group = g, nil, g
		q.Groups = append(q.Groups, one)
		r := mustRequest[*kmsg.OffsetFetchResponse](t, ctx, cl, q)
		for _, group := range r.Groups {
			for _, topic := range group.Topics {
				for _, p := range topic.Partitions {
					lines = append(lines, fmt.Sprintf("%s %d: %d epoch %d %q error %d", group.Group, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, p.ErrorCode))
				}
			}
		}
	}
	return lines
}

func listGroups(t *testing.T, n *node) (lines []string) {
	t.Helper()
	r := mustRequest[*kmsg.ListGroupsResponse](t, within(t, 20*time.Second), n.client(t), kmsg.NewPtrListGroupsRequest())
	if r.ErrorCode != 0 {
		t.Fatal(r.ErrorCode)
	}
	for _, g := range r.Groups {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", g.Group, g.GroupType, g.GroupState, g.ProtocolType))
	}
	return lines
}

func sameLines(t *testing.T, what string, want, got []string) {
	t.Helper()
	sortLines(want)
	sortLines(got)
	if w, g := strings.Join(want, "\n"), strings.Join(got, "\n"); w != g {
		t.Errorf("%s: want\n%s\ngot\n%s", what, w, g)
	}
}
