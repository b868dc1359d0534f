package interop

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	segmentio "github.com/segmentio/kafka-go"
)

// TestKafkaGo uses segmentio's kafka-go: its ConsumerGroup, its Reader, and the
// requests about groups of its Client.
func TestKafkaGo(t *testing.T) {
	n := newNode(t)
	n.startMoldau(t)
	cl := &segmentio.Client{Addr: segmentio.TCP(n.addr()), Timeout: 20 * time.Second}
	segmentioGenerations(t, n, cl)
	segmentioReader(t, n, cl)
	segmentioAdmin(t, n, cl)
	n.stop(t)
}

// segmentioGenerations: a member joins and leaves, and what each generation is
// given continues where the last one has committed.
func segmentioGenerations(t *testing.T, n *node, cl *segmentio.Client) {
	ctx := within(t, 60*time.Second)
	createFilled(t, n, "generations", 6, 60)
	join := func() *segmentio.ConsumerGroup {
		g, err := segmentio.NewConsumerGroup(segmentio.ConsumerGroupConfig{
			ID: "generations", Brokers: []string{n.addr()}, Topics: []string{"generations"}, StartOffset: segmentio.FirstOffset,
			GroupBalancers: []segmentio.GroupBalancer{segmentio.RoundRobinGroupBalancer{}}, HeartbeatInterval: 100 * time.Millisecond,
			SessionTimeout: 6 * time.Second, JoinGroupBackoff: 100 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close() })
		return g
	}
	// next is a generation with that many partitions; a group of two begins with
	// generations that not both are in.
	next := func(g *segmentio.ConsumerGroup, want int) (*segmentio.Generation, map[int]int64) {
		t.Helper()
		for {
			gen, err := g.Next(ctx)
			if errors.Is(err, segmentio.GroupCoordinatorNotAvailable) {
				continue // The topic of offsets is being created; the group backs off and asks again.
			}
			if err != nil {
				t.Fatalf("no generation with %d partitions: %v", want, err)
			}
			at := map[int]int64{}
			for _, p := range gen.Assignments["generations"] {
				at[p.ID] = p.Offset
			}
			// Without a function that runs, a generation would never end.
			gen.Start(func(ctx context.Context) { <-ctx.Done() })
			if len(at) == want {
				return gen, at
			}
		}
	}
	a := join()
	gen, at := next(a, 6)
	if at[0] != segmentio.FirstOffset {
		t.Errorf("a group that is new starts at %v", at)
	}
	commit := func(gen *segmentio.Generation, offset int64, partitions map[int]int64) {
		t.Helper()
		offsets := map[int]int64{}
		for p := range partitions {
			offsets[p] = offset
		}
		if err := gen.CommitOffsets(map[string]map[int]int64{"generations": offsets}); err != nil {
			t.Errorf("generation %d commits: %v", gen.ID, err)
		}
	}
	commit(gen, 4, at)
	b := join()
	genB, ofB := next(b, 3)
	genA, ofA := next(a, 3)
	for p := range ofB {
		if _, both := ofA[p]; both || ofB[p] != 4 {
			t.Errorf("one member has %v, the other %v; want 3 each, at 4", ofA, ofB)
		}
	}
	late, err := cl.OffsetCommit(ctx, &segmentio.OffsetCommitRequest{GroupID: "generations", GenerationID: int(gen.ID), MemberID: gen.MemberID, Topics: map[string][]segmentio.OffsetCommit{"generations": {{Partition: 0, Offset: 1}}}})
	if err != nil || !errors.Is(late.Topics["generations"][0].Error, segmentio.IllegalGeneration) {
		t.Errorf("the generation before commits: %v, %+v", err, late)
	}
	commit(genA, 5, ofA)
	commit(genB, 6, ofB)
	d, err := cl.DescribeGroups(ctx, &segmentio.DescribeGroupsRequest{GroupIDs: []string{"generations"}})
	if err != nil {
		t.Fatal(err)
	}
	if g := d.Groups[0]; g.Error != nil || g.GroupState != "Stable" || len(g.Members) != 2 || len(g.Members[0].MemberAssignments.Topics[0].Partitions) != 3 {
		t.Errorf("DescribeGroups: %+v", g)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	_, at = next(a, 6)
	for p, offset := range at {
		if _, was := ofB[p]; was && offset != 6 || !was && offset != 5 {
			t.Errorf("partition %d goes on at %d", p, offset)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// segmentioReader reads with commits of both kinds; each reader goes on where the
// one before has ended.
func segmentioReader(t *testing.T, n *node, cl *segmentio.Client) {
	ctx := within(t, 60*time.Second)
	createFilled(t, n, "reader", 3, 90)
	open := func() *segmentio.Reader {
		r := segmentio.NewReader(segmentio.ReaderConfig{
			Brokers: []string{n.addr()}, GroupID: "reader", Topic: "reader", StartOffset: segmentio.FirstOffset, MaxWait: 100 * time.Millisecond,
			HeartbeatInterval: 100 * time.Millisecond, SessionTimeout: 6 * time.Second, JoinGroupBackoff: 100 * time.Millisecond,
		})
		t.Cleanup(func() { r.Close() })
		return r
	}
	seen := map[string]int{}
	r := open()
	for range 40 {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(m.Partition, "@", m.Offset)]++
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r = open()
	for range 50 {
		m, err := r.FetchMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(m.Partition, "@", m.Offset)]++
		if err := r.CommitMessages(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 90 {
		t.Errorf("%d distinct records of 90: %v", len(seen), seen)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if got := segmentioCommitted(t, cl, "reader", "reader", 0, 1, 2); !reflect.DeepEqual(got, map[int]int64{0: 30, 1: 30, 2: 30}) {
		t.Errorf("committed %v", got)
	}
}

func segmentioCommitted(t *testing.T, cl *segmentio.Client, group, topic string, partitions ...int) map[int]int64 {
	t.Helper()
	r, err := cl.OffsetFetch(within(t, 20*time.Second), &segmentio.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: partitions}})
	if err != nil || r.Error != nil {
		t.Fatal(err, r)
	}
	got := map[int]int64{}
	for _, p := range r.Topics[topic] {
		if p.Error != nil {
			t.Error(p.Error)
		}
		got[p.Partition] = p.CommittedOffset
	}
	return got
}

func segmentioAdmin(t *testing.T, n *node, cl *segmentio.Client) {
	ctx := within(t, 30*time.Second)
	c, err := cl.OffsetCommit(ctx, &segmentio.OffsetCommitRequest{GroupID: "reader", GenerationID: -1, Topics: map[string][]segmentio.OffsetCommit{"reader": {{Partition: 0, Offset: 7}, {Partition: 1, Offset: 8}}}})
	if err != nil || c.Topics["reader"][0].Error != nil {
		t.Fatalf("OffsetCommit: %v, %+v", err, c)
	}
	d, err := cl.OffsetDelete(ctx, &segmentio.OffsetDeleteRequest{GroupID: "reader", Topics: map[string][]int{"reader": {2}}})
	if err != nil || d.Error != nil || d.Topics["reader"][0].Error != nil {
		t.Errorf("OffsetDelete: %v, %+v", err, d)
	}
	if got := segmentioCommitted(t, cl, "reader", "reader", 0, 1, 2); !reflect.DeepEqual(got, map[int]int64{0: 7, 1: 8, 2: -1}) {
		t.Errorf("after OffsetCommit and OffsetDelete: %v", got)
	}
	listed := func() (groups []string) {
		l, err := cl.ListGroups(ctx, &segmentio.ListGroupsRequest{})
		if err != nil || l.Error != nil {
			t.Fatalf("ListGroups: %v, %+v", err, l)
		}
		for _, g := range l.Groups {
			groups = append(groups, g.GroupID+" "+g.ProtocolType)
		}
		slices.Sort(groups)
		return groups
	}
	if got := listed(); !slices.Equal(got, []string{"generations consumer", "reader consumer"}) {
		t.Errorf("ListGroups: %v", got)
	}
	x, err := cl.DeleteGroups(ctx, &segmentio.DeleteGroupsRequest{GroupIDs: []string{"reader", "missing"}})
	if err != nil || x.Errors["reader"] != nil || !errors.Is(x.Errors["missing"], segmentio.GroupIdNotFound) {
		t.Errorf("DeleteGroups: %v, %+v", err, x)
	}
	if got := listed(); !slices.Equal(got, []string{"generations consumer"}) {
		t.Errorf("ListGroups after DeleteGroups: %v", got)
	}
}
