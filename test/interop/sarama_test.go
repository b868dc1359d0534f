package interop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

// TestSarama uses sarama's ConsumerGroup, with each of its strategies, and its
// ClusterAdmin.
func TestSarama(t *testing.T) {
	n := newNode(t)
	n.startMoldau(t)
	for _, strategy := range []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategySticky()} {
		t.Run(strategy.Name(), func(t *testing.T) { saramaRebalances(t, n, strategy) })
	}
	t.Run("admin", func(t *testing.T) { saramaAdmin(t, n) })
	n.stop(t)
}

func saramaConfig(strategy sarama.BalanceStrategy, instance string) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Consumer.Return.Errors = true
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Group.Session.Timeout = 6 * time.Second
	c.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	c.Consumer.Group.InstanceId = instance
	if strategy != nil {
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	}
	return c
}

// saramaGroup is what all members of a group have seen and have.
type saramaGroup struct {
	mu   sync.Mutex
	seen map[string]int
	has  map[string]int // member → partitions
	news chan struct{}
}

func (g *saramaGroup) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	close(g.news)
	g.news = make(chan struct{})
}

func (g *saramaGroup) until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	limit := time.After(60 * time.Second)
	for {
		g.mu.Lock()
		met, news := condition(), g.news
		g.mu.Unlock()
		if met {
			return
		}
		select {
		case <-news:
		case <-limit:
			t.Fatalf("never: %s; members have %v, %d records are read", what, g.has, len(g.seen))
		}
	}
}

// saramaMember implements sarama.ConsumerGroupHandler.
type saramaMember struct {
	group *saramaGroup
	name  string
}

func (m saramaMember) Setup(s sarama.ConsumerGroupSession) error {
	m.group.change(func() {
		m.group.has[m.name] = 0
		for _, partitions := range s.Claims() {
			m.group.has[m.name] += len(partitions)
		}
	})
	return nil
}

func (m saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.group.change(func() { delete(m.group.has, m.name) })
	return nil
}

func (m saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for r := range claim.Messages() {
		s.MarkMessage(r, "")
		m.group.change(func() { m.group.seen[fmt.Sprint(r.Partition, "@", r.Offset)]++ })
	}
	return nil
}

// start joins the group; the function that it returns leaves it.
func (g *saramaGroup) start(t *testing.T, n *node, name, group, topic string, config *sarama.Config) (leave func()) {
	t.Helper()
	c, err := sarama.NewConsumerGroup([]string{n.addr()}, group, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := c.Consume(ctx, []string{topic}, saramaMember{g, name}); err != nil && ctx.Err() == nil {
				t.Errorf("%s consumes: %v", name, err)
				return
			}
		}
	})
	wg.Go(func() {
		for err := range c.Errors() {
			t.Errorf("%s: %v", name, err)
		}
	})
	var once sync.Once
	leave = func() {
		once.Do(func() {
			cancel()
			if err := c.Close(); err != nil {
				t.Errorf("%s leaves: %v", name, err)
			}
			wg.Wait()
		})
	}
	t.Cleanup(leave)
	return leave
}

// saramaRebalances: a member joins and leaves, each record is read once.
func saramaRebalances(t *testing.T, n *node, strategy sarama.BalanceStrategy) {
	topic := "sarama-" + strategy.Name()
	createFilled(t, n, topic, 6, 120)
	g := &saramaGroup{seen: map[string]int{}, has: map[string]int{}, news: make(chan struct{})}
	leaveA := g.start(t, n, "a", topic, topic, saramaConfig(strategy, ""))
	g.until(t, "the first reads all", func() bool { return g.has["a"] == 6 && len(g.seen) == 120 })
	leaveB := g.start(t, n, "b", topic, topic, saramaConfig(strategy, ""))
	g.until(t, "two share", func() bool { return g.has["a"] == 3 && g.has["b"] == 3 })
	produceMore(t, n, topic, 6, 120)
	g.until(t, "both read", func() bool { return len(g.seen) == 240 })
	leaveB()
	g.until(t, "the first has all again", func() bool { return g.has["a"] == 6 })
	produceMore(t, n, topic, 6, 120)
	g.until(t, "it reads all", func() bool { return len(g.seen) == 360 })
	leaveA()
	for record, times := range g.seen {
		if times != 1 {
			t.Errorf("%s is read %d times", record, times)
		}
	}
	for p, offset := range saramaCommitted(t, saramaClusterAdmin(t, n), topic, topic, 6) {
		if offset != 60 {
			t.Errorf("partition %d: %d is committed", p, offset)
		}
	}
}

func saramaClusterAdmin(t *testing.T, n *node) sarama.ClusterAdmin {
	t.Helper()
	a, err := sarama.NewClusterAdmin([]string{n.addr()}, saramaConfig(nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func saramaCommitted(t *testing.T, a sarama.ClusterAdmin, group, topic string, partitions int32) (offsets []int64) {
	t.Helper()
	var list []int32
	for p := range partitions {
		list = append(list, p)
	}
	r, err := a.ListConsumerGroupOffsets(group, map[string][]int32{topic: list})
	if err != nil || r.Err != sarama.ErrNoError {
		t.Fatal(err, r)
	}
	for p := range partitions {
		b := r.GetBlock(topic, p)
		if b.Err != sarama.ErrNoError {
			t.Error(b.Err)
		}
		offsets = append(offsets, b.Offset)
	}
	return offsets
}

// saramaAdmin: a static member is described and removed; offsets and the group
// are changed and deleted.
func saramaAdmin(t *testing.T, n *node) {
	createFilled(t, n, "managed", 2, 20)
	a := saramaClusterAdmin(t, n)
	g := &saramaGroup{seen: map[string]int{}, has: map[string]int{}, news: make(chan struct{})}
	leave := g.start(t, n, "static", "managed", "managed", saramaConfig(nil, "one"))
	g.until(t, "all is read", func() bool { return len(g.seen) == 20 })
	describe := func() *sarama.GroupDescription {
		t.Helper()
		d, err := a.DescribeConsumerGroups([]string{"managed"})
		if err != nil {
			t.Fatal(err)
		}
		return d[0]
	}
	d := describe()
	if d.State != "Stable" || d.Protocol != "range" || len(d.Members) != 1 {
		t.Fatalf("DescribeConsumerGroups: %+v", d)
	}
	for _, m := range d.Members {
		assigned, err := m.GetMemberAssignment()
		if err != nil || m.GroupInstanceId == nil || *m.GroupInstanceId != "one" || len(assigned.Topics["managed"]) != 2 {
			t.Errorf("its member: %+v, %v, %v", m, assigned, err)
		}
	}
	if err := a.DeleteConsumerGroup("managed"); !errors.Is(err, sarama.ErrNonEmptyGroup) {
		t.Errorf("a group with a member is deleted: %v", err)
	}
	leave()
	if d := describe(); len(d.Members) != 1 {
		t.Errorf("a static member that ends stays for its session: %+v", d)
	}
	r, err := a.RemoveMemberFromConsumerGroup("managed", []string{"one"})
	if err != nil || r.Err != sarama.ErrNoError || r.Members[0].Err != sarama.ErrNoError {
		t.Errorf("RemoveMemberFromConsumerGroup: %v, %+v", err, r)
	}
	if d := describe(); d.State != "Empty" {
		t.Errorf("after its removal: %+v", d)
	}
	c, err := a.AlterConsumerGroupOffsets("managed", map[string]map[int32]sarama.OffsetAndMetadata{"managed": {0: {Offset: 3, LeaderEpoch: -1}}}, nil)
	if err != nil || c.Errors["managed"][0] != sarama.ErrNoError {
		t.Errorf("AlterConsumerGroupOffsets: %v, %+v", err, c)
	}
	if err := a.DeleteConsumerGroupOffset("managed", "managed", 1); err != nil {
		t.Errorf("DeleteConsumerGroupOffset: %v", err)
	}
	if got := saramaCommitted(t, a, "managed", "managed", 2); got[0] != 3 || got[1] != -1 {
		t.Errorf("offsets: %v", got)
	}
	if groups, err := a.ListConsumerGroups(); err != nil || groups["managed"] != "consumer" {
		t.Errorf("ListConsumerGroups: %v, %v", groups, err)
	}
	if err := a.DeleteConsumerGroup("managed"); err != nil {
		t.Errorf("DeleteConsumerGroup: %v", err)
	}
	if d := describe(); d.State != "Dead" {
		t.Errorf("a deleted group: %+v", d)
	}
}
