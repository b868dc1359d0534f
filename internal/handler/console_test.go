package handler

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// ask has a request answered by a broker's handler whose metadata has more records.
func ask[T kmsg.Response](t *testing.T, req kmsg.Request, version int16, more ...record.Message) T {
	t.Helper()
	opts := node(t)
	d := metadata.NewDelta(opts.Image())
	for _, m := range more {
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
	}
	img := d.Apply(metadata.Provenance{EndOffset: 20, Epoch: 1})
	opts.Image = func() *metadata.Image { return img }
	req.SetVersion(version)
	s := serve(t, NewBroker(opts), kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)[4:])
	<-s.done
	resp := req.ResponseKind()
	resp.SetVersion(version)
	skip := 8 // length and correlation id
	if resp.IsFlexible() {
		skip++
	}
	if err := resp.ReadFrom(s.resp.Buf[skip:]); err != nil {
		t.Fatal(err)
	}
	return resp.(T)
}

// Partitions whose replicas move are listed with where they come from and go to,
// and only those that are asked for. Fails if listReassignments forgets a list.
func TestReassignmentsAreListed(t *testing.T) {
	moving := record.NewPartitionChange()
	moving.TopicID, moving.PartitionID = topicID, 1
	moving.Replicas, moving.AddingReplicas, moving.RemovingReplicas = []kafka.NodeID{1, 2, 3}, []kafka.NodeID{2, 3}, []kafka.NodeID{1}
	moving.Directories = make([]kafka.DirectoryID, 3)
	for asked, want := range map[string]string{
		"all": "[t-1 [1 2 3] [2 3] [1]]", "one": "[t-1 [1 2 3] [2 3] [1]]", "other": "[]",
	} {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		switch asked {
		case "one":
			req.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "t", Partitions: []int32{0}}, {Topic: "nobody", Partitions: []int32{1}}, {Topic: "t", Partitions: []int32{1, 1}}}
		case "other":
			req.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		}
		var got []string
		for _, topic := range ask[*kmsg.ListPartitionReassignmentsResponse](t, req, 0, moving).Topics {
			for _, p := range topic.Partitions {
				got = append(got, fmt.Sprintf("%s-%d %v %v %v", topic.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas))
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", asked, got, want)
		}
	}
}

// Credentials are described without their secrets: of all users, or of those who
// are named once. Fails if describeSCRAM mixes users up.
func TestCredentialsAreDescribed(t *testing.T) {
	credential := func(user string, mechanism int8, iterations int32) record.Message {
		m := record.NewUserScramCredential()
		m.Name, m.Mechanism, m.Iterations = user, mechanism, iterations
		return m
	}
	stored := []record.Message{credential("b", 1, 4096), credential("b", 2, 8192), credential("a", 2, 5000)}
	for asked, want := range map[string]string{
		"":     "a 0 [2:5000]; b 0 [1:4096 2:8192]; ",
		"b":    "b 0 [1:4096 2:8192]; ",
		"zb":   "z 91 []; b 0 [1:4096 2:8192]; ",
		"aab":  "a 92 []; b 0 [1:4096 2:8192]; ",
		"bzbz": "b 92 []; z 92 []; ",
	} {
		req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, user := range asked {
			req.Users = append(req.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: string(user)})
		}
		got := ""
		for _, r := range ask[*kmsg.DescribeUserSCRAMCredentialsResponse](t, req, 0, stored...).Results {
			var infos []string
			for _, i := range r.CredentialInfos {
				infos = append(infos, fmt.Sprintf("%d:%d", i.Mechanism, i.Iterations))
			}
			got += fmt.Sprintf("%s %d %v; ", r.User, r.ErrorCode, infos)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", asked, got, want)
		}
	}
}
