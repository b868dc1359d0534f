package controller

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// cluster is a random set of brokers in racks.
type cluster struct {
	img    *metadata.Image
	rackOf map[kafka.NodeID]string
	fenced map[kafka.NodeID]bool
	racks  map[string]int // unfenced brokers of each rack
}

func randomCluster(t *testing.T, rnd *rand.Rand, brokers, racks int, mayFence bool) *cluster {
	t.Helper()
	c := &cluster{rackOf: map[kafka.NodeID]string{}, fenced: map[kafka.NodeID]bool{}, racks: map[string]int{}}
	d := metadata.NewDelta(metadata.Empty())
	for i := range brokers {
		m := record.NewRegisterBroker()
		m.BrokerID, m.BrokerEpoch = kafka.NodeID(i), kafka.BrokerEpoch(i)
		rack := ""
		if r := rnd.Intn(racks); r > 0 { // rack 0 is none
			rack = fmt.Sprint("rack", r)
			m.Rack = &rack
		}
		m.Fenced = mayFence && i > 0 && rnd.Intn(3) == 0
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
		c.rackOf[m.BrokerID], c.fenced[m.BrokerID] = rack, m.Fenced
		if !m.Fenced {
			c.racks[rack]++
		} else if c.racks[rack] == 0 {
			c.racks[rack] = 0
		}
	}
	c.img = d.Apply(metadata.Provenance{})
	return c
}

func (c *cluster) placer(rnd *rand.Rand) *placer {
	core := New(Options{Random: rnd.Uint64, Rules: testRules{}})
	return (&step{Core: core, tip: c.img}).newPlacer()
}

// The documented goals and constraints of Kafka's StripedReplicaPlacer, for any
// number of brokers and racks: no broker twice; an unfenced leader; as many
// racks as possible; fenced brokers only where a rack has no other left. Fails
// if the racks are not walked in turn, or if fenced brokers come first.
func TestPlacementProperties(t *testing.T) {
	for seed := range int64(400) {
		rnd := rand.New(rand.NewSource(seed))
		mayFence := seed%2 == 0
		c := randomCluster(t, rnd, 1+rnd.Intn(30), 1+rnd.Intn(8), mayFence)
		rf := 1 + rnd.Intn(min(6, len(c.rackOf)))
		p := c.placer(rnd)
		if f := p.check(rf); f.failed() {
			t.Fatalf("seed %d: %s", seed, f.message)
		}
		smallest := slices.Min(values(c.racks))
		for n := range 200 {
			got := p.place(rf)
			used := map[string]bool{}
			for i, b := range got {
				used[c.rackOf[b]] = true
				if slices.Contains(got[:i], b) {
					t.Fatalf("seed %d, partition %d: %v has a broker twice", seed, n, got)
				}
				if c.fenced[b] && smallest >= rf {
					t.Fatalf("seed %d, partition %d: %v has a fenced broker, though each rack has %d others", seed, n, got, smallest)
				}
			}
			if len(got) != rf || c.fenced[got[0]] {
				t.Fatalf("seed %d, partition %d: %v", seed, n, got)
			}
			if want := min(rf, len(c.racks)); !mayFence && len(used) != want {
				t.Fatalf("seed %d, partition %d: %v in %d racks of %d, rf %d", seed, n, got, len(used), len(c.racks), rf)
			}
		}
	}
}

// Without racks every broker leads equally often, in each round of all brokers;
// with one of them fenced, the others do. Replicas differ by what one round
// can leave over.
func TestPlacementIsEvenWithoutRacks(t *testing.T) {
	for brokers := 2; brokers <= 9; brokers++ {
		rnd := rand.New(rand.NewSource(int64(brokers)))
		c := randomCluster(t, rnd, brokers, 1, false)
		for rf := 1; rf <= min(3, brokers); rf++ {
			p := c.placer(rnd)
			leads, holds := map[kafka.NodeID]int{}, map[kafka.NodeID]int{}
			const rounds = 20
			for range rounds * brokers {
				got := p.place(rf)
				leads[got[0]]++
				for _, b := range got {
					holds[b]++
				}
			}
			for b, n := range leads {
				if n != rounds {
					t.Errorf("%d brokers, rf %d: %d leads %d times of %d", brokers, rf, b, n, rounds)
				}
				if holds[b] != rounds*rf {
					t.Errorf("%d brokers, rf %d: %d holds %d replicas, not %d", brokers, rf, b, holds[b], rounds*rf)
				}
			}
		}
	}
}

// With racks of one size leadership is even up to what the shuffles leave to
// chance.
func TestPlacementIsFairWithRacks(t *testing.T) {
	rnd := rand.New(rand.NewSource(3))
	d := metadata.NewDelta(metadata.Empty())
	for i := range 12 {
		m := record.NewRegisterBroker()
		rack := fmt.Sprint(i % 3)
		m.BrokerID, m.BrokerEpoch, m.Rack, m.Fenced = kafka.NodeID(i), kafka.BrokerEpoch(i), &rack, false
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
	}
	p := (&cluster{img: d.Apply(metadata.Provenance{})}).placer(rnd)
	leads, holds := map[kafka.NodeID]int{}, map[kafka.NodeID]int{}
	for range 6000 {
		got := p.place(3)
		leads[got[0]]++
		for _, b := range got {
			holds[b]++
		}
	}
	for b := range kafka.NodeID(12) {
		if leads[b] < 400 || leads[b] > 600 || holds[b] < 1400 || holds[b] > 1600 {
			t.Errorf("broker %d: leads %d of 500, holds %d of 1500", b, leads[b], holds[b])
		}
	}
}

func values(m map[string]int) (out []int) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// Leadership goes back to the preferred replica at the next check, not before,
// and only where it can be taken. Fails if balance moves what is led well, or if
// it gives leadership to who is not in sync.
func TestLeadershipGoesBack(t *testing.T) {
	h := quietHarness(t, false)
	h.core.opts.LeaderCheckInterval, h.core.opts.SessionTimeout = 300*time.Second, time.Hour
	h.core.nextBalance = h.now.Mono.Add(300 * time.Second)
	h.run("register id=1", "register id=2", "heartbeat id=1", "heartbeat id=2")
	h.step(Request{Body: createTopics(6, 2, "t")})
	h.run("heartbeat id=1 fence", "heartbeat id=1")
	if h.tip.Counts(2).Leaders != 6 {
		t.Fatal("broker 2 does not lead all")
	}
	h.advance(300 * time.Second) // 1 is in service, but in no in-sync set
	if h.tip.Counts(2).Leaders != 6 {
		t.Fatal("leadership went to who is not in sync")
	}
	for n := range int32(3) { // 2 takes 1 back in, in some partitions
		p, _ := h.tip.TopicByName("t").Partition(kafka.PartitionID(n))
		req := h.alterRequest(func(name string, def int64) int64 {
			return map[string]int64{"broker": 2, "leaderepoch": int64(p.LeaderEpoch), "partitionepoch": int64(p.PartitionEpoch)}[name]
		}, map[string]string{"topic": "t", "isr": "1,2"})
		req.Topics[0].Partitions[0].Partition = n
		if r := h.step(Request{Body: req})[0].Body.(*kmsg.AlterPartitionResponse); r.ErrorCode != 0 || r.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
	}
	want := 0
	for n := range kafka.PartitionID(3) {
		if p, _ := h.tip.TopicByName("t").Partition(n); p.Preferred() == 1 {
			want++
		}
	}
	h.advance(299 * time.Second)
	if h.tip.Counts(1).Leaders != 0 {
		t.Fatal("moved before the check")
	}
	h.advance(time.Second)
	if h.tip.Counts(1).Leaders != want || want == 0 {
		t.Errorf("broker 1 leads %d, want %d", h.tip.Counts(1).Leaders, want)
	}
	checkLeaders(t, h.tip)
}

// KIP-1066: a broker whose directories are all cordoned gets no new replicas, by
// nobody's choice; Apache Kafka 4.4 answers these codes. Fails if newPlacer or
// checkAssignment does not look.
func TestCordonedBrokersGetNoReplicas(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1", "register id=2", "heartbeat id=1", "heartbeat id=2")
	cordon := func(dirs ...kafka.DirectoryID) {
		m := record.NewBrokerRegistrationChange()
		m.BrokerID, m.BrokerEpoch, m.CordonedLogDirs = 1, h.tip.Broker(1).Epoch, append([]kafka.DirectoryID{}, dirs...)
		d := metadata.NewDelta(h.tip)
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
		h.tip = d.Apply(h.tip.Provenance())
	}
	create := func(name string, topic kmsg.CreateTopicsRequestTopic) kafka.ErrorCode {
		req := kmsg.NewPtrCreateTopicsRequest()
		topic.Topic = name
		req.Topics = append(req.Topics, topic)
		return kafka.ErrorCode(h.step(Request{Body: req})[0].Body.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	}
	placed := func(n int16) kmsg.CreateTopicsRequestTopic {
		return kmsg.CreateTopicsRequestTopic{NumPartitions: 4, ReplicationFactor: n}
	}
	byHand := kmsg.CreateTopicsRequestTopic{NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1, 2}}}}
	cordon(h.tip.Broker(1).Directories...)
	if code := create("one", placed(1)); code != 0 || h.tip.Counts(1).Replicas != 0 {
		t.Errorf("%s, %d replicas on the cordoned broker", code, h.tip.Counts(1).Replicas)
	}
	if code := create("two", placed(2)); code != kafka.ErrInvalidReplicationFactor {
		t.Errorf("two replicas: %s", code)
	}
	if code := create("hand", byHand); code != kafka.ErrInvalidReplicaAssignment {
		t.Errorf("by hand: %s", code)
	}
	cordon()
	if code := create("hand", byHand); code != 0 {
		t.Errorf("by hand after the cordon: %s", code)
	}
}
