package chaos

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func more(k *creator, n int) error {
	if have := k.count(); have < n {
		return fmt.Errorf("%d of %d", have, n)
	}
	return nil
}

// caughtUp tells whether the quorum knows the controller to follow.
func caughtUp(c *cluster, cl *kgo.Client, n *node) error {
	req := kmsg.NewPtrDescribeQuorumRequest()
	tp, p := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	tp.Topic, tp.Partitions = "__cluster_metadata", append(tp.Partitions, p)
	req.Topics = append(req.Topics, tp)
	resp, err := ask[*kmsg.DescribeQuorumResponse](cl, req)
	if err != nil {
		return err
	}
	if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return fmt.Errorf("%+v", resp)
	}
	q := resp.Topics[0].Partitions[0]
	for _, v := range q.CurrentVoters {
		lately := time.Since(time.UnixMilli(v.LastFetchTimestamp)) < 2*time.Second
		if int(v.ReplicaID) == n.id && q.ErrorCode == 0 && v.LogEndOffset+100 >= q.HighWatermark && lately {
			return nil
		}
	}
	return fmt.Errorf("%+v", q)
}

// A voter's disk is lost. Formatted anew it has another directory id and only
// observes, until the former one is removed and it is added (HC-031).
func TestVoterReplacedWithAnEmptyDisk(t *testing.T) {
	c := newCluster(t, nil)
	c.start()
	k := c.createTopics()
	cl := c.client()
	c.until("topics before", func() error { return more(k, 50) })
	n := c.nodes[1]
	if c.leader(cl) == n {
		c.moldau("quorum", "handover", "--bootstrap-server", c.nodes[4].address())
	}
	n.signal(syscall.SIGKILL)
	if err := os.RemoveAll(n.data()); err != nil {
		t.Fatal(err)
	}
	c.moldau("storage", "format", "-c", n.file(), "-t", clusterID, "--no-initial-controllers")
	n.start()
	broker := c.nodes[4].address()
	c.until("the new disk observes", func() error {
		if out := c.moldau("quorum", "describe", "--bootstrap-server", broker); strings.Count(out, "observer") < 4 {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	c.moldau("quorum", "remove", "--bootstrap-server", broker, "--id", "1")
	c.moldau("quorum", "add", "--bootstrap-server", broker, "--config", n.file())
	c.until("the new voter follows", func() error { return caughtUp(c, cl, n) })
	// It counts: with another voter gone the quorum works.
	other := c.nodes[2]
	if c.leader(cl) == other {
		other = c.nodes[3]
	}
	other.signal(syscall.SIGKILL)
	before := k.count()
	c.until("topics with the new voter", func() error { return more(k, before+50) })
	other.start()
	c.until("the other voter caught up", func() error { return caughtUp(c, cl, other) })
	k.check(t)
}

// The operator has each controller lead in turn while metadata is written: each
// time it is the one that was asked for, and nothing acknowledged is lost.
func TestHandoverWhileTopicsAreMade(t *testing.T) {
	c := newCluster(t, nil)
	c.start()
	k := c.createTopics()
	cl := c.client()
	var took []time.Duration
	for i := range 9 {
		before := k.count()
		c.until("topics before a handover", func() error { return more(k, before+20) })
		to := c.controllers()[i%3]
		if c.leader(cl) == to {
			continue
		}
		at := time.Now()
		c.moldau("quorum", "handover", "--bootstrap-server", c.nodes[4].address(), "--to", fmt.Sprint(to.id))
		took = append(took, time.Since(at).Round(time.Millisecond))
		c.until("the one that was asked for leads", func() error {
			if n := c.leader(cl); n != to {
				return fmt.Errorf("node %d leads, not %d", n.id, to.id)
			}
			return nil
		})
	}
	t.Logf("handovers took %v", took)
	k.check(t)
}
