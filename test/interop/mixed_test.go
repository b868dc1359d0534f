package interop

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// mixed are three combined nodes of one quorum: 1 and 2 are moldau, 3 is Apache
// Kafka.
type mixed struct {
	nodes map[int]*node
}

// newMixed formats them, each with its own program. kraft is the kraft.version:
// 0 with controller.quorum.voters, 1 with --initial-controllers. While only
// moldau's node 2 is up beside it, Apache Kafka's node stands first: node 2
// waits for ten seconds. Node 1 does not, so that two moldau nodes do not split
// the vote for long.
func newMixed(t *testing.T, kraft int) *mixed {
	needKafka(t)
	m := &mixed{nodes: map[int]*node{}}
	var initial, named, servers []string
	for id := 1; id <= 3; id++ {
		n := newNode(t, fmt.Sprint("node.id=", id), "moldau.controller.quorum.fast.failover=false",
			fmt.Sprint("controller.quorum.election.timeout.ms=", map[int]int{1: 1000, 2: 10_000, 3: 1000}[id]))
		n.foreign = true // formatted below
		m.nodes[id] = n
		at := fmt.Sprintf("127.0.0.1:%d", n.ctl)
		servers, named = append(servers, at), append(named, fmt.Sprintf("%d@%s", id, at))
		initial = append(initial, fmt.Sprintf("%d@%s:AAAAAAAAAAAAAAAAAAAA%dA", id, at, id))
	}
	for id, n := range m.nodes {
		args := []string{"storage", "format", "-c", n.properties(), "-t", clusterID}
		if kraft == 0 {
			n.add(t, "controller.quorum.bootstrap.servers=", "controller.quorum.voters="+strings.Join(named, ","))
		} else {
			n.add(t, "controller.quorum.bootstrap.servers="+strings.Join(servers, ","))
			args = append(args, "--initial-controllers", strings.Join(initial, ","))
		}
		if id == 3 {
			tool(t, args...)
		} else if out, err := exec.Command(moldauBinary, args...).CombinedOutput(); err != nil {
			t.Fatalf("format: %v\n%s", err, out)
		}
	}
	return m
}

// launch starts a node without waiting: it serves only with a leader.
func (m *mixed) launch(t *testing.T, id int) {
	n := m.nodes[id]
	if id == 3 {
		n.launch(t, "kafka", exec.Command(kafkaScript, "exec", n.dir))
	} else {
		n.launch(t, "moldau", exec.Command(moldauBinary, "server", "--config", n.properties()))
	}
}

// leader waits until a node that runs leads, in an epoch beyond after, and all
// that run have what it has committed.
func (m *mixed) leader(t *testing.T, after int32, running ...int) (id int, epoch int32) {
	t.Helper()
	last := ""
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		for _, id := range running {
			p := m.describe(m.nodes[id])
			if p == nil || p.LeaderEpoch <= after || p.HighWatermark < 1 {
				continue
			}
			behind := len(running)
			for _, v := range p.CurrentVoters {
				for _, r := range running {
					if int(v.ReplicaID) == r && v.LogEndOffset >= p.HighWatermark {
						behind--
					}
				}
			}
			if last = fmt.Sprintf("%+v", p); behind == 0 {
				return id, p.LeaderEpoch
			}
		}
	}
	t.Fatalf("nobody leads, or not all follow: %s", last)
	return 0, 0
}

// describe asks a controller for the quorum; nil if it does not lead.
func (m *mixed) describe(n *node) *kmsg.DescribeQuorumResponseTopicPartition {
	c, err := dialRaw(fmt.Sprintf("127.0.0.1:%d", n.ctl))
	if err != nil {
		return nil
	}
	defer c.Close()
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req.Topics = append(req.Topics, topic)
	req.SetVersion(2)
	resp, err := c.ask(req)
	if err != nil {
		return nil
	}
	if p := &resp.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0]; p.ErrorCode == 0 {
		return p
	}
	return nil
}

// create makes a topic through a node's client listener, which passes it on to
// whoever leads.
func (m *mixed) create(t *testing.T, id int, name string) {
	t.Helper()
	m.nodes[id].await(t)
	r := askNode[*kmsg.CreateTopicsResponse](t, m.nodes[id], createTopics(createTopic(name, 1, 1))(nil, 7), 7)
	if r.Topics[0].ErrorCode != 0 {
		t.Fatalf("create %s through node %d: %d", name, id, r.Topics[0].ErrorCode)
	}
}

func (m *mixed) sees(t *testing.T, id int, name string) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		for _, topic := range askNode[*kmsg.MetadataResponse](t, m.nodes[id], req, 9).Topics {
			if *topic.Topic == name {
				return
			}
		}
	}
	t.Fatalf("node %d never sees topic %s", id, name)
}

// One quorum of both servers, with both kinds of voter sets: Apache Kafka leads
// and moldau follows; it dies and moldau leads; it comes back and follows; moldau
// stops in peace. Topics made through any broker are seen by all. It fails if one
// message between replicas is not as Kafka's.
func TestMixedQuorum(t *testing.T) {
	for kraft := range 2 {
		t.Run(fmt.Sprintf("kraft.version=%d", kraft), func(t *testing.T) {
			m := newMixed(t, kraft)
			m.launch(t, 3)
			m.launch(t, 2)
			led, epoch := m.leader(t, -1, 2, 3)
			if led != 3 {
				t.Fatalf("node %d leads, though it waits for ten seconds", led)
			}
			m.launch(t, 1)
			m.leader(t, epoch-1, 1, 2, 3)
			m.create(t, 1, "under-kafka")
			for id := range m.nodes {
				m.nodes[id].await(t)
				m.sees(t, id, "under-kafka")
			}
			m.nodes[3].kill(t)
			_, epoch = m.leader(t, epoch, 1, 2)
			m.create(t, 2, "under-moldau")
			m.launch(t, 3)
			led, epoch = m.leader(t, epoch-1, 1, 2, 3)
			m.nodes[3].await(t)
			m.sees(t, 3, "under-moldau")
			m.create(t, 3, "through-kafka")
			m.sees(t, 1, "through-kafka")
			m.nodes[led].stop(t) // it is 1 or 2: node 3 came back as a follower
			m.leader(t, epoch, 3, 3-led)
			// Without a majority Apache Kafka's broker would try to say goodbye
			// for minutes.
			m.nodes[3].kill(t)
			m.nodes[3-led].stop(t)
		})
	}
}

// Kafka's tool makes two controllers of one, and one of two again; the leader
// stays, though nobody had to fetch from it before. It fails if the time for a
// majority to fetch does not begin when the second voter comes.
func TestKafkasToolGrowsAQuorumOfOne(t *testing.T) {
	needKafka(t)
	n := newNode(t)
	n.startMoldau(t)
	second := newNode(t, "node.id=2", fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", n.ctl))
	if out, err := exec.Command(moldauBinary, "storage", "format", "-c", second.properties(), "-t", clusterOf(t, n), "--no-initial-controllers").CombinedOutput(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	second.startMoldau(t)
	controllers := []string{"metadata-quorum", "--bootstrap-controller", fmt.Sprintf("127.0.0.1:%d", n.ctl)}
	status := func(who []string) string { return tool(t, append(who, "describe", "--replication")...) }
	if out := status(controllers); !strings.Contains(out, "Leader") || !strings.Contains(out, "Observer") {
		t.Errorf("%s", out)
	}
	if out := status([]string{"metadata-quorum", "--bootstrap-server", second.addr()}); !strings.Contains(out, "Observer") {
		t.Errorf("%s", out)
	}
	tool(t, append(controllers, "--command-config", second.properties(), "add-controller")...)
	if out := status(controllers); !strings.Contains(out, "Follower") {
		t.Errorf("%s", out)
	}
	dir := ""
	for _, line := range strings.Split(tool(t, append(controllers, "describe", "--replication")...), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "2" {
			dir = f[1]
		}
	}
	tool(t, append(controllers, "remove-controller", "--controller-id", "2", "--controller-directory-id", dir)...)
	if out := status(controllers); strings.Contains(out, "Follower") {
		t.Errorf("%s", out)
	}
	second.stop(t)
	n.stop(t)
}

// clusterOf gives the id of a node's cluster.
func clusterOf(t *testing.T, n *node) string {
	return *askNode[*kmsg.MetadataResponse](t, n, kmsg.NewPtrMetadataRequest(), 9).ClusterID
}
