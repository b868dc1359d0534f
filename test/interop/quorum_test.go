package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// voters are controllers that form a quorum of kraft.version 1 together.
type voters struct {
	nodes []*node
	dirs  []string // directory ids
}

func (v *voters) initial() string {
	var list []string
	for i, n := range v.nodes {
		list = append(list, fmt.Sprintf("%d@127.0.0.1:%d:%s", i+1, n.ctl, v.dirs[i]))
	}
	return strings.Join(list, ",")
}

func (v *voters) bootstrap() string {
	var list []string
	for _, n := range v.nodes {
		list = append(list, fmt.Sprintf("127.0.0.1:%d", n.ctl))
	}
	return strings.Join(list, ",")
}

// newVoters writes the properties of n controllers, ids from 1 on.
func newVoters(t testing.TB, n int, extra ...string) *voters {
	v := &voters{}
	for i := range n {
		v.nodes = append(v.nodes, newNode(t, append([]string{"process.roles=controller", fmt.Sprintf("node.id=%d", i+1)}, extra...)...))
		v.dirs = append(v.dirs, fmt.Sprintf("AAAAAAAAAAAAAAAAAAAA%dA", i+1))
	}
	for _, n := range v.nodes {
		n.controllerOnly(t)
		n.add(t, "controller.quorum.bootstrap.servers="+v.bootstrap())
	}
	return v
}

// controllerOnly drops the client listener.
func (n *node) controllerOnly(t testing.TB) {
	n.foreign = true
	n.add(t, fmt.Sprintf("listeners=CONTROLLER://127.0.0.1:%d", n.ctl))
}

// brokerOf writes the properties of a broker under the voters.
func (v *voters) brokerOf(t testing.TB, id int, extra ...string) *node {
	n := newNode(t, append([]string{"process.roles=broker", fmt.Sprintf("node.id=%d", id)}, extra...)...)
	n.foreign = true
	n.add(t, fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", n.port), "controller.quorum.bootstrap.servers="+v.bootstrap())
	return n
}

func moldauDo(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command(moldauBinary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("moldau %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// formatMoldau and formatKafka format a node for the quorum, as a voter or not.
func (n *node) formatMoldau(t testing.TB, flags ...string) {
	moldauDo(t, append([]string{"storage", "format", "-c", n.properties(), "-t", clusterID}, flags...)...)
}

func (n *node) formatKafka(t testing.TB, flags ...string) {
	tool(t, append([]string{"storage", "format", "-c", n.properties(), "-t", clusterID}, flags...)...)
}

// run starts the server without waiting for it.
func (n *node) run(t testing.TB, kafka bool) {
	if !kafka {
		n.launch(t, "moldau", exec.Command(moldauBinary, "server", "--config", n.properties()))
		return
	}
	cmd := exec.Command(kafkaScript, "exec", n.dir)
	cmd.Env = append(os.Environ(), "KAFKA_HEAP=384m")
	n.launch(t, "kafka", cmd)
}

// eventually tries until f succeeds.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// describe asks a broker about the quorum.
func describeQuorum(t testing.TB, n *node) (kmsg.DescribeQuorumResponseTopicPartition, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic, p := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	req.SetVersion(2)
	c, err := dialRaw(n.addr())
	if err != nil {
		return kmsg.DescribeQuorumResponseTopicPartition{}, err
	}
	defer c.Close()
	resp, err := c.ask(req)
	if err != nil {
		return kmsg.DescribeQuorumResponseTopicPartition{}, err
	}
	r := resp.(*kmsg.DescribeQuorumResponse)
	if r.ErrorCode != 0 || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
		return kmsg.DescribeQuorumResponseTopicPartition{}, fmt.Errorf("%+v", r)
	}
	return r.Topics[0].Partitions[0], nil
}

// roundTrip creates a topic through the node, and writes and reads a record.
func roundTrip(t testing.TB, n *node, topic string) {
	t.Helper()
	eventually(t, "create "+topic, func() error {
		c, err := dialRaw(n.addr())
		if err != nil {
			return err
		}
		defer c.Close()
		req := createTopics(createTopic(topic, 1, 1))(nil, 7)
		req.SetVersion(7)
		resp, err := c.ask(req)
		if err != nil {
			return err
		}
		if code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 && code != 36 {
			return fmt.Errorf("code %d", code)
		}
		return nil
	})
	eventually(t, "produce and consume "+topic, func() error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(n.addr()), kgo.ConsumeTopics(topic), kgo.RetryTimeout(10*time.Second), kgo.RecordDeliveryTimeout(20*time.Second))
		if err != nil {
			return err
		}
		defer cl.Close()
		if err := cl.ProduceSync(within(t, 30*time.Second), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
			return err
		}
		fetches := cl.PollFetches(within(t, 30*time.Second))
		if fetches.NumRecords() == 0 {
			return fmt.Errorf("nothing came back: %v", fetches.Errors())
		}
		return nil
	})
}

// Apache Kafka's tools describe and change a quorum of three moldau controllers
// and a moldau broker, and decode what they wrote.
func TestKafkasToolsOnAQuorum(t *testing.T) {
	needKafka(t)
	v := newVoters(t, 3)
	for _, n := range v.nodes {
		n.formatMoldau(t, "--initial-controllers", v.initial())
		n.run(t, false)
	}
	b := v.brokerOf(t, 4)
	b.formatMoldau(t)
	b.startMoldau(t)
	roundTrip(t, b, "first")
	at, ctl := []string{"--bootstrap-server", b.addr()}, []string{"--bootstrap-controller", v.bootstrap()}
	for _, where := range [][]string{at, ctl} {
		says(t, "metadata-quorum --status", tool(t, append(append([]string{"metadata-quorum"}, where...), "describe", "--status")...),
			`LeaderId:\s+[123]`, `LeaderEpoch:\s+\d`, `HighWatermark:\s+\d+`, `MaxFollowerLag:\s+\d+`, `CurrentVoters:.*"id": 1.*"id": 2.*"id": 3`, `CurrentObservers:.*"id": 4`)
		says(t, "metadata-quorum --replication", tool(t, append(append([]string{"metadata-quorum"}, where...), "describe", "--replication")...), `Leader`, `Follower`, `Observer`)
		says(t, "features describe", tool(t, append(append([]string{"features"}, where...), "describe")...), `metadata.version.*FinalizedVersionLevel: 4\.4-IV`, `kraft.version.*FinalizedVersionLevel: 1`)
	}
	says(t, "cluster-id", tool(t, append([]string{"cluster-tool", "cluster-id"}, at...)...), "Cluster ID: "+clusterID)
	says(t, "list-endpoints", tool(t, append([]string{"cluster-tool", "list-endpoints"}, ctl...)...), `1\s+127\.0\.0\.1`, `3\s+127\.0\.0\.1`)
	says(t, "features downgrade", tool(t, append(append([]string{"features"}, at...), "downgrade", "--feature", "share.version=1")...), "share.version was downgraded to 1")
	says(t, "features upgrade", tool(t, append(append([]string{"features"}, ctl...), "upgrade", "--feature", "share.version=2")...), "share.version was upgraded to 2")
	q, err := describeQuorum(t, b)
	if err != nil {
		t.Fatal(err)
	}
	gone := int(q.LeaderID) // the active one removes itself
	says(t, "remove-controller", tool(t, append(append([]string{"metadata-quorum"}, at...), "remove-controller", "--controller-id", fmt.Sprint(gone), "--controller-directory-id", v.dirs[gone-1])...), "Removed KRaft controller")
	eventually(t, "two voters, and the removed one follows", func() error {
		if q, err = describeQuorum(t, b); err != nil || len(q.CurrentVoters) != 2 {
			return fmt.Errorf("%+v %v", q, err)
		}
		for _, o := range q.Observers {
			if int(o.ReplicaID) == gone && o.LastCaughtUpTimestamp > 0 {
				return nil
			}
		}
		return fmt.Errorf("node %d is not among the observers %+v", gone, q.Observers)
	})
	says(t, "add-controller", tool(t, append([]string{"metadata-quorum", "--command-config", v.nodes[gone-1].properties()}, append(at, "add-controller")...)...), "Added controller")
	eventually(t, "three voters", func() error {
		if q, err = describeQuorum(t, b); err != nil || len(q.CurrentVoters) != 3 {
			return fmt.Errorf("%+v %v", q, err)
		}
		return nil
	})
	roundTrip(t, b, "second")
	for _, n := range append(v.nodes, b) {
		n.stop(t)
		logs, _ := filepath.Glob(filepath.Join(n.data(), "__cluster_metadata-0", "*.log"))
		says(t, "dump-log", tool(t, "dump-log", "--cluster-metadata-decoder", "--files", strings.Join(logs, ",")), `"type":"TOPIC_RECORD".*"first"`, "LeaderChange", "KRaftVoters")
	}
}

// An Apache Kafka broker follows a quorum of moldau controllers: it registers,
// serves topics, and survives that the active controller is killed.
func TestKafkaBrokerUnderMoldauControllers(t *testing.T) {
	needKafka(t)
	v := newVoters(t, 3)
	for _, n := range v.nodes {
		n.formatMoldau(t, "--initial-controllers", v.initial())
		n.run(t, false)
	}
	b := v.brokerOf(t, 4)
	b.formatKafka(t)
	b.run(t, true)
	b.await(t)
	roundTrip(t, b, "first")
	q, err := describeQuorum(t, b)
	if err != nil {
		t.Fatal(err)
	}
	leader := v.nodes[q.LeaderID-1]
	leader.kill(t)
	roundTrip(t, b, "second")
	leader.run(t, false)
	says(t, "topics --describe", tool(t, "topics", "--bootstrap-server", b.addr(), "--describe"), "first", "second", "Leader: 4")
	b.stop(t)
	for _, n := range v.nodes {
		n.stop(t)
	}
}

// A moldau broker follows a quorum of Apache Kafka controllers.
func TestMoldauBrokerUnderKafkaControllers(t *testing.T) {
	needKafka(t)
	v := newVoters(t, 3)
	for _, n := range v.nodes {
		n.formatKafka(t, "--initial-controllers", v.initial())
		n.run(t, true)
	}
	b := v.brokerOf(t, 4)
	b.formatMoldau(t)
	b.startMoldau(t)
	roundTrip(t, b, "first")
	q, err := describeQuorum(t, b)
	if err != nil {
		t.Fatal(err)
	}
	leader := v.nodes[q.LeaderID-1]
	leader.kill(t)
	roundTrip(t, b, "second")
	says(t, "topics --describe", tool(t, "topics", "--bootstrap-server", b.addr(), "--describe"), "first", "second", "Leader: 4")
	b.stop(t)
	for _, n := range v.nodes {
		if n != leader {
			n.stop(t)
		}
	}
}

// Controllers of both kinds form one quorum. Whichever leads, the other kind
// follows, and what was written before is there after.
func TestOneQuorumOfBothKinds(t *testing.T) {
	needKafka(t)
	v := newVoters(t, 3, "moldau.controller.quorum.fast.failover=false")
	for i, n := range v.nodes {
		if i == 0 {
			n.formatKafka(t, "--initial-controllers", v.initial())
		} else {
			n.formatMoldau(t, "--initial-controllers", v.initial())
		}
		n.run(t, i == 0)
	}
	b := v.brokerOf(t, 4)
	b.formatMoldau(t)
	b.startMoldau(t)
	roundTrip(t, b, "first")
	for _, to := range []string{"1", "2", "1", "3"} {
		eventually(t, "handover to "+to, func() error {
			q, err := describeQuorum(t, b)
			if err != nil {
				return err
			}
			if fmt.Sprint(q.LeaderID) == to {
				return nil
			}
			out, err := exec.Command(moldauBinary, "quorum", "handover", "--bootstrap-server", b.addr(), "--to", to).CombinedOutput()
			return fmt.Errorf("node %d leads; %s %v", q.LeaderID, out, err)
		})
		roundTrip(t, b, "led-by-"+to)
	}
	// A moldau leader dies; the two kinds elect.
	v.nodes[2].proc.cmd.Process.Signal(syscall.SIGKILL)
	<-v.nodes[2].proc.ended
	v.nodes[2].finish(t)
	roundTrip(t, b, "after")
	says(t, "topics --list", tool(t, "topics", "--bootstrap-server", b.addr(), "--list"), "after", "first", "led-by-1", "led-by-3")
	b.stop(t)
	v.nodes[0].stop(t)
	v.nodes[1].stop(t)
}

// The controllers of an Apache Kafka cluster are exchanged for moldau ones on
// their own folders, one by one, and back again, while an Apache Kafka broker
// serves. Nothing of the metadata is lost on the way.
func TestControllersAreSwappedOneByOne(t *testing.T) {
	needKafka(t)
	v := newVoters(t, 3, "moldau.controller.quorum.fast.failover=false", "metadata.log.max.record.bytes.between.snapshots=5000")
	for _, n := range v.nodes {
		n.formatKafka(t, "--initial-controllers", v.initial())
		n.run(t, true)
	}
	b := v.brokerOf(t, 4)
	b.formatKafka(t)
	b.run(t, true)
	b.await(t)
	var made []string
	make := func(name string) {
		roundTrip(t, b, name)
		made = append(made, name)
	}
	make("with-kafka")
	for _, kafka := range []bool{false, true} {
		for i, n := range v.nodes {
			n.stop(t)
			n.run(t, kafka)
			eventually(t, "the exchanged controller follows", func() error { return follows(t, b, i+1) })
			make(fmt.Sprintf("swapped-%d-kafka-%v", i+1, kafka))
		}
	}
	says(t, "topics --list", tool(t, "topics", "--bootstrap-server", b.addr(), "--list"), made...)
	b.stop(t)
	for _, n := range v.nodes {
		n.stop(t)
	}
}

// follows tells whether a voter has fetched lately and is close to the end.
func follows(t testing.TB, b *node, id int) error {
	q, err := describeQuorum(t, b)
	if err != nil {
		return err
	}
	for _, r := range q.CurrentVoters {
		lately := time.Since(time.UnixMilli(r.LastFetchTimestamp)) < 2*time.Second
		if int(r.ReplicaID) == id && lately && r.LogEndOffset+10 >= q.HighWatermark {
			return nil
		}
	}
	return fmt.Errorf("%+v", q)
}
