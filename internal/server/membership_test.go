package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/server"
)

// A quorum of static voters goes to kraft.version 1 in service; then a fourth
// controller, formatted without voters, joins by itself, and the former leader
// is removed. Restarts keep all of it. Fails if voters do not tell the leader
// their directories, the records of the upgrade do not reach the others, or an
// observer that may join does not ask.
func TestStaticQuorumUpgradesAndGrows(t *testing.T) {
	c := newThree(t, true, "controller.quorum.fetch.timeout.ms=2000")
	for id := range c.conf {
		c.up(id)
	}
	leader, resp := c.leader(-1)
	c.raiseKRaft(leader)
	for id := range c.nodes {
		c.until(id, "three voters with directories", func(s *server.Server) bool { return c.voters(id) == 3 })
	}

	// The configuration of voters may stay; a new node names the others.
	c.addController(4)
	c.up(4)
	c.until(leader, "the fourth voter", func(*server.Server) bool { return c.voters(leader) == 4 })

	cl := c.control(leader)
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID = int32(leader)
	for _, v := range call[*kmsg.DescribeQuorumResponse](cl, quorumRequest(), 2).Topics[0].Partitions[0].CurrentVoters {
		if v.ReplicaID == int32(leader) {
			req.VoterDirectoryID = v.ReplicaDirectoryID
		}
	}
	removed := call[*kmsg.RemoveRaftVoterResponse](cl, req, 0)
	// The leader shows the fourth voter before that is committed, and until then
	// takes no other change.
	for end := time.Now().Add(patience); removed.ErrorCode == int16(kafka.ErrRequestTimedOut) && time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		removed = call[*kmsg.RemoveRaftVoterResponse](cl, req, 0)
	}
	wantCode(t, "RemoveRaftVoter", removed.ErrorCode, 0)
	next, _ := c.leader(kafka.Epoch(resp.Topics[0].Partitions[0].LeaderEpoch))
	if next == leader {
		t.Fatalf("node %d removed itself and leads", leader)
	}
	c.until(next, "three voters", func(*server.Server) bool { return c.voters(next) == 3 })
	for id := range c.conf {
		c.stop(id)
		c.up(id)
	}
	last, _ := c.leader(-1)
	if last == leader || c.voters(last) != 3 {
		t.Errorf("after restarts node %d leads %d voters", last, c.voters(last))
	}
}

// voters is how many voters with a directory the node knows.
func (c *three) voters(id kafka.NodeID) (n int) {
	for _, v := range c.nodes[id].Voters().All() {
		if v.Key.Dir != (kafka.DirectoryID{}) {
			n++
		}
	}
	return n
}

// raiseKRaft asks the leader until all voters have told who they are.
func (c *three) raiseKRaft(leader kafka.NodeID) {
	c.t.Helper()
	cl := c.control(leader)
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis = 10_000
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = metadata.FeatureKRaftVersion, 1, 1
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		r := call[*kmsg.UpdateFeaturesResponse](cl, req, 2)
		if r.ErrorCode == 0 {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("kraft.version: %s %v", kafka.ErrorCode(r.ErrorCode), r.ErrorMessage)
		}
	}
}

// addController formats one more node, which observes until it has joined.
func (c *three) addController(id kafka.NodeID) {
	c.t.Helper()
	port := server.FreePort(c.t)
	var servers []string
	for n := kafka.NodeID(1); n <= 3; n++ {
		servers = append(servers, c.nodes[n].Address("CONTROLLER").String())
	}
	c.addNode(id, map[string]string{
		"process.roles": "controller", "controller.quorum.auto.join.enable": "true",
		"listeners":                fmt.Sprintf("CONTROLLER://127.0.0.1:%d", port),
		"advertised.listeners":     fmt.Sprintf("CONTROLLER://localhost:%d", port),
		"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": strings.Join(servers, ","),
	})
}
