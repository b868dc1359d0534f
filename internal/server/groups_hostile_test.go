package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func joinRequest(group string, protocols ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, "consumer", 10_000, 10_000
	for _, p := range protocols {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: p})
	}
	return req
}

// HC-145: new versions can carry strings for which the records of the log have
// no room. Kafka's decoders refuse them. Fails, with the process, without
// checkStrings or joinNew's bound.
func TestHC145StringsTooLongForTheLog(t *testing.T) {
	_, good := startGroups(t, "group.initial.rebalance.delay.ms=0")
	long := strings.Repeat("x", 1<<15)
	instance := joinRequest("g", "range")
	instance.InstanceID = &long
	kind := joinRequest("g", "range")
	kind.ProtocolType = long
	metadata := commitRequest("g", "t", 0, 1)
	metadata.Topics[0].Partitions[0].Metadata = &long
	for what, req := range map[string]kmsg.Request{
		"group of a commit": commitRequest(long, "t", 0, 1),
		"group of a join":   joinRequest(long, "range"),
		"instance id":       instance, "protocol type": kind, "protocol": joinRequest("g", "range", long),
		"metadata of a commit": metadata,
	} {
		c := dialTo(t, good.conn.RemoteAddr().String())
		c.send(req, 8)
		c.closed(what)
	}
	most := long[1:]
	instance.InstanceID = &most
	r := again(good, instance, 5, func(r *kmsg.JoinGroupResponse) int16 { return r.ErrorCode })
	wantCode(t, "an instance id that leaves no room", r.ErrorCode, kafka.ErrInvalidRequest)
	good.commit(most, "t", 7)
	if n := good.committedTo(most, "t"); n != 7 {
		t.Errorf("the longest id has %d", n)
	}
}

// A request of a megabyte costs its own connection some time, and no group's
// coordinator. Each of these took minutes. Fails if joins compare each protocol
// with all others, or answers are searched for each topic.
func TestManyNamesInOneRequest(t *testing.T) {
	n, c := startGroups(t)
	c.commit("other", "t", 1)
	join := joinRequest("g")
	commit := commitRequest("g", "t", 0, 1)
	remove := kmsg.NewPtrOffsetDeleteRequest()
	remove.Group = "other"
	for i := range 80_000 {
		name := fmt.Sprintf("%x", i)
		join.Protocols = append(join.Protocols, kmsg.JoinGroupRequestProtocol{Name: name})
		commit.Topics = append(commit.Topics, kmsg.OffsetCommitRequestTopic{Topic: name, Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, 1)})
		remove.Topics = append(remove.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name, Partitions: make([]kmsg.OffsetDeleteRequestTopicPartition, 1)})
	}
	began := time.Now()
	wantCode(t, "join", call[*kmsg.JoinGroupResponse](n.dial(), join, 6).ErrorCode, kafka.ErrMemberIDRequired)
	if r := call[*kmsg.OffsetCommitResponse](n.dial(), commit, 8); len(r.Topics) != 80_001 {
		t.Errorf("%d topics are answered", len(r.Topics))
	}
	if r := call[*kmsg.OffsetDeleteResponse](n.dial(), remove, 0); len(r.Topics) != 80_000 {
		t.Errorf("%d topics are answered", len(r.Topics))
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("took %s", took)
	}
}

// Names are short, groups may be large: whoever asks for the same again and again
// is refused. Fails without checkDescribed or checkFetched: such answers have
// gigabytes.
func TestQuestionsAskedTooOften(t *testing.T) {
	n, c := startGroups(t)
	c.commit("g", "t", 7)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	fetch, parts := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrOffsetFetchRequest()
	few := kmsg.NewOffsetFetchRequestGroup()
	few.Group = "g"
	few.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: make([]int32, 10_001)}}
	parts.Groups = append(parts.Groups, few)
	for range 11 {
		describe.Groups = append(describe.Groups, "g")
		fetch.Groups = append(fetch.Groups, kmsg.OffsetFetchRequestGroup{Group: "g"})
	}
	if r := call[*kmsg.DescribeGroupsResponse](c, describe, 5); len(r.Groups) != 11 {
		t.Errorf("%d groups are described", len(r.Groups))
	}
	if r := call[*kmsg.OffsetFetchResponse](c, fetch, 8); len(r.Groups) != 11 || r.Groups[10].Topics[0].Partitions[0].Offset != 7 {
		t.Errorf("%d groups are fetched", len(r.Groups))
	}
	if r := call[*kmsg.OffsetFetchResponse](c, parts, 8); len(r.Groups[0].Topics[0].Partitions) != 10_001 {
		t.Error("partitions are missing")
	}
	describe.Groups = append(describe.Groups, "g")
	fetch.Groups = append(fetch.Groups, fetch.Groups[0])
	few.Topics[0].Partitions = make([]int32, 10_002)
	for _, ask := range []struct {
		req     kmsg.Request
		version int16
	}{{describe, 5}, {fetch, 8}, {parts, 8}} {
		x := n.dial()
		x.send(ask.req, ask.version)
		x.closed(kmsg.NameForKey(ask.req.Key()))
	}
}

// The commits of many clients are written as one, which has to fit into a segment
// too. Fails if stateLog looks at max.message.bytes only: some fail whenever their
// sum is more.
func TestBatchesOfManyCommitsFitIntoSegments(t *testing.T) {
	n, c := startGroups(t, "offsets.topic.num.partitions=1", "offset.metadata.max.bytes=32000")
	c.create("wide", 30)
	c.commit("g", "t", 1)
	c.alterTopic(kafka.ConsumerOffsetsTopic, "segment.bytes=1048576", "max.message.bytes=10485760")
	metadata := strings.Repeat("m", 32000)
	var work sync.WaitGroup
	for i := range 32 {
		x := n.dial()
		work.Go(func() {
			req := commitRequest(fmt.Sprint("g", i), "wide", 0, 1)
			for p := range int32(20) {
				one := req.Topics[0].Partitions[0]
				one.Partition, one.Metadata = p, &metadata
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, one)
			}
			for range 5 {
				if code := commitCode(call[*kmsg.OffsetCommitResponse](x, req, 8)); code != 0 {
					t.Errorf("commit: %v", kafka.ErrorCode(code))
					return
				}
			}
		})
	}
	work.Wait()
}
