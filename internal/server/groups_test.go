package server_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// findGroup asks for a group's coordinator until there is one.
func (c *client) findGroup(id string) kmsg.FindCoordinatorResponseCoordinator {
	c.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{id}
	for end := time.Now().Add(patience); ; {
		f := call[*kmsg.FindCoordinatorResponse](c, req, 6).Coordinators[0]
		if f.ErrorCode == 0 {
			return f
		}
		wantCode(c.t, "find "+id, f.ErrorCode, kafka.ErrCoordinatorNotAvailable)
		if time.Now().After(end) {
			c.t.Fatalf("no coordinator of %s", id)
		}
	}
}

// again repeats a request while its coordinator is loading.
func again[R kmsg.Response](c *client, req kmsg.Request, version int16, code func(R) int16) R {
	c.t.Helper()
	for end := time.Now().Add(patience); ; {
		r := call[R](c, req, version)
		if n := kafka.ErrorCode(code(r)); n != kafka.ErrCoordinatorLoadInProgress && n != kafka.ErrNotCoordinator || time.Now().After(end) {
			return r
		}
	}
}

func commitRequest(group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (c *client) commit(group, topic string, offset int64) {
	c.t.Helper()
	r := again(c, commitRequest(group, topic, 0, offset), 9, commitCode)
	wantCode(c.t, "commit", commitCode(r), 0)
}

func commitCode(r *kmsg.OffsetCommitResponse) int16 { return r.Topics[0].Partitions[0].ErrorCode }

// committedTo is the offset committed for partition 0 of a topic; −1: none.
func (c *client) committedTo(group, topic string) int64 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	r := again(c, req, 8, func(r *kmsg.OffsetFetchResponse) int16 { return r.Groups[0].ErrorCode })
	wantCode(c.t, "fetch offsets", r.Groups[0].ErrorCode, 0)
	p := r.Groups[0].Topics[0].Partitions[0]
	wantCode(c.t, "fetch offsets", p.ErrorCode, 0)
	return p.Offset
}

// startGroups runs a node with few partitions of __consumer_offsets, and a topic t.
func startGroups(t *testing.T, sets ...string) (*node, *client) {
	t.Helper()
	n := start(t, append([]string{"offsets.topic.num.partitions=5"}, sets...)...)
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	return n, c
}

// HC-140, Trap 9: many clients at once have the topic created once, with its
// settings stored. Fails without creatable's settings, or without autoCreation's
// memory of what is under way.
func TestHC140Trap9TheOffsetsTopicIsCreatedOnce(t *testing.T) {
	n := start(t, "offsets.topic.num.partitions=7", "offsets.topic.segment.bytes=2097152")
	began := time.Now()
	var work sync.WaitGroup
	for i := range 20 {
		c := n.dial()
		work.Add(1)
		go func() {
			defer work.Done()
			if f := c.findGroup(fmt.Sprint("g", i)); f.NodeID != 1 || fmt.Sprintf("%s:%d", f.Host, f.Port) != n.addr {
				t.Errorf("%+v", f)
			}
		}()
	}
	work.Wait()
	t.Logf("the first coordinator was there after %s", time.Since(began))
	topic := n.s.Image().TopicByName(kafka.ConsumerOffsetsTopic)
	if topic.NumPartitions() != 7 {
		t.Errorf("%d partitions", topic.NumPartitions())
	}
	if strings.Contains(n.log.String(), "refused") {
		t.Error(n.log.String())
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	q := kmsg.NewDescribeConfigsRequestResource()
	q.ResourceType, q.ResourceName = kmsg.ConfigResourceTypeTopic, kafka.ConsumerOffsetsTopic
	req.Resources = append(req.Resources, q)
	got := map[string]string{}
	for _, e := range call[*kmsg.DescribeConfigsResponse](n.dial(), req, 4).Resources[0].Configs {
		if e.Source == kmsg.ConfigSourceDynamicTopicConfig {
			got[e.Name] = *e.Value
		}
	}
	if want := map[string]string{"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "2097152"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("stored settings %v", got)
	}
}

// HC-140: the table of answers. Fails if one key's error spoils the others.
func TestHC140FindCoordinator(t *testing.T) {
	_, c := startGroups(t)
	old := kmsg.NewPtrFindCoordinatorRequest()
	old.CoordinatorKey = "g"
	for version := int16(0); version < 4; version++ {
		if f := call[*kmsg.FindCoordinatorResponse](c, old, version); f.ErrorCode != 0 || f.NodeID != 1 || f.Port <= 0 {
			t.Errorf("version %d: %+v", version, f)
		}
	}
	old.CoordinatorType = 9
	wantCode(t, "type 9", call[*kmsg.FindCoordinatorResponse](c, old, 3).ErrorCode, kafka.ErrInvalidRequest)
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{"a", "", "b"}
	for version := int16(4); version <= 6; version++ {
		r := call[*kmsg.FindCoordinatorResponse](c, req, version)
		for i, f := range r.Coordinators {
			if len(r.Coordinators) != 3 || f.ErrorCode != 0 || f.NodeID != 1 || f.Key != req.CoordinatorKeys[i] {
				t.Errorf("version %d: %+v", version, r)
			}
		}
	}
	req.CoordinatorType = 1
	r := call[*kmsg.FindCoordinatorResponse](c, req, 6)
	wantCode(t, "empty transactional id", r.Coordinators[1].ErrorCode, kafka.ErrInvalidRequest)
	wantCode(t, "transactional id", r.Coordinators[0].ErrorCode, kafka.ErrCoordinatorNotAvailable)
}

// A replication factor that the cluster cannot give: clients are told to come
// back, as by Kafka, until there are brokers enough.
func TestOffsetsTopicNeedsItsReplicas(t *testing.T) {
	n := start(t, "offsets.topic.replication.factor=3")
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{"g"}
	c := n.dial()
	wantCode(t, "find", call[*kmsg.FindCoordinatorResponse](c, req, 6).Coordinators[0].ErrorCode, kafka.ErrCoordinatorNotAvailable)
	wantCode(t, "commit", commitCode(call[*kmsg.OffsetCommitResponse](c, commitRequest("g", kafka.ConsumerOffsetsTopic, 0, 1), 9)), kafka.ErrUnknownTopicOrPartition)
}

// What was acknowledged is there after a stop and after a kill. Fails if the log
// is not loaded, or an answer comes before the append.
func TestCommitsSurvive(t *testing.T) {
	for _, codec := range []string{"0", "4"} {
		n, c := startGroups(t, "offsets.topic.compression.codec="+codec)
		for i := range int64(20) {
			c.commit(fmt.Sprint("g", i), "t", i)
		}
		c.commit("", "t", 77) // the empty group may commit, as in Kafka
		check := func(what string, n *node) {
			t.Helper()
			c := n.dial()
			for i := range int64(20) {
				if got := c.committedTo(fmt.Sprint("g", i), "t"); got != i {
					t.Fatalf("%s: group %d is at %d", what, i, got)
				}
			}
			if got := c.committedTo("", "t"); got != 77 {
				t.Fatalf("%s: the empty group is at %d", what, got)
			}
			if got := c.committedTo("nosuch", "t"); got != -1 {
				t.Fatalf("%s: a group that does not exist is at %d", what, got)
			}
		}
		check("at once", n)
		check("after a kill", n.killed())
		n.restart()
		check("after a stop", n)
		if !strings.Contains(n.log.String(), "coordinator loaded") {
			t.Error("no line about loading")
		}
	}
}

// A deleted topic takes its offsets along (HC-169). Fails without follow's
// Notify.
func TestADeletedTopicTakesItsOffsetsAlong(t *testing.T) {
	_, c := startGroups(t)
	c.create("other", 1)
	c.commit("g", "t", 5)
	c.commit("g", "other", 6)
	c.remove("t")
	for end := time.Now().Add(patience); c.committedTo("g", "t") != -1; {
		if time.Now().After(end) {
			t.Fatal("the offset is still there")
		}
	}
	if got := c.committedTo("g", "other"); got != 6 {
		t.Errorf("the other topic is at %d", got)
	}
}

// alterTopic sets settings of a topic, each key=value.
func (c *client) alterTopic(topic string, settings ...string) {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		k.Name, k.Value = name, &value
		r.Configs = append(r.Configs, k)
	}
	req.Resources = append(req.Resources, r)
	wantCode(c.t, fmt.Sprint(settings), call[*kmsg.IncrementalAlterConfigsResponse](c, req, 1).Resources[0].ErrorCode, 0)
}

// Trap 2 through the whole node: the log refuses, the state stays, the
// leadership too.
func TestTrap2CommitsThatTheLogRefuses(t *testing.T) {
	n, c := startGroups(t)
	c.commit("g", "t", 5)
	set := func(name, value string) { c.alterTopic(kafka.ConsumerOffsetsTopic, name+"="+value) }
	set("max.message.bytes", "100")
	r := call[*kmsg.OffsetCommitResponse](c, commitRequest("g", "t", 0, 6), 9)
	wantCode(t, "too large", commitCode(r), kafka.ErrUnknownServerError)
	if got := c.committedTo("g", "t"); got != 5 {
		t.Fatalf("at %d after a refused commit", got)
	}
	set("max.message.bytes", "1000000")
	set("message.timestamp.type", "LogAppendTime")
	set("compression.type", "zstd")
	set("flush.messages", "1")
	c.commit("g", "t", 7)
	if got := n.killed().dial().committedTo("g", "t"); got != 7 {
		t.Fatalf("at %d", got)
	}
}

// member is one member of a group, with a connection of its own.
type member struct {
	*client
	id string
}

func (m *member) joinRequest(rebalanceMs int32) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = "g", m.id, 30_000, rebalanceMs, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte("subscription")
	req.Protocols = append(req.Protocols, p)
	return req
}

// enter gets a member id.
func (m *member) enter() *member {
	m.t.Helper()
	r := again(m.client, m.joinRequest(10_000), 9, func(r *kmsg.JoinGroupResponse) int16 { return r.ErrorCode })
	wantCode(m.t, "first join", r.ErrorCode, kafka.ErrMemberIDRequired)
	m.id = r.MemberID
	return m
}

func (m *member) heartbeat(generation int32) kafka.ErrorCode {
	m.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = "g", generation, m.id
	return kafka.ErrorCode(call[*kmsg.HeartbeatResponse](m.client, req, 4).ErrorCode)
}

// The life of a group over the wire: two members join, sync, commit; one leaves;
// the group is described, listed and, once empty, deleted.
func TestAGroupsLife(t *testing.T) {
	n, c := startGroups(t)
	a, b := (&member{client: n.dial()}).enter(), (&member{client: n.dial()}).enter()
	first := call[*kmsg.JoinGroupResponse](a.client, a.joinRequest(10_000), 9)
	wantCode(t, "join alone", first.ErrorCode, 0)
	join := b.joinRequest(10_000)
	joining := b.send(join, 9) // waits for a
	for a.heartbeat(first.Generation) != kafka.ErrRebalanceInProgress {
	}
	ra := call[*kmsg.JoinGroupResponse](a.client, a.joinRequest(10_000), 9)
	rb := b.receive(join, joining).(*kmsg.JoinGroupResponse)
	if ra.ErrorCode != 0 || rb.ErrorCode != 0 || ra.Generation != rb.Generation || ra.LeaderID != a.id || rb.LeaderID != a.id || len(ra.Members) != 2 || len(rb.Members) != 0 {
		t.Fatalf("%+v\n%+v", ra, rb)
	}
	sync := func(m *member, shares ...string) *kmsg.SyncGroupRequest {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.Generation, req.MemberID, req.ProtocolType, req.Protocol = "g", ra.Generation, m.id, ra.ProtocolType, ra.Protocol
		for i, m := range []*member{a, b} {
			if i < len(shares) {
				s := kmsg.NewSyncGroupRequestGroupAssignment()
				s.MemberID, s.MemberAssignment = m.id, []byte(shares[i])
				req.GroupAssignment = append(req.GroupAssignment, s)
			}
		}
		return req
	}
	follower := sync(b)
	corr := b.send(follower, 5)
	sa := call[*kmsg.SyncGroupResponse](a.client, sync(a, "share of a", "share of b"), 5)
	sb := b.receive(follower, corr).(*kmsg.SyncGroupResponse)
	if sa.ErrorCode != 0 || sb.ErrorCode != 0 || string(sa.MemberAssignment) != "share of a" || string(sb.MemberAssignment) != "share of b" {
		t.Fatalf("%+v\n%+v", sa, sb)
	}
	if code := b.heartbeat(ra.Generation); code != 0 {
		t.Fatal(code)
	}
	commit := commitRequest("g", "t", 0, 42)
	wantCode(t, "commit of a stranger", commitCode(call[*kmsg.OffsetCommitResponse](c, commit, 9)), kafka.ErrUnknownMemberID)
	commit.Generation, commit.MemberID = ra.Generation, b.id
	wantCode(t, "commit", commitCode(call[*kmsg.OffsetCommitResponse](c, commit, 9)), 0)

	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = []string{"g"}, true
	d := call[*kmsg.DescribeGroupsResponse](c, describe, 6).Groups[0]
	if d.State != "Stable" || len(d.Members) != 2 || d.Members[0].ClientHost != "/127.0.0.1" || d.Members[0].ClientID != "raw" || d.AuthorizedOperations != 0xd48 {
		t.Fatalf("%+v", d)
	}
	after := n.killed().dial() // the generation is in the log
	d = call[*kmsg.DescribeGroupsResponse](after, describe, 6).Groups[0]
	for d.ErrorCode == int16(kafka.ErrCoordinatorLoadInProgress) || d.ErrorCode == int16(kafka.ErrNotCoordinator) {
		d = call[*kmsg.DescribeGroupsResponse](after, describe, 6).Groups[0]
	}
	if d.State != "Stable" || len(d.Members) != 2 || string(d.Members[0].MemberAssignment) == "" {
		t.Fatalf("after a kill: %+v", d)
	}

	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"g", "nosuch", "g"}
	codes := func() string {
		var out []string
		for _, g := range call[*kmsg.DeleteGroupsResponse](c, remove, 2).Groups {
			out = append(out, fmt.Sprint(g.Group, " ", kafka.ErrorCode(g.ErrorCode)))
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	if got := codes(); got != "g NON_EMPTY_GROUP, nosuch GROUP_ID_NOT_FOUND" {
		t.Fatal(got)
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = "g"
	for _, m := range []*member{a, b} {
		p := kmsg.NewLeaveGroupRequestMember()
		p.MemberID = m.id
		leave.Members = append(leave.Members, p)
	}
	wantCode(t, "leave", call[*kmsg.LeaveGroupResponse](c, leave, 5).ErrorCode, 0)
	list := kmsg.NewPtrListGroupsRequest()
	list.StatesFilter = []string{"Empty"}
	if l := call[*kmsg.ListGroupsResponse](c, list, 5); l.ErrorCode != 0 || len(l.Groups) != 1 || l.Groups[0].Group != "g" || l.Groups[0].GroupType != "classic" {
		t.Fatalf("%+v", l)
	}
	if got := codes(); got != "g NONE, nosuch GROUP_ID_NOT_FOUND" {
		t.Fatal(got)
	}
	if got := c.committedTo("g", "t"); got != -1 {
		t.Errorf("offset %d of a deleted group", got)
	}
}

// HC-156: effects of pipelined requests keep their order, beside a JoinGroup of
// another client that waits. Fails if a request starts before its predecessor is
// answered.
func TestHC156PipelinedCommitsKeepTheirOrder(t *testing.T) {
	n, _ := startGroups(t)
	const connections, commits, window = 20, 200, 20
	var work sync.WaitGroup
	for i := range connections {
		c := n.dial()
		work.Add(1)
		go func() {
			defer work.Done()
			group := fmt.Sprint("g", i)
			c.findGroup(group)
			c.commit(group, "t", 0)
			var corrs []int32
			reqs := make([]*kmsg.OffsetCommitRequest, commits+1)
			for k := range commits + window {
				if k < commits {
					reqs[k] = commitRequest(group, "t", 0, int64(k+1))
					corrs = append(corrs, c.send(reqs[k], 9))
				}
				if k >= window {
					if code := commitCode(c.receive(reqs[k-window], corrs[k-window]).(*kmsg.OffsetCommitResponse)); code != 0 {
						t.Errorf("commit: %v", kafka.ErrorCode(code))
					}
				}
			}
			if got := c.committedTo(group, "t"); got != commits {
				t.Errorf("group %d is at %d", i, got)
			}
		}()
	}
	work.Wait()
}

// Trap 13: what a connection that was reset has left behind does not run after
// the client has come back. Fails without the look at the connection before each
// step.
func TestTrap13CommitsOfADeadConnection(t *testing.T) {
	n, c := startGroups(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	rounds := int64(10_000)
	if testing.Short() {
		rounds = 500
	}
	for round := range rounds {
		group := fmt.Sprint("g", round%7)
		conn, err := net.Dial("tcp", n.addr)
		must(t, err)
		var frames []byte
		for k := range int64(16) {
			req := commitRequest(group, "t", 0, round*100+k)
			req.SetVersion(9)
			frames = append(frames, kmsg.NewRequestFormatter().AppendRequest(nil, req, int32(k))...)
		}
		must(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Write(frames)
		must(t, err)
		if rnd.IntN(2) == 0 { // wait for some of the answers
			dead := &client{t: t, conn: conn}
			for range rnd.IntN(8) {
				_, err := dead.frame()
				must(t, err)
			}
		}
		must(t, conn.(*net.TCPConn).SetLinger(0))
		conn.Close()
		d := n.dial()
		d.commit(group, "t", round*100+50)
		d.conn.Close()
		for range 3 {
			if got := c.committedTo(group, "t"); got != round*100+50 {
				t.Fatalf("round %d: the offset went back to %d", round, got-round*100)
			}
		}
	}
}
