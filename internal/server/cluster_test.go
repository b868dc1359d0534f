package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

// addNode formats another node with roles of its own.
func (c *three) addNode(id kafka.NodeID, sets map[string]string) {
	c.t.Helper()
	props := map[string]string{}
	for k, v := range c.conf[1] {
		props[k] = v
	}
	props["node.id"], props["log.dirs"] = fmt.Sprint(id), c.t.TempDir()
	for k, v := range sets {
		props[k] = v
	}
	c.conf[id] = props
	must(c.t, server.Format(server.FormatOptions{
		FS: vfs.OS{}, Config: c.config(id), ClusterID: "b2Zfb3VyX3RocmVlX25vZA", KRaft: 1, Now: time.Now(),
	}))
}

func (c *three) ready(ids ...kafka.NodeID) {
	c.t.Helper()
	for _, id := range ids {
		select {
		case <-c.nodes[id].Ready():
		case err := <-c.nodes[id].Failed():
			c.t.Fatalf("node %d: %v", id, err)
		case <-time.After(patience):
			c.t.Fatalf("node %d is not ready", id)
		}
	}
}

// inService waits until a node sees exactly these brokers unfenced.
func (c *three) inService(at kafka.NodeID, ids ...kafka.NodeID) {
	c.t.Helper()
	want := map[kafka.NodeID]bool{}
	for _, id := range ids {
		want[id] = true
	}
	c.until(at, fmt.Sprintf("brokers %v in service", ids), func(s *server.Server) bool {
		n, same := 0, true
		s.Image().EachBroker(func(b *metadata.Broker) bool {
			if !b.Fenced {
				n++
				same = same && want[b.ID]
			}
			return true
		})
		return same && n == len(want)
	})
}

// make creates a topic through the client listener of a node.
func (c *three) make(at kafka.NodeID, name string, rf int16) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 4, rf
	req.TimeoutMillis, req.Topics = 20_000, append(req.Topics, topic)
	cl := dialTo(c.t, c.nodes[at].Address("PLAINTEXT").String())
	if code := kafka.ErrorCode(call[*kmsg.CreateTopicsResponse](cl, req, 7).Topics[0].ErrorCode); code != 0 {
		c.t.Fatalf("create %s at node %d: %s", name, at, code)
	}
}

// Three combined nodes and a broker alone. Any broker takes what is for the
// controller; a dead controller or broker is noticed at once, though sessions
// last an hour; nobody else is fenced (HC-047). Fails if requests are not
// forwarded, or not again after a failover; if the end of a broker's connection
// is not noticed; if brokers do not find the next controller.
func TestClusterOfRoles(t *testing.T) {
	c := newThree(t, false, "broker.session.timeout.ms=3600000", "broker.heartbeat.interval.ms=500")
	c.addNode(4, map[string]string{
		"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0", "broker.rack": "r4",
		"advertised.listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", server.FreePort(t)),
	})
	for id := range c.conf {
		c.up(id)
	}
	c.ready(1, 2, 3, 4)
	leader, resp := c.leader(-1)
	c.inService(4, 1, 2, 3, 4)
	for id := range c.nodes {
		c.make(id, fmt.Sprint("at-", id), 3)
		c.until(id, "the topic, once it was answered", func(s *server.Server) bool { return s.Image().TopicByName(fmt.Sprint("at-", id)).Exists() })
	}
	c.until(4, "registrations of all controllers", func(s *server.Server) bool {
		n := 0
		for id := kafka.NodeID(1); id <= 3; id++ {
			if s.Image().Controller(id) != nil {
				n++
			}
		}
		return n == 3 && s.Image().Controller(4) == nil
	})
	c.checkMetadata(4, 1, 2, 3, 4)

	began := time.Now()
	c.kill(leader)
	var others []kafka.NodeID
	for id := kafka.NodeID(1); id <= 4; id++ {
		if id != leader {
			others = append(others, id)
		}
	}
	c.make(4, "after-failover", 1) // forwarded again, by the same connection as before
	t.Logf("a topic was made through a broker %s after the controller died", time.Since(began))
	second, _ := c.leader(kafka.Epoch(resp.Topics[0].Partitions[0].LeaderEpoch))
	c.inService(4, others...)
	t.Logf("its broker was fenced %s after it died", time.Since(began))
	c.checkMetadata(4, others...)

	began = time.Now()
	c.kill(4)
	alive := others[:2]
	c.inService(second, alive...)
	t.Logf("a broker was fenced %s after it died", time.Since(began))
	began = time.Now()
	c.up(4)
	c.ready(4)
	c.inService(second, others...)
	t.Logf("it was back in service %s after its start", time.Since(began))
	c.up(leader)
	c.ready(leader)
	c.inService(4, 1, 2, 3, 4)
	c.make(4, "at-last", 2)
}

// checkMetadata asks a node as a client does: the brokers in service, one of
// them as the controller, and the quorum as its leader describes it.
func (c *three) checkMetadata(at kafka.NodeID, brokers ...kafka.NodeID) {
	c.t.Helper()
	cl := dialTo(c.t, c.nodes[at].Address("PLAINTEXT").String())
	m := call[*kmsg.MetadataResponse](cl, kmsg.NewPtrMetadataRequest(), 12)
	d := call[*kmsg.DescribeClusterResponse](cl, kmsg.NewPtrDescribeClusterRequest(), 1)
	ids := map[int32]bool{}
	for _, id := range brokers {
		ids[int32(id)] = true
	}
	for _, b := range m.Brokers {
		if !ids[b.NodeID] || (b.Rack != nil) != (b.NodeID == 4) {
			c.t.Errorf("broker %+v", b)
		}
	}
	if len(m.Brokers) != len(brokers) || len(d.Brokers) != len(brokers) || !ids[m.ControllerID] || !ids[d.ControllerID] {
		c.t.Errorf("%d and %d brokers, controllers %d and %d, want %v", len(m.Brokers), len(d.Brokers), m.ControllerID, d.ControllerID, brokers)
	}
	q := call[*kmsg.DescribeQuorumResponse](cl, quorumRequest(), 2)
	if p := q.Topics[0].Partitions[0]; q.ErrorCode != 0 || p.ErrorCode != 0 || len(p.CurrentVoters) != 3 {
		c.t.Errorf("%+v", q)
	}
}

// A controller alone serves no clients; a broker alone needs one. Both stop in
// order.
func TestSeparateRoles(t *testing.T) {
	c := &three{t: t, conf: map[kafka.NodeID]map[string]string{}, nodes: map[kafka.NodeID]*server.Server{}, logs: map[kafka.NodeID]*logBuffer{}}
	port := server.FreePort(t)
	common := map[string]string{"controller.listener.names": "CONTROLLER", "controller.quorum.bootstrap.servers": fmt.Sprintf("localhost:%d", port)}
	c.conf[1] = common
	voter := raft.Voter{
		Key:       raft.ReplicaKey{ID: 9, Dir: kafka.DirectoryID(server.NewUUID())},
		Endpoints: []kafka.Endpoint{{Name: "CONTROLLER", Host: "localhost", Port: uint16(port)}}, MaxKRaft: 1,
	}
	set, err := raft.NewVoterSet(voter)
	must(t, err)
	c.conf[9] = map[string]string{"process.roles": "controller", "node.id": "9", "listeners": fmt.Sprintf("CONTROLLER://localhost:%d", port), "log.dirs": t.TempDir()}
	for k, v := range common {
		c.conf[9][k] = v
	}
	records, err := server.ClusterFeatures("", nil)
	must(t, err)
	must(t, server.Format(server.FormatOptions{FS: vfs.OS{}, Config: c.config(9), ClusterID: "b2Zfb3VyX3RocmVlX25vZA", Initial: set, Records: records, Now: time.Now()}))
	c.addNode(8, map[string]string{"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0"})
	t.Cleanup(func() {
		for _, id := range []kafka.NodeID{8, 9} {
			if c.nodes[id] != nil {
				c.stop(id)
			}
		}
	})
	c.up(8) // the controller comes later
	c.up(9)
	c.ready(9, 8)
	if c.nodes[9].Address("PLAINTEXT") != nil || c.nodes[8].Address("CONTROLLER") != nil {
		t.Error("a listener that is not the role's")
	}
	c.make(8, "t", 1)
	cl := dialTo(t, c.nodes[8].Address("PLAINTEXT").String())
	id := kmsg.NewPtrInitProducerIDRequest()
	if r := call[*kmsg.InitProducerIDResponse](cl, id, 4); r.ErrorCode != 0 {
		t.Errorf("no producer id: %s", kafka.ErrorCode(r.ErrorCode))
	}
	c.stop(8)
	c.until(9, "the broker that stopped is fenced", func(s *server.Server) bool { return s.Image().Broker(8).Fenced })
}
