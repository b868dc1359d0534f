package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

// three are combined nodes 1 to 3 of one cluster in this process, over loopback.
type three struct {
	t     testing.TB
	conf  map[kafka.NodeID]map[string]string
	nodes map[kafka.NodeID]*server.Server
	logs  map[kafka.NodeID]*logBuffer
}

// newThree formats three nodes: with controller.quorum.voters, or with the
// voters in the log.
func newThree(t testing.TB, static bool, sets ...string) *three {
	c := &three{t: t, conf: map[kafka.NodeID]map[string]string{}, nodes: map[kafka.NodeID]*server.Server{}, logs: map[kafka.NodeID]*logBuffer{}}
	var named, servers []string
	var voters []raft.Voter
	ports := map[kafka.NodeID]int{}
	for id := kafka.NodeID(1); id <= 3; id++ {
		ports[id] = server.FreePort(t)
		address := fmt.Sprintf("localhost:%d", ports[id]) // a name, to be resolved
		servers, named = append(servers, address), append(named, fmt.Sprintf("%d@%s", id, address))
		voters = append(voters, raft.Voter{
			Key:       raft.ReplicaKey{ID: id, Dir: kafka.DirectoryID(server.NewUUID())},
			Endpoints: []kafka.Endpoint{{Name: "CONTROLLER", Host: "localhost", Port: uint16(ports[id])}}, MaxKRaft: 1,
		})
	}
	set, err := raft.NewVoterSet(voters...)
	must(t, err)
	for id, port := range ports {
		props := map[string]string{
			"process.roles": "broker,controller", "node.id": fmt.Sprint(id), "controller.listener.names": "CONTROLLER",
			"listeners":            fmt.Sprintf("PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:%d", port),
			"advertised.listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://localhost:%d", server.FreePort(t), port),
			"log.dirs":             t.TempDir(), "controller.quorum.election.timeout.ms": "300",
			// Far beyond what the tests wait: whoever notices a dead leader in
			// time has noticed the connection.
			"controller.quorum.fetch.timeout.ms": "60000",
		}
		if static {
			props["controller.quorum.voters"] = strings.Join(named, ",")
		} else {
			props["controller.quorum.bootstrap.servers"] = strings.Join(servers, ",")
		}
		for _, kv := range sets {
			k, v, _ := strings.Cut(kv, "=")
			props[k] = v
		}
		c.conf[id] = props
		o := server.FormatOptions{FS: vfs.OS{}, Config: c.config(id), ClusterID: "b2Zfb3VyX3RocmVlX25vZA", Now: time.Now()}
		if !static {
			o.Initial = set
		}
		o.Records, err = server.ClusterFeatures("", nil)
		must(t, err)
		must(t, server.Format(o))
	}
	t.Cleanup(func() {
		for id := range c.nodes {
			c.stop(id)
		}
		if t.Failed() {
			for id, l := range c.logs {
				t.Logf("node %d:\n%s", id, l)
			}
		}
	})
	return c
}

func (c *three) config(id kafka.NodeID) *config.Server {
	conf, err := config.NewServer(c.conf[id])
	must(c.t, err)
	return conf
}

func (c *three) up(id kafka.NodeID) {
	c.t.Helper()
	c.logs[id] = &logBuffer{}
	s, err := server.Start(server.Options{Config: c.config(id), FS: vfs.OS{}, Log: slog.New(slog.NewTextHandler(c.logs[id], nil))})
	must(c.t, err)
	c.nodes[id] = s
}

func (c *three) stop(id kafka.NodeID) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := c.nodes[id]
	delete(c.nodes, id)
	if err := s.Stop(ctx); err != nil {
		c.t.Errorf("stop node %d: %v", id, err)
	}
}

// kill ends a node without a word to the others.
func (c *three) kill(id kafka.NodeID) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := c.nodes[id]
	delete(c.nodes, id)
	must(c.t, s.Kill(ctx))
}

func quorumRequest() *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = kafka.ClusterMetadataTopic
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	return req
}

// control dials a node's controller listener.
func (c *three) control(id kafka.NodeID) *client {
	c.t.Helper()
	return dialTo(c.t, c.nodes[id].Address("CONTROLLER").String())
}

// leader waits until one of the nodes that are up leads, in an epoch beyond
// after.
func (c *three) leader(after kafka.Epoch) (kafka.NodeID, *kmsg.DescribeQuorumResponse) {
	c.t.Helper()
	var clients []*client
	ids := map[*client]kafka.NodeID{}
	for id := range c.nodes {
		if c.nodes[id].Address("CONTROLLER") == nil {
			continue // a broker
		}
		cl := c.control(id)
		clients, ids[cl] = append(clients, cl), id
	}
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(time.Millisecond) {
		for _, cl := range clients {
			resp := call[*kmsg.DescribeQuorumResponse](cl, quorumRequest(), 2)
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode == int16(kafka.ErrNotLeaderForPartition) {
				continue
			}
			wantCode(c.t, "DescribeQuorum", p.ErrorCode, 0)
			if p.LeaderID != int32(ids[cl]) {
				c.t.Fatalf("node %d answers that %d leads", ids[cl], p.LeaderID)
			}
			if kafka.Epoch(p.LeaderEpoch) > after && p.HighWatermark > 0 {
				return ids[cl], resp
			}
		}
	}
	c.t.Fatal("nobody leads")
	return 0, nil
}

// create makes a topic through the controller listener of a node that leads, as
// soon as it takes requests.
func (c *three) create(id kafka.NodeID, name string) {
	c.t.Helper()
	cl := c.control(id)
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, topic)
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(time.Millisecond) {
		switch code := kafka.ErrorCode(call[*kmsg.CreateTopicsResponse](cl, req, 7).Topics[0].ErrorCode); code {
		case kafka.NoError:
			return
		case kafka.ErrNotController:
		default:
			c.t.Fatalf("create %s: %s", name, code)
		}
	}
	c.t.Fatalf("node %d is never active", id)
}

// until waits for an image that satisfies ok at a node.
func (c *three) until(id kafka.NodeID, what string, ok func(*server.Server) bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !ok(c.nodes[id]); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("node %d: %s never comes", id, what)
		}
	}
}

func (c *three) hasTopic(id kafka.NodeID, name string) {
	c.t.Helper()
	c.until(id, "topic "+name, func(s *server.Server) bool { return s.Image().TopicByName(name).Exists() })
}

// Three nodes elect over TCP, replicate, and elect again when the leader dies:
// at once, because its connections break. The dead one comes back and follows.
// Fails within the fetch timeout if LeaderConnectionLost is not delivered.
func TestThreeNodesElectAndFailOver(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprintf("static=%v", static), func(t *testing.T) {
			c := newThree(t, static)
			for id := range c.conf {
				c.up(id)
			}
			first, resp := c.leader(-1)
			p := resp.Topics[0].Partitions[0]
			if len(p.CurrentVoters) != 3 || len(resp.Nodes) != 3 {
				t.Errorf("voters %+v, nodes %+v", p.CurrentVoters, resp.Nodes)
			}
			select { // its broker registers with itself
			case <-c.nodes[first].Ready():
			case <-time.After(patience):
				t.Fatal("the leader's broker is not ready")
			}
			c.create(first, "before")
			for id := range c.nodes {
				c.hasTopic(id, "before")
			}
			killed := time.Now()
			c.kill(first)
			second, _ := c.leader(kafka.Epoch(p.LeaderEpoch))
			elected := time.Since(killed)
			c.create(second, "after")
			t.Logf("node %d led, its connections broke: node %d leads after %s, and has made a topic after %s", first, second, elected, time.Since(killed))
			c.up(first)
			for id := range c.nodes {
				c.hasTopic(id, "after")
			}
		})
	}
}

// A leader that stops in peace is followed by another, without fast failover
// too. Usually within milliseconds; if the two others refuse each other's first
// pre-vote, after the fetch timeout. Fails if nobody is elected.
func TestStoppedLeaderHandsOver(t *testing.T) {
	c := newThree(t, false, "moldau.controller.quorum.fast.failover=false", "controller.quorum.fetch.timeout.ms=2000")
	for id := range c.conf {
		c.up(id)
	}
	first, resp := c.leader(-1)
	began := time.Now()
	c.stop(first)
	second, _ := c.leader(kafka.Epoch(resp.Topics[0].Partitions[0].LeaderEpoch))
	t.Logf("from node %d to node %d in %s", first, second, time.Since(began))
}
