package group

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// harness drives one Coordinator as its shell does: what is emitted is replayed
// and appended to a log in memory, or reverted if the log refuses.
type harness struct {
	t    testing.TB
	out  strings.Builder
	now  kafka.Now
	opts Options
	c    *Coordinator
	log  []entry
	refs map[string]string // tag → member id
	tags map[uint64]string // token → tag
	uuid int

	token  uint64
	refuse kafka.ErrorCode // of the next append
	quiet  bool
}

type entry struct {
	key, value []byte
	producer   kafka.ProducerID
	end        int8 // 1: commit marker, 2: abort marker
}

func newHarness(t testing.TB) *harness {
	h := &harness{t: t, refs: map[string]string{}, tags: map[uint64]string{}, now: kafka.Now{Mono: kafka.Mono(time.Hour), Wall: 1_000_000_000}}
	h.opts = Options{
		MinSessionMs: 6000, MaxSessionMs: 1_800_000, MaxSize: math.MaxInt32, InitialRebalanceDelayMs: 3000,
		NewMemberJoinTimeoutMs: 300_000, MaxMetadataSize: 4096, RetentionMs: 7 * 24 * 3600 * 1000, RetentionCheckMs: 600_000,
		UUID: func() kafka.UUID { h.uuid++; return kafka.UUID{14: byte(h.uuid >> 8), 15: byte(h.uuid)} },
	}
	h.load()
	return h
}

// load makes a coordinator from the log.
func (h *harness) load() {
	h.c = New(h.opts)
	h.replay(h.c)
	var out coordinator.Effects
	h.c.Loaded(h.now, &out)
	h.perform(&out)
}

func (h *harness) replay(c *Coordinator) { h.replayAt(c, 0) }

// replayAt replays the log, whose first record has the offset base.
func (h *harness) replayAt(c *Coordinator, base kafka.Offset) {
	for i, e := range h.log {
		if e.end != 0 {
			c.EndTransaction(e.producer, e.end == 1)
			continue
		}
		id, key, err := record.DecodeKey(record.GroupLog, e.key)
		if err != nil {
			h.t.Fatal(err)
		}
		var value record.Message
		if e.value != nil {
			if value, _, err = record.DecodeValue(record.GroupLog, id, e.value); err != nil {
				h.t.Fatal(err)
			}
		}
		if err := c.Replay(base+kafka.Offset(i), e.producer, key, value); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *harness) step(ev any) {
	var out coordinator.Effects
	h.c.Step(h.now, ev, &out)
	h.perform(&out)
}

// perform replays and appends; a refused append is reverted.
func (h *harness) perform(out *coordinator.Effects) {
	var entries []entry
	for i, r := range out.Records {
		if err := h.c.Replay(kafka.Offset(len(h.log)+i), kafka.NoProducerID, r.Key, r.Value); err != nil {
			h.t.Fatal(err)
		}
		e := entry{key: record.AppendKey(nil, r.Key), producer: kafka.NoProducerID}
		if r.Value != nil {
			e.value = record.AppendValue(nil, r.Value, r.Version)
		}
		entries = append(entries, e)
	}
	if code := h.refuse; code != 0 && len(entries) > 0 {
		h.refuse = 0
		for _, r := range out.Replies {
			h.print("%s: failed %d", h.tag(r.Token), code)
		}
		var back coordinator.Effects
		h.c.Revert(h.now, code, &back)
		h.perform(&back)
		return
	}
	h.log = append(h.log, entries...)
	h.c.Appended()
	for _, r := range out.Records {
		h.print("%s", h.shown(r))
	}
	for _, r := range out.Replies {
		h.print("%s: %s", h.tag(r.Token), h.answer(h.tag(r.Token), r.Body))
	}
}

func (h *harness) print(format string, a ...any) {
	if h.quiet {
		return
	}
	line := fmt.Sprintf(format, a...)
	for _, tag := range slices.Sorted(maps.Keys(h.refs)) {
		line = strings.ReplaceAll(line, h.refs[tag], "$"+tag)
	}
	h.out.WriteString(line + "\n")
}

func (h *harness) tag(token uint64) string { return h.tags[token] }

// request sends a body for the member called tag.
func (h *harness) request(tag string, body any) {
	h.token++
	h.tags[h.token] = tag
	h.step(coordinator.Request{Token: h.token, Body: body, ClientID: "c" + tag, Host: "/127.0.0.1"})
}

// advance lets time pass, from deadline to deadline.
func (h *harness) advance(d time.Duration) {
	end := h.now.Mono.Add(d)
	for h.c.Deadline() <= end {
		h.pass(max(h.c.Deadline(), h.now.Mono))
		h.step(coordinator.DeadlineReached{})
	}
	h.pass(end)
}

func (h *harness) pass(to kafka.Mono) {
	h.now.Wall += kafka.WallMs(to.Sub(h.now.Mono) / time.Millisecond)
	h.now.Mono = to
}

func (h *harness) id(ref string) string {
	if tag, ok := strings.CutPrefix(ref, "$"); ok {
		return h.refs[tag]
	}
	return ref
}

// command runs one line of a script.
func (h *harness) command(line string) {
	f := strings.Fields(line)
	word := f[0]
	if len(f) > 1 && !strings.Contains(f[1], "=") {
		f = append([]string{f[0], "as=" + f[1]}, f[2:]...)
	}
	a := parseArgs(f[1:])
	tag := a["as"]
	group := a.text("group", "g")
	switch word {
	case "set":
		h.opts.InitialRebalanceDelayMs = int32(a.num("delay", int64(h.opts.InitialRebalanceDelayMs)))
		h.opts.MaxSize = int32(a.num("size", int64(h.opts.MaxSize)))
		h.opts.RetentionMs = a.num("retention", h.opts.RetentionMs)
		h.opts.RetentionCheckMs = a.num("check", h.opts.RetentionCheckMs)
		h.load()
	case "load":
		h.load()
	case "refuse":
		h.refuse = kafka.ErrorCode(a.num("code", int64(kafka.ErrNotEnoughReplicas)))
	case "advance":
		h.advance(time.Duration(a.num("ms", 0)) * time.Millisecond)
	case "wall": // somebody sets the clock
		h.now.Wall += kafka.WallMs(a.num("ms", 0))
	case "join":
		h.request(tag, h.joinRequest(group, tag, a))
	case "sync":
		h.request(tag, h.syncRequest(group, tag, a))
	case "heartbeat":
		q := kmsg.NewPtrHeartbeatRequest()
		q.SetVersion(4)
		q.Group, q.MemberID, q.Generation, q.InstanceID = group, h.id(a.text("member", "$"+tag)), int32(a.num("gen", 1)), a.maybe("static")
		h.request(tag, q)
	case "leave":
		q := kmsg.NewPtrLeaveGroupRequest()
		q.SetVersion(int16(a.num("v", 5)))
		q.Group, q.MemberID = group, h.id(a.text("member", "$"+tag))
		for _, m := range a.list("members") {
			m, instance, static := strings.Cut(m, "/")
			one := kmsg.LeaveGroupRequestMember{MemberID: h.id(m)}
			if static {
				one.InstanceID = &instance
			}
			q.Members = append(q.Members, one)
		}
		h.request(tag, q)
	case "commit":
		h.request(tag, h.commitRequest(group, tag, a))
	case "txn": // an offset of a transaction, or its end
		h.transaction(group, a)
	case "fetch":
		q := &FetchOffsets{RequireStable: a["stable"] != ""}
		q.Group.Group, q.Group.MemberEpoch = group, -1
		for _, tp := range a.list("topics") {
			topic, n := topicOf(tp)
			q.Group.Topics = append(q.Group.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: topic, TopicID: [16]byte{byte(a.num("id", 0))}, Partitions: []int32{n}})
		}
		h.request(tag, q)
	case "forget":
		q := kmsg.NewPtrOffsetDeleteRequest()
		q.Group = group
		for _, tp := range a.list("topics") {
			topic, n := topicOf(tp)
			q.Topics = append(q.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: n}}})
		}
		h.request(tag, q)
	case "gone":
		var e PartitionsDeleted
		for _, tp := range a.list("topics") {
			topic, n := topicOf(tp)
			e.Partitions = append(e.Partitions, kafka.TopicPartition{Topic: topic, Partition: kafka.PartitionID(n)})
		}
		h.step(e)
	case "describe":
		h.request(tag, &Describe{IDs: []string{group}, Version: int16(a.num("v", 6))})
	case "list":
		h.request(tag, &List{States: a.list("states"), Types: a.list("types")})
	case "delete":
		h.request(tag, &Delete{IDs: a.list("groups")})
	case "foreign":
		h.foreignRecord(group, a)
	default:
		h.t.Fatalf("unknown command %q", line)
	}
}

func topicOf(tp string) (string, int32) {
	topic, n, _ := strings.Cut(tp, "/")
	var p int32
	fmt.Sscan(n, &p)
	return topic, p
}

// subscriptionOf is a consumer's metadata.
func subscriptionOf(topics ...string) []byte {
	b := []byte{0, 1, 0, 0, 0, byte(len(topics))}
	for _, t := range topics {
		b = append(append(b, 0, byte(len(t))), t...)
	}
	return append(b, 0, 0, 0, 0)
}

func (h *harness) joinRequest(group, tag string, a args) *kmsg.JoinGroupRequest {
	q := kmsg.NewPtrJoinGroupRequest()
	q.SetVersion(int16(a.num("v", 9)))
	q.Group, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = group, int32(a.num("session", 10_000)), int32(a.num("rebalance", 60_000))
	q.ProtocolType, q.InstanceID = a.text("type", consumerProtocol), a.maybe("static")
	if m, ok := a["member"]; ok {
		q.MemberID = h.id(m)
	}
	for _, p := range strings.Split(a.text("protocols", "range"), ",") {
		meta := subscriptionOf(strings.Split(a.text("topics", "t"), ",")...)
		if raw, ok := a["raw"]; ok {
			meta = []byte(raw)
		}
		q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: meta})
	}
	return q
}

// syncRequest: assign=A:x,B:y are the assignments.
func (h *harness) syncRequest(group, tag string, a args) *kmsg.SyncGroupRequest {
	q := kmsg.NewPtrSyncGroupRequest()
	q.SetVersion(5)
	q.Group, q.MemberID, q.Generation, q.InstanceID = group, h.id(a.text("member", "$"+tag)), int32(a.num("gen", 1)), a.maybe("static")
	kind, name := a.text("type", consumerProtocol), a.text("protocol", "range")
	q.ProtocolType, q.Protocol = &kind, &name
	for _, x := range a.list("assign") {
		m, to, _ := strings.Cut(x, ":")
		q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: h.id("$" + m), MemberAssignment: []byte(to)})
	}
	return q
}

// commitRequest: offsets=t/0:5,t/1:6.
func (h *harness) commitRequest(group, tag string, a args) *kmsg.OffsetCommitRequest {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.SetVersion(int16(a.num("v", 8)))
	q.Group, q.Generation, q.InstanceID, q.RetentionTimeMillis = group, int32(a.num("gen", -1)), a.maybe("static"), a.num("retention", -1)
	if m, ok := a["member"]; ok {
		q.MemberID = h.id(m)
	}
	for _, x := range a.list("offsets") {
		tp, at, _ := strings.Cut(x, ":")
		topic, n := topicOf(tp)
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition = n
		fmt.Sscan(at, &p.Offset)
		meta := a["meta"]
		if n := a.num("long", 0); n > 0 {
			meta = strings.Repeat("x", int(n))
		}
		p.Metadata = &meta
		q.Topics = append(q.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic, TopicID: [16]byte{byte(a.num("id", 0))}, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}})
	}
	return q
}

// transaction appends what a transactional producer would have written.
func (h *harness) transaction(group string, a args) {
	producer := kafka.ProducerID(a.num("producer", 1))
	if end, ok := a["end"]; ok {
		e := entry{producer: producer, end: 1}
		if end == "abort" {
			e.end = 2
		}
		h.log = append(h.log, e)
		h.c.EndTransaction(producer, e.end == 1)
		return
	}
	for _, x := range a.list("offsets") {
		tp, at, _ := strings.Cut(x, ":")
		topic, n := topicOf(tp)
		v := record.NewOffsetCommitValue()
		fmt.Sscan(at, &v.Offset)
		v.CommitTimestamp = h.now.Wall
		k := &record.OffsetCommitKey{Group: group, Topic: topic, Partition: kafka.PartitionID(n)}
		if err := h.c.Replay(kafka.Offset(len(h.log)), producer, k, v); err != nil {
			h.t.Fatal(err)
		}
		h.c.Appended()
		h.log = append(h.log, entry{key: record.AppendKey(nil, k), value: record.AppendValue(nil, v, offsetVersion), producer: producer})
	}
}

// foreignRecord appends a record of another kind of group: kind=consumer
// what=group|target|member|current|assigned, epoch, id; none=1 for a tombstone.
func (h *harness) foreignRecord(group string, a args) {
	id, epoch := a.text("id", "m1"), int32(a.num("epoch", 1))
	var key, value record.Message
	switch a["kind"] + " " + a["what"] {
	case "consumer group":
		v := record.NewConsumerGroupMetadataValue()
		v.Epoch = epoch
		key, value = &record.ConsumerGroupMetadataKey{GroupID: group}, v
	case "consumer target":
		v := record.NewConsumerGroupTargetAssignmentMetadataValue()
		v.AssignmentEpoch = epoch
		key, value = &record.ConsumerGroupTargetAssignmentMetadataKey{GroupID: group}, v
	case "consumer member":
		v := record.NewConsumerGroupMemberMetadataValue()
		v.SubscribedTopicNames = a.list("topics")
		key, value = &record.ConsumerGroupMemberMetadataKey{GroupID: group, MemberID: id}, v
	case "consumer assigned":
		key, value = &record.ConsumerGroupTargetAssignmentMemberKey{GroupID: group, MemberID: id}, record.NewConsumerGroupTargetAssignmentMemberValue()
	case "consumer current":
		v := record.NewConsumerGroupCurrentMemberAssignmentValue()
		v.MemberEpoch = epoch
		key, value = &record.ConsumerGroupCurrentMemberAssignmentKey{GroupID: group, MemberID: id}, v
	case "share group":
		v := record.NewShareGroupMetadataValue()
		v.Epoch = epoch
		key, value = &record.ShareGroupMetadataKey{GroupID: group}, v
	case "streams group":
		v := record.NewStreamsGroupMetadataValue()
		v.Epoch = epoch
		key, value = &record.StreamsGroupMetadataKey{GroupID: group}, v
	default:
		h.t.Fatalf("no such record: %v", a)
	}
	e := entry{key: record.AppendKey(nil, key), producer: kafka.NoProducerID}
	if a["none"] != "" {
		value = nil
	} else {
		lo, hi := value.Versions()
		e.value = record.AppendValue(nil, value, max(lo, hi))
	}
	if err := h.c.Replay(kafka.Offset(len(h.log)), kafka.NoProducerID, key, value); err != nil {
		h.t.Fatal(err)
	}
	h.c.Appended()
	h.log = append(h.log, e)
}

func (h *harness) shown(r coordinator.Record) string {
	what := "gone"
	switch v := r.Value.(type) {
	case *record.GroupMetadataValue:
		var members []string
		for _, m := range v.Members {
			members = append(members, fmt.Sprintf("%s=%q", m.MemberID, m.Assignment))
		}
		what = fmt.Sprintf("v%d generation=%d protocol=%s leader=%s members=%v", r.Version, v.Generation, str(v.Protocol), str(v.Leader), members)
	case *record.OffsetCommitValue:
		what = fmt.Sprintf("v%d offset=%d", r.Version, v.Offset)
		if v.ExpireTimestamp != kafka.NoTimestamp {
			what += fmt.Sprintf(" expires=+%d", v.ExpireTimestamp-h.now.Wall)
		}
	}
	switch k := r.Key.(type) {
	case *record.GroupMetadataKey:
		return fmt.Sprintf("  group %s %s", k.Group, what)
	case *record.OffsetCommitKey:
		return fmt.Sprintf("  offset %s %s/%d %s", k.Group, k.Topic, k.Partition, what)
	}
	return fmt.Sprintf("  %s %s", r.Key.Kind(), what)
}

func str(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func code(c int16) string {
	if c == 0 {
		return "ok"
	}
	return kafka.ErrorCode(c).String()
}

// answer shows a reply, and remembers the member id that it gives.
func (h *harness) answer(tag string, body any) string {
	var b strings.Builder
	switch r := body.(type) {
	case *kmsg.JoinGroupResponse:
		if r.MemberID != "" && tag != "" {
			h.refs[tag] = r.MemberID
		}
		fmt.Fprintf(&b, "joined %s member=%s", code(r.ErrorCode), r.MemberID)
		if r.ErrorCode == 0 {
			fmt.Fprintf(&b, " generation=%d protocol=%s leader=%s", r.Generation, str(r.Protocol), r.LeaderID)
			if r.SkipAssignment {
				b.WriteString(" skip")
			}
			var ids []string
			for _, m := range r.Members {
				ids = append(ids, m.MemberID)
			}
			if len(ids) > 0 {
				fmt.Fprintf(&b, " members=%v", ids)
			}
		}
	case *kmsg.SyncGroupResponse:
		fmt.Fprintf(&b, "synced %s %q", code(r.ErrorCode), r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		fmt.Fprintf(&b, "heartbeat %s", code(r.ErrorCode))
	case *kmsg.LeaveGroupResponse:
		fmt.Fprintf(&b, "left %s", code(r.ErrorCode))
		for _, m := range r.Members {
			fmt.Fprintf(&b, " %s/%s=%s", m.MemberID, str(m.InstanceID), code(m.ErrorCode))
		}
	case *kmsg.OffsetCommitResponse:
		b.WriteString("committed")
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, " %s/%d=%s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
	case *kmsg.OffsetFetchResponseGroup:
		fmt.Fprintf(&b, "offsets %s", code(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, " %s/%d=%d", t.Topic, p.Partition, p.Offset)
				if p.ErrorCode != 0 {
					fmt.Fprintf(&b, "(%s)", code(p.ErrorCode))
				}
				if str(p.Metadata) != "" {
					fmt.Fprintf(&b, "%q", *p.Metadata)
				}
			}
		}
	case *kmsg.OffsetDeleteResponse:
		fmt.Fprintf(&b, "deleted %s", code(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, " %s/%d=%s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
	case []kmsg.DescribeGroupsResponseGroup:
		for _, g := range r {
			fmt.Fprintf(&b, "%s %s %s type=%q protocol=%q", g.Group, code(g.ErrorCode), g.State, g.ProtocolType, g.Protocol)
			for _, m := range g.Members {
				fmt.Fprintf(&b, " %s/%s %s %s %q", m.MemberID, str(m.InstanceID), m.ClientID, m.ClientHost, m.MemberAssignment)
			}
		}
	case []kmsg.ListGroupsResponseGroup:
		b.WriteString("groups")
		for _, g := range r {
			fmt.Fprintf(&b, " %s(%s,%s,%s)", g.Group, g.GroupType, g.GroupState, g.ProtocolType)
		}
	case []kmsg.DeleteGroupsResponseGroup:
		b.WriteString("groups deleted")
		for _, g := range r {
			fmt.Fprintf(&b, " %s=%s", g.Group, code(g.ErrorCode))
		}
	default:
		h.t.Fatalf("unknown reply %T", body)
	}
	return b.String()
}
