package group

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// TestLiveStateIsThatOfTheLog drives a coordinator with random requests, some of
// whose appends the log refuses (Trap-2, HC-102): after each, what it keeps of the
// log is what another coordinator loads, from the log and from what compaction
// leaves of it. Without the undo in replayGroup or replayOffset it fails at once.
func TestLiveStateIsThatOfTheLog(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomRun(t, seed, 600) })
	}
}

// randomGroup is what the test knows of the members that it plays.
type randomGroup struct {
	generation map[string]int32 // highest seen, by group
}

func randomRun(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 1))
	h := newHarness(t)
	h.quiet = true
	h.opts.InitialRebalanceDelayMs = 50
	h.opts.RetentionMs, h.opts.RetentionCheckMs = 120_000, 20_000
	h.load()
	known := randomGroup{generation: map[string]int32{}}
	for range steps {
		if r.IntN(10) == 0 {
			h.refuse = []kafka.ErrorCode{kafka.ErrNotEnoughReplicas, kafka.ErrKafkaStorageError, kafka.ErrMessageTooLarge}[r.IntN(3)]
		}
		h.command(randomCommand(r))
		if r.IntN(4) == 0 {
			h.advance(time.Duration(r.IntN(4000)) * time.Millisecond)
		}
		h.refuse = 0
		known.check(t, h)
		same(t, h)
		if r.IntN(80) == 0 {
			h.load()
			known.generation = map[string]int32{}
		}
	}
}

func randomCommand(r *rand.Rand) string {
	tag := string(rune('A' + r.IntN(5)))
	group := fmt.Sprintf("group=g%d", r.IntN(2))
	member, gen := "", fmt.Sprintf("gen=%d", r.IntN(8))
	if r.IntN(3) > 0 {
		member = "member=$" + tag
	}
	static := ""
	if tag >= "D" {
		static = "static=i" + tag
	}
	offsets := fmt.Sprintf("offsets=t/%d:%d,u/0:%d", r.IntN(3), r.IntN(100), r.IntN(100))
	switch r.IntN(14) {
	case 0, 1, 2, 3:
		return fmt.Sprintf("join %s %s %s %s v=%d session=%d rebalance=9000", tag, group, member, static, r.IntN(10), 6000+r.IntN(9000))
	case 4, 5, 6:
		return fmt.Sprintf("sync %s %s %s %s assign=A:a,B:b,C:c,D:d,E:e", tag, group, static, gen)
	case 7:
		return fmt.Sprintf("heartbeat %s %s %s %s", tag, group, static, gen)
	case 8:
		return fmt.Sprintf("leave %s %s members=$%s", tag, group, tag)
	case 9, 10:
		return fmt.Sprintf("commit %s %s %s v=%d retention=%d %s", tag, group, offsets, 2+r.IntN(9), r.IntN(100_000)-50_000, []string{"", member + " " + gen}[r.IntN(2)])
	case 11:
		return fmt.Sprintf("txn producer=%d %s %s", r.IntN(3), group, []string{offsets, "end=commit", "end=abort"}[r.IntN(3)])
	case 12:
		return fmt.Sprintf("forget %s %s topics=t/%d,u/0", tag, group, r.IntN(3))
	}
	return []string{"delete T groups=g0,g1", "gone topics=t/0,t/1,u/0", "forget T group=g0 topics=t/0"}[r.IntN(3)]
}

// check: generations rise as long as the coordinator lives and the group is not
// deleted; what waits is counted; a stable group has an assignment by its leader.
func (k *randomGroup) check(t *testing.T, h *harness) {
	t.Helper()
	for id := range k.generation {
		if h.c.groups[id] == nil {
			delete(k.generation, id)
		}
	}
	for id, g := range h.c.groups {
		if g.void() {
			t.Fatalf("%s is nothing, and is kept", id)
		}
		m := g.classic
		if m == nil || g.saved == nil {
			delete(k.generation, id)
			continue
		}
		if m.generation < k.generation[id] {
			t.Fatalf("generation of %s falls from %d to %d", id, k.generation[id], m.generation)
		}
		k.generation[id] = m.generation
		awaiting, unsynced := 0, 0
		for _, n := range m.members {
			if n.join != nil {
				awaiting++
			}
			if n.unsynced {
				unsynced++
			}
			if m.byID[n.id] != n || n.in != m {
				t.Fatalf("%s: member %s is not found by its id", id, n.id)
			}
		}
		if awaiting != m.awaiting || unsynced != m.unsynced || len(m.byID) != len(m.members) {
			t.Fatalf("%s: %d wait, counted %d; %d have not synced, counted %d; %d members, %d ids", id, awaiting, m.awaiting, unsynced, m.unsynced, len(m.members), len(m.byID))
		}
		if m.leader != "" && m.byID[m.leader] == nil || m.leader == "" && len(m.members) > 0 {
			t.Fatalf("%s: leader %q is no member", id, m.leader)
		}
	}
}

// same compares the coordinator with ones that load its log.
func same(t *testing.T, h *harness) {
	t.Helper()
	live := h.c.Kept()
	loaded := New(h.opts)
	h.replay(loaded)
	if got := loaded.Kept(); got != live {
		t.Fatalf("live:\n%s\nfrom the log:\n%s", live, got)
	}
	compacted := New(h.opts)
	replayCompacted(t, compacted, h.log)
	if got := compacted.Kept(); got != live {
		t.Fatalf("live:\n%s\nfrom the compacted log:\n%s", live, got)
	}
}

// replayCompacted replays what compaction keeps: below the first record of an open
// transaction, the last record of each key.
func replayCompacted(t *testing.T, c *Coordinator, log []entry) {
	stable := len(log)
	first := map[kafka.ProducerID]int{}
	for at, e := range log {
		if e.end != 0 {
			delete(first, e.producer)
		} else if _, open := first[e.producer]; !open && e.producer != kafka.NoProducerID {
			first[e.producer] = at
		}
	}
	for _, at := range first {
		stable = min(stable, at)
	}
	last := map[string]int{}
	aborted := abortedIn(log)
	for at, e := range log[:stable] {
		if e.end == 0 && !aborted[at] {
			last[string(e.key)] = at
		}
	}
	h := harness{t: t}
	for at, e := range log {
		if at < stable && e.end == 0 && (aborted[at] || last[string(e.key)] != at) {
			continue
		}
		h.log = log[at : at+1]
		h.replayAt(c, kafka.Offset(at))
	}
}

// abortedIn finds the records of aborted transactions.
func abortedIn(log []entry) map[int]bool {
	open, aborted := map[kafka.ProducerID][]int{}, map[int]bool{}
	for at, e := range log {
		switch {
		case e.end == 0 && e.producer != kafka.NoProducerID:
			open[e.producer] = append(open[e.producer], at)
		case e.end != 0:
			for _, at := range open[e.producer] {
				aborted[at] = e.end == 2
			}
			delete(open, e.producer)
		}
	}
	return aborted
}

// TestLoadsAnyOrder replays the records of all kinds of groups in random order,
// with tombstones in between: nothing fails, and what is left is empty when all
// are gone (HC-102).
func TestLoadsAnyOrder(t *testing.T) {
	lines := []string{
		"kind=consumer what=group", "kind=consumer what=target", "kind=consumer what=member", "kind=consumer what=assigned",
		"kind=consumer what=current", "kind=share what=group", "kind=streams what=group",
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		h := newHarness(t)
		for range 40 {
			line := lines[r.IntN(len(lines))]
			if r.IntN(3) == 0 {
				line += " none=1"
			}
			h.command(fmt.Sprintf("foreign group=g%d id=m%d epoch=%d %s", r.IntN(2), r.IntN(2), r.IntN(5), line))
		}
		for g := range 2 {
			for m := range 2 {
				for _, l := range lines {
					h.command(fmt.Sprintf("foreign group=g%d id=m%d none=1 %s", g, m, l))
				}
			}
		}
		if got := h.c.Kept(); got != "" {
			t.Fatalf("seed %d: left over %s", seed, got)
		}
	}
}

// TestForeignKindsAreAllKnown: every key of the log of groups has a place (HC-103).
func TestForeignKindsAreAllKnown(t *testing.T) {
	for id := int16(0); id < 100; id++ {
		key := []byte{byte(id >> 8), byte(id)}
		_, m, _ := record.DecodeKey(record.GroupLog, append(key, make([]byte, 64)...))
		if m == nil {
			continue
		}
		c := New(newHarness(t).opts)
		if err := c.Replay(0, kafka.NoProducerID, m, nil); err != nil {
			t.Errorf("%s: %v", m.Kind(), err)
		}
	}
}

func TestMismatchedValueEndsLoading(t *testing.T) {
	c := New(newHarness(t).opts)
	if err := c.Replay(0, kafka.NoProducerID, &record.OffsetCommitKey{}, record.NewGroupMetadataValue()); err == nil {
		t.Error("an offset with the value of a group was taken")
	}
}

func FuzzSubscription(f *testing.F) {
	f.Add(subscriptionOf("a", "bc"))
	f.Add([]byte{0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, ok := subscribedTopics(b)
		if ok && len(topics) > len(b) {
			t.Errorf("%d topics in %d bytes", len(topics), len(b))
		}
	})
}

// Benchmarks: what the core alone costs.

func BenchmarkCommit(b *testing.B) {
	h := newHarness(b)
	q := kmsg.NewPtrOffsetCommitRequest()
	q.SetVersion(9)
	q.Group, q.Generation = "g", -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "topic", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	var out coordinator.Effects
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Topics[0].Partitions[0].Partition = int32(i % 100)
		out.Reset()
		h.c.Step(h.now, coordinator.Request{Body: q}, &out)
		for _, r := range out.Records {
			if err := h.c.Replay(kafka.Offset(i), kafka.NoProducerID, r.Key, r.Value); err != nil {
				b.Fatal(err)
			}
		}
		h.c.Appended()
	}
}

// BenchmarkLargeGroup has n members join, and their leader assign.
func BenchmarkLargeGroup(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				joinMany(b, n)
			}
		})
	}
}

func joinMany(b *testing.B, n int) {
	h := newHarness(b)
	h.quiet = true
	var out coordinator.Effects
	joined := map[uint64]string{}
	run := func(ev any) {
		out.Reset()
		h.c.Step(h.now, ev, &out)
		for i, r := range out.Records {
			if err := h.c.Replay(kafka.Offset(i), kafka.NoProducerID, r.Key, r.Value); err != nil {
				b.Fatal(err)
			}
		}
		h.c.Appended()
		for _, r := range out.Replies {
			if j, ok := r.Body.(*kmsg.JoinGroupResponse); ok && j.ErrorCode == 0 {
				joined[r.Token] = j.MemberID
			}
		}
	}
	meta := subscriptionOf("topic")
	for i := range n {
		q := kmsg.NewPtrJoinGroupRequest()
		q.SetVersion(3)
		q.Group, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis, q.ProtocolType = "g", 10_000, 60_000, "consumer"
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta}}
		h.opts.UUID = nil
		run(coordinator.Request{Token: uint64(i + 1), Body: q, ClientID: fmt.Sprint("client-", i), Host: "/127.0.0.1"})
	}
	for len(joined) < n {
		h.pass(max(h.c.Deadline(), h.now.Mono))
		run(coordinator.DeadlineReached{})
	}
	q := kmsg.NewPtrSyncGroupRequest()
	q.SetVersion(5)
	q.Group, q.Generation, q.MemberID = "g", 1, joined[1]
	for _, id := range joined {
		q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: meta})
	}
	run(coordinator.Request{Token: uint64(n + 1), Body: q})
}

// What a record of the old formats cannot hold is refused: encoding it would end the
// process. Without maxText it does.
func TestNamesTooLongForRecords(t *testing.T) {
	h := newHarness(t)
	h.opts.MaxMetadataSize = 1 << 20
	h.load()
	long := strings.Repeat("x", math.MaxInt16+1)
	almost := strings.Repeat("y", math.MaxInt16)
	for _, line := range []string{
		"join A v=9 group=" + long, "join A v=9 type=" + long, "join A v=9 static=" + almost,
		"join A v=3 protocols=range," + long, "join A v=9 member=" + long, "commit A offsets=t/0:1 group=" + long,
		"commit A v=9 offsets=t/0:1 meta=" + long, "commit A v=3 retention=1000 offsets=t/0:1 meta=" + long,
	} {
		h.out.Reset()
		h.command(line)
		if got := h.out.String(); strings.Contains(got, "INVALID") == strings.Contains(line, "meta") {
			t.Errorf("%.30s…: %.100s", line, got)
		}
	}
	h.token++
	h.tags[h.token] = "A"
	h.step(coordinator.Request{Token: h.token, Body: h.joinRequest("g", "A", args{"v": "3"}), ClientID: almost, Host: "/h"})
	if !strings.Contains(h.out.String(), "INVALID_REQUEST") {
		t.Errorf("a client id that leaves no room for a member id: %.100s", h.out.String())
	}
}
