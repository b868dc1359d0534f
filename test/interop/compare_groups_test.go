package interop

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The groups of these cases: j0 … j9, each with one member that joined with that
// version of JoinGroup.

// groupOf names the group whose member joined with version v+shift.
func groupOf(v, shift int16) string { return fmt.Sprintf("j%d", v+shift) }

// consumerMetadata is what a consumer of t1 says.
var consumerMetadata = []byte{0, 1, 0, 0, 0, 1, 0, 2, 't', '1', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

func joinOf(group, member string, change ...func(*kmsg.JoinGroupRequest)) kmsg.Request {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Group, q.MemberID, q.ProtocolType = group, member, "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 600_000, 60_000
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: consumerMetadata}, {Name: "sticky", Metadata: consumerMetadata}}
	for _, f := range change {
		f(q)
	}
	return q
}

func syncOf(s *side, group string, generation int32, change ...func(*kmsg.SyncGroupRequest)) kmsg.Request {
	q := kmsg.NewPtrSyncGroupRequest()
	q.Group, q.MemberID, q.Generation = group, s.members[group], generation
	q.ProtocolType, q.Protocol = ptr("consumer"), ptr("range")
	q.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: s.members[group], MemberAssignment: []byte("mine")}}
	for _, f := range change {
		f(q)
	}
	return q
}

func beatOf(group, member string, generation int32) kmsg.Request {
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group, q.MemberID, q.Generation = group, member, generation
	return q
}

func commitOf(s *side, group, member string, generation int32, topic string, partitions ...int32) *kmsg.OffsetCommitRequest {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.MemberID, q.Generation = group, member, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, topicID(s, topic)
	for _, n := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = n, int64(100+n), 0, ptr("meta")
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = []kmsg.OffsetCommitRequestTopic{t}
	return q
}

// offsetsOf asks for offsets in the form that the version has; nil topics: all.
func offsetsOf(s *side, v int16, stable bool, topics []string, groups ...string) kmsg.Request {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.RequireStable = stable
	q.Group = groups[0]
	for _, name := range topics {
		q.Topics = append(q.Topics, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: []int32{0, 1, 7}})
	}
	for _, g := range groups {
		r := kmsg.NewOffsetFetchRequestGroup()
		r.Group = g
		for _, name := range topics {
			r.Topics = append(r.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: name, TopicID: topicID(s, name), Partitions: []int32{0, 1, 7}})
		}
		q.Groups = append(q.Groups, r)
	}
	return q
}

func leaveOf(group string, members ...kmsg.LeaveGroupRequestMember) kmsg.Request {
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Group, q.Members = group, members
	if len(members) > 0 {
		q.MemberID = members[0].MemberID
	}
	return q
}

func remember(group string) func(*side, kmsg.Response) {
	return func(s *side, r kmsg.Response) {
		if s.members == nil {
			s.members = map[string]string{}
		}
		s.members[group] = r.(*kmsg.JoinGroupResponse).MemberID
	}
}

func groupCases() []compareCase {
	type R = kmsg.Request
	cases := []compareCase{
		{name: "Create for groups", from: 7, to: 7, req: createTopics(createTopic("t1", 2, 1), createTopic("t2", 1, 1)), settle: true},
		{name: "FindCoordinator first", from: 3, to: 3, req: func(*side, int16) R { return &kmsg.FindCoordinatorRequest{CoordinatorKey: "g"} }, settle: true, until: func(r kmsg.Response) bool {
			return r.(*kmsg.FindCoordinatorResponse).ErrorCode == 0
		}},
		// Enough groups for one on each of the 50 coordinators.
		{name: "DescribeGroups when all have loaded", from: 5, to: 5, req: func(*side, int16) R {
			q := kmsg.NewPtrDescribeGroupsRequest()
			for i := range 500 {
				q.Groups = append(q.Groups, fmt.Sprintf("of-none-%d", i))
			}
			return q
		}, until: func(r kmsg.Response) bool {
			for _, g := range r.(*kmsg.DescribeGroupsResponse).Groups {
				if g.ErrorCode != 0 {
					return false
				}
			}
			return true
		}},
		{name: "FindCoordinator group", from: 0, to: 6, req: func(*side, int16) R {
			return &kmsg.FindCoordinatorRequest{CoordinatorKey: "g", CoordinatorKeys: []string{"g", "", "grüppe"}}
		}},
		{name: "FindCoordinator kind", from: 0, to: 6, req: func(*side, int16) R {
			return &kmsg.FindCoordinatorRequest{CoordinatorType: 9, CoordinatorKey: "g", CoordinatorKeys: []string{"g"}}
		}},
		{name: "ListGroups none", from: 0, to: 5, req: func(*side, int16) R { return kmsg.NewPtrListGroupsRequest() }},
	}
	for v := int16(0); v <= 9; v++ {
		g := groupOf(v, 0)
		cases = append(cases, compareCase{name: "JoinGroup " + g, from: v, to: v, req: func(*side, int16) R { return joinOf(g, "") }, after: remember(g)})
		if v >= 4 {
			cases = append(cases, compareCase{name: "JoinGroup with id " + g, from: v, to: v, req: func(s *side, _ int16) R { return joinOf(g, s.members[g]) }})
		}
	}
	cases = append(cases, joinErrors()...)
	cases = append(cases, memberCases()...)
	cases = append(cases, offsetsOfGroups()...)
	return append(cases, groupAdmin()...)
}

func joinErrors() []compareCase {
	type Q = kmsg.JoinGroupRequest
	join := func(group, member string, change ...func(*Q)) func(*side, int16) kmsg.Request {
		return func(s *side, _ int16) kmsg.Request {
			if member == "own" {
				return joinOf(group, s.members[group], change...)
			}
			return joinOf(group, member, change...)
		}
	}
	return []compareCase{
		{name: "JoinGroup unknown member", from: 0, to: 9, req: join("nobody", "ghost")},
		{name: "JoinGroup unknown member of a group", from: 0, to: 9, req: join("j9", "ghost")},
		{name: "JoinGroup no group", from: 0, to: 9, req: join("", "")},
		{name: "JoinGroup short session", from: 0, to: 9, req: join("j9", "", func(q *Q) { q.SessionTimeoutMillis = 1 })},
		{name: "JoinGroup long session", from: 0, to: 9, req: join("j9", "", func(q *Q) { q.SessionTimeoutMillis = 1 << 30 })},
		{name: "JoinGroup no protocols", from: 0, to: 9, req: join("fresh", "", func(q *Q) { q.Protocols = nil })},
		{name: "JoinGroup no type", from: 0, to: 9, req: join("fresh", "", func(q *Q) { q.ProtocolType = "" })},
		{name: "JoinGroup other type", from: 0, to: 9, req: join("j9", "", func(q *Q) { q.ProtocolType = "connect" })},
		{name: "JoinGroup other protocols", from: 0, to: 9, req: join("j9", "own", func(q *Q) { q.Protocols[0].Name, q.Protocols[1].Name = "x", "y" })},
		{name: "JoinGroup unknown instance", from: 5, to: 9, req: join("j9", "own", func(q *Q) { q.InstanceID = ptr("i") })},
		{name: "JoinGroup again in the same state", from: 9, to: 9, req: join("j9", "own")},
	}
}

func memberCases() []compareCase {
	type Q = kmsg.SyncGroupRequest
	sync := func(shift int16, generation int32, change ...func(*Q)) func(*side, int16) kmsg.Request {
		return func(s *side, v int16) kmsg.Request { return syncOf(s, groupOf(v, shift), generation, change...) }
	}
	beat := func(group, member string, generation int32) func(*side, int16) kmsg.Request {
		return func(s *side, v int16) kmsg.Request {
			g := group
			if g == "" {
				g = groupOf(v, 4)
			}
			if member == "own" {
				return beatOf(g, s.members[g], generation)
			}
			return beatOf(g, member, generation)
		}
	}
	return []compareCase{
		{name: "Heartbeat before sync", from: 0, to: 4, req: beat("", "own", 1)},
		{name: "OffsetCommit before sync", from: 2, to: 10, req: func(s *side, _ int16) kmsg.Request { return commitOf(s, "j9", s.members["j9"], 1, "t1", 0) }},
		{name: "SyncGroup wrong generation", from: 0, to: 5, req: sync(4, 7)},
		{name: "SyncGroup unknown member", from: 0, to: 5, req: sync(4, 1, func(q *Q) { q.MemberID = "ghost" })},
		{name: "SyncGroup unknown instance", from: 3, to: 5, req: sync(4, 1, func(q *Q) { q.InstanceID = ptr("i") })},
		{name: "SyncGroup no such group", from: 0, to: 5, req: sync(4, 1, func(q *Q) { q.Group = "nobody" })},
		{name: "SyncGroup no group", from: 0, to: 5, req: sync(4, 1, func(q *Q) { q.Group = "" })},
		{name: "SyncGroup other type", from: 5, to: 5, req: sync(4, 1, func(q *Q) { q.ProtocolType = ptr("connect") })},
		{name: "SyncGroup no protocol", from: 5, to: 5, req: sync(4, 1, func(q *Q) { q.Protocol = nil })},
		{name: "SyncGroup", from: 0, to: 5, req: sync(4, 1)},
		{name: "SyncGroup again", from: 0, to: 5, req: sync(4, 1, func(q *Q) { q.GroupAssignment = nil })},
		{name: "JoinGroup follower of nobody", from: 0, to: 3, req: func(s *side, v int16) kmsg.Request { return joinOf(groupOf(v, 0), s.members[groupOf(v, 0)]) }},
		{name: "Heartbeat", from: 0, to: 4, req: beat("", "own", 1)},
		{name: "Heartbeat wrong generation", from: 0, to: 4, req: beat("", "own", 2)},
		{name: "Heartbeat unknown member", from: 0, to: 4, req: beat("", "ghost", 1)},
		{name: "Heartbeat no such group", from: 0, to: 4, req: beat("nobody", "ghost", 1)},
	}
}

func offsetsOfGroups() []compareCase {
	type R = kmsg.Request
	commit := func(group, member string, generation int32, topic string, partitions ...int32) func(*side, int16) R {
		return func(s *side, _ int16) R {
			m := member
			if m == "own" {
				m = s.members[group]
			}
			return commitOf(s, group, m, generation, topic, partitions...)
		}
	}
	fetch := func(stable bool, topics []string, groups ...string) func(*side, int16) R {
		return func(s *side, v int16) R { return offsetsOf(s, v, stable, topics, groups...) }
	}
	return []compareCase{
		{name: "OffsetCommit", from: 2, to: 10, req: commit("j9", "own", 1, "t1", 0, 1)},
		{name: "OffsetCommit no such partition", from: 2, to: 10, req: commit("j9", "own", 1, "t1", 0, 7)},
		{name: "OffsetCommit no such topic", from: 2, to: 10, req: commit("j9", "own", 1, "no-such", 0)},
		{name: "OffsetCommit old generation", from: 2, to: 10, req: commit("j9", "own", 0, "t1", 0)},
		{name: "OffsetCommit unknown member", from: 2, to: 10, req: commit("j9", "ghost", 1, "t1", 0)},
		{name: "OffsetCommit by a tool in a group", from: 2, to: 10, req: commit("j9", "", -1, "t1", 0)},
		{name: "OffsetCommit no such group", from: 2, to: 10, req: commit("nobody", "ghost", 3, "t1", 0)},
		{name: "OffsetCommit simple", from: 2, to: 10, req: commit("simple", "", -1, "t2", 0)},
		{name: "OffsetCommit empty group", from: 2, to: 10, req: commit("", "", -1, "t2", 0)},
		{name: "OffsetCommit long metadata", from: 2, to: 10, req: func(s *side, _ int16) R {
			q := commitOf(s, "simple", "", -1, "t2", 0)
			q.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("x", 4097))
			return q
		}},
		{name: "OffsetFetch", from: 1, to: 10, req: fetch(false, []string{"t1", "t2"}, "j9")},
		{name: "OffsetFetch stable", from: 7, to: 10, req: fetch(true, []string{"t1"}, "j9")},
		{name: "OffsetFetch all", from: 2, to: 10, req: fetch(false, nil, "j9")},
		{name: "OffsetFetch several", from: 8, to: 10, req: fetch(false, []string{"t1"}, "j9", "simple", "nobody", "")},
		{name: "OffsetFetch no such group", from: 1, to: 10, req: fetch(false, []string{"t1", "no-such"}, "nobody")},
		{name: "OffsetFetch all of no such group", from: 2, to: 10, req: fetch(false, nil, "nobody")},
		{name: "OffsetFetch none", from: 1, to: 10, req: fetch(false, []string{}, "j9")},
		{name: "OffsetDelete subscribed", from: 0, to: 0, req: offsetDelete("j9", "t1", 0)},
		{name: "OffsetDelete", from: 0, to: 0, req: offsetDelete("simple", "t2", 0)},
		{name: "OffsetDelete again", from: 0, to: 0, req: offsetDelete("simple", "t2", 0, 7)},
		{name: "OffsetDelete no such topic", from: 0, to: 0, req: offsetDelete("simple", "no-such", 0)},
		{name: "OffsetDelete no such group", from: 0, to: 0, req: offsetDelete("nobody", "t2", 0)},
		{name: "OffsetDelete no group", from: 0, to: 0, req: offsetDelete("", "t2", 0)},
		{name: "OffsetCommit simple again", from: 8, to: 8, req: commit("simple", "", -1, "t2", 0)},
	}
}

func offsetDelete(group, topic string, partitions ...int32) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		q := kmsg.NewPtrOffsetDeleteRequest()
		q.Group = group
		t := kmsg.OffsetDeleteRequestTopic{Topic: topic}
		for _, p := range partitions {
			t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
		}
		q.Topics = []kmsg.OffsetDeleteRequestTopic{t}
		return q
	}
}

func groupAdmin() []compareCase {
	type R = kmsg.Request
	describe := func(groups ...string) func(*side, int16) R {
		return func(*side, int16) R {
			return &kmsg.DescribeGroupsRequest{Groups: groups, IncludeAuthorizedOperations: true}
		}
	}
	list := func(states, types []string) func(*side, int16) R {
		return func(*side, int16) R { return &kmsg.ListGroupsRequest{StatesFilter: states, TypesFilter: types} }
	}
	remove := func(groups ...string) func(*side, int16) R {
		return func(*side, int16) R { return &kmsg.DeleteGroupsRequest{Groups: groups} }
	}
	own := func(v int16, s *side) kmsg.LeaveGroupRequestMember {
		return kmsg.LeaveGroupRequestMember{MemberID: s.members[groupOf(v, 4)]}
	}
	return []compareCase{
		{name: "DescribeGroups", from: 0, to: 6, req: describe("j9", "j3", "simple", "nobody", "")},
		{name: "ListGroups", from: 0, to: 5, req: list(nil, nil)},
		{name: "ListGroups by state", from: 4, to: 5, req: list([]string{"stable", "EMPTY"}, nil)},
		{name: "ListGroups by type", from: 5, to: 5, req: list(nil, []string{"Classic"})},
		{name: "ListGroups by other type", from: 5, to: 5, req: list(nil, []string{"consumer"})},
		{name: "ListGroups by no type", from: 5, to: 5, req: list([]string{"no-such"}, []string{"no-such"})},
		{name: "DeleteGroups", from: 0, to: 2, req: remove("simple", "j9", "nobody", "", "simple")},
		{name: "LeaveGroup unknown", from: 0, to: 5, req: func(_ *side, v int16) R {
			return leaveOf(groupOf(v, 4), kmsg.LeaveGroupRequestMember{MemberID: "ghost"}, kmsg.LeaveGroupRequestMember{InstanceID: ptr("i")})
		}},
		{name: "LeaveGroup no such group", from: 0, to: 5, req: func(*side, int16) R { return leaveOf("nobody", kmsg.LeaveGroupRequestMember{MemberID: "ghost"}) }},
		{name: "LeaveGroup", from: 0, to: 5, req: func(s *side, v int16) R { return leaveOf(groupOf(v, 4), own(v, s)) }},
		{name: "LeaveGroup again", from: 0, to: 5, req: func(s *side, v int16) R { return leaveOf(groupOf(v, 4), own(v, s)) }},
		{name: "DescribeGroups empty", from: 0, to: 6, req: describe("j9")},
		{name: "Heartbeat empty", from: 0, to: 4, req: func(s *side, v int16) R { return beatOf("j9", s.members["j9"], 1) }},
		{name: "SyncGroup empty", from: 0, to: 5, req: func(s *side, v int16) R { return syncOf(s, "j9", 1) }},
		{name: "DeleteGroups empty", from: 2, to: 2, req: remove("j9")},
	}
}
