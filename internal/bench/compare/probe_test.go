package compare

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answering returns a probe whose requests are answered with responses, in turn.
func answering(t *testing.T, responses ...kmsg.Response) *probe {
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	t.Cleanup(func() { ours.Close(); theirs.Close(); <-done })
	go func() {
		defer close(done)
		for _, resp := range responses {
			var head [4]byte
			if _, err := io.ReadFull(theirs, head[:]); err != nil {
				return
			}
			frame := make([]byte, binary.BigEndian.Uint32(head[:]))
			if _, err := io.ReadFull(theirs, frame); err != nil {
				return
			}
			resp.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
			out := append(make([]byte, 4), frame[4:8]...)
			if resp.IsFlexible() {
				out = append(out, 0)
			}
			out = resp.AppendTo(out)
			binary.BigEndian.PutUint32(out, uint32(len(out)-4))
			if _, err := theirs.Write(out); err != nil {
				return
			}
		}
	}()
	return &probe{conn: ours, formatter: kmsg.NewRequestFormatter()}
}

// described is a Metadata answer with one topic whose partitions have the leaders.
func described(leaders ...int32) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "h", Port: 1}}
	resp.ControllerID = 1
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = kmsg.StringPtr("t")
	for i, leader := range leaders {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader = int32(i), leader
		topic.Partitions = append(topic.Partitions, p)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// listed is a ListOffsets answer for partitions with the error codes.
func listed(codes ...int16) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	topic := kmsg.ListOffsetsResponseTopic{Topic: "t"}
	for i, code := range codes {
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Partition, p.ErrorCode = int32(i), code
		topic.Partitions = append(topic.Partitions, p)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func TestServing(t *testing.T) {
	if err := serving(answering(t, described())); err != nil {
		t.Error(err)
	}
	alone := kmsg.NewPtrMetadataResponse()
	alone.ControllerID = -1
	if err := serving(answering(t, alone)); err == nil {
		t.Error("a node without brokers serves")
	}
}

func TestUsable(t *testing.T) {
	tests := []struct {
		name      string
		responses []kmsg.Response
		want      string // in the error; empty = usable
	}{
		{"all", []kmsg.Response{described(1, 1), listed(0, 0)}, ""},
		{"too few", []kmsg.Response{described(1)}, "1 of 2"},
		{"no leader", []kmsg.Response{described(1, -1)}, "t-1: leader -1"},
		{"not loaded", []kmsg.Response{described(1, 1), listed(0, 6)}, "t-1: NOT_LEADER"},
		{"half an answer", []kmsg.Response{described(1, 1), listed(0)}, "1 of 2 partitions answered ListOffsets"},
	}
	for _, tt := range tests {
		err := usable(2)(answering(t, tt.responses...))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestUsableAsksOnlyForWhatWasStuck(t *testing.T) {
	check := usable(2)
	if err := check(answering(t, described(1, 1), listed(0, 6))); err == nil {
		t.Fatal("a partition without a leader is usable")
	}
	stuck := listed(6)
	stuck.Topics[0].Partitions[0].Partition = 1
	// Fails, for want of a second answer, if metadata or all partitions are asked again.
	if err := check(answering(t, stuck)); err == nil || !strings.Contains(err.Error(), "t-1: NOT_LEADER") {
		t.Errorf("still stuck: %v", err)
	}
	if err := check(answering(t, listed(0), listed(0, 0))); err != nil {
		t.Errorf("at last: %v", err)
	}
}

func TestCreateTopicsReportsTheFirstError(t *testing.T) {
	resp := kmsg.NewPtrCreateTopicsResponse()
	topic := kmsg.NewCreateTopicsResponseTopic()
	topic.Topic, topic.ErrorCode = "many-000000", 36
	resp.Topics = append(resp.Topics, topic)
	if err := createTopics(answering(t, resp), 0, 1, 10); err == nil || !strings.Contains(err.Error(), "many-000000") {
		t.Errorf("got %v", err)
	}
}

func TestMoldauGetsTheSettingsOfKafka(t *testing.T) {
	got := moldauProperties("/d", 9000)
	for _, line := range []string{
		"process.roles=broker,controller\n", "listeners=PLAINTEXT://127.0.0.1:9000,CONTROLLER://127.0.0.1:9001\n",
		"controller.quorum.bootstrap.servers=127.0.0.1:9001\n", "log.dirs=/d/data\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
}
