package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	segment "github.com/segmentio/kafka-go"
)

// TestKafkaGo uses segmentio's kafka-go: its reader in a group, its consumer group,
// its administration.
func TestKafkaGo(t *testing.T) {
	n := newNode(t, "group.initial.rebalance.delay.ms=0")
	n.startMoldau(t)
	createFilled(t, n, "segment", 4, 0)
	ctx := within(t, 60*time.Second)
	w := &segment.Writer{Addr: segment.TCP(n.addr()), Topic: "segment", Balancer: &segment.RoundRobin{}, BatchTimeout: 5 * time.Millisecond, RequiredAcks: segment.RequireAll}
	var messages []segment.Message
	for i := range 100 {
		messages = append(messages, segment.Message{Value: fmt.Appendf(nil, "message %d", i)})
	}
	if err := w.WriteMessages(ctx, messages...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	segmentReaders(t, ctx, n)
	segmentGroup(t, ctx, n)
	segmentAdmin(t, ctx, n)
	n.stop(t)
}

// segmentReaders has one reader take half of the records and leave, and another go
// on where it ended.
func segmentReaders(t *testing.T, ctx context.Context, n *node) {
	t.Helper()
	var got []string
	for _, count := range []int{50, 50} {
		r := segment.NewReader(segment.ReaderConfig{Brokers: []string{n.addr()}, GroupID: "readers", Topic: "segment", StartOffset: segment.FirstOffset, MaxWait: 100 * time.Millisecond})
		for range count {
			m, err := r.FetchMessage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(m.Value))
			if err := r.CommitMessages(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != 100 {
		t.Errorf("%d different messages of 100", len(got))
	}
}

// segmentGroup has two members share the partitions, and one take over.
func segmentGroup(t *testing.T, ctx context.Context, n *node) {
	t.Helper()
	member := func() *segment.ConsumerGroup {
		g, err := segment.NewConsumerGroup(segment.ConsumerGroupConfig{ID: "members", Brokers: []string{n.addr()}, Topics: []string{"segment"}, HeartbeatInterval: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	a := member()
	defer a.Close()
	gen, err := a.Next(ctx)
	if err != nil || len(gen.Assignments["segment"]) != 4 {
		t.Fatalf("alone: %v, %v", gen, err)
	}
	if err := gen.CommitOffsets(map[string]map[int]int64{"segment": {0: 7, 1: 8}}); err != nil {
		t.Fatal(err)
	}
	b := member()
	type joined struct {
		gen *segment.Generation
		err error
	}
	other := make(chan joined, 1)
	go func() {
		gen, err := b.Next(ctx)
		other <- joined{gen, err}
	}()
	if gen, err = a.Next(ctx); err != nil {
		t.Fatal(err)
	}
	with := <-other
	if with.err != nil || len(gen.Assignments["segment"]) != 2 || len(with.gen.Assignments["segment"]) != 2 || gen.ID != with.gen.ID {
		t.Fatalf("both: %v and %v, %v", gen, with.gen, with.err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if gen, err = a.Next(ctx); err != nil || len(gen.Assignments["segment"]) != 4 {
		t.Fatalf("after one has left: %v, %v", gen, err)
	}
	for _, p := range gen.Assignments["segment"] {
		if want := map[int]int64{0: 7, 1: 8}[p.ID]; want != 0 && p.Offset != want {
			t.Errorf("partition %d goes on at %d, committed is %d", p.ID, p.Offset, want)
		}
	}
}

func segmentAdmin(t *testing.T, ctx context.Context, n *node) {
	t.Helper()
	c := &segment.Client{Addr: segment.TCP(n.addr()), Timeout: 10 * time.Second}
	list, err := c.ListGroups(ctx, &segment.ListGroupsRequest{})
	if err != nil || list.Error != nil || len(list.Groups) != 2 {
		t.Fatalf("ListGroups: %+v, %v", list, err)
	}
	described, err := c.DescribeGroups(ctx, &segment.DescribeGroupsRequest{GroupIDs: []string{"readers"}})
	if err != nil || described.Groups[0].Error != nil || described.Groups[0].GroupState != "Empty" {
		t.Errorf("DescribeGroups: %+v, %v", described, err)
	}
	offsets, err := c.OffsetFetch(ctx, &segment.OffsetFetchRequest{GroupID: "readers", Topics: map[string][]int{"segment": {0, 1, 2, 3}}})
	if err != nil || offsets.Error != nil {
		t.Fatalf("OffsetFetch: %+v, %v", offsets, err)
	}
	sum := int64(0)
	for _, p := range offsets.Topics["segment"] {
		sum += p.CommittedOffset
	}
	if sum != 100 {
		t.Errorf("committed are %+v", offsets.Topics)
	}
	deleted, err := c.DeleteGroups(ctx, &segment.DeleteGroupsRequest{GroupIDs: []string{"readers", "nobody"}})
	if err != nil || deleted.Errors["readers"] != nil || !errors.Is(deleted.Errors["nobody"], segment.GroupIdNotFound) {
		t.Errorf("DeleteGroups: %+v, %v", deleted, err)
	}
}
