package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func creation(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 10_000, topics
	return req
}

func newTopic(name string, partitions int32, replication int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replication
	return t
}

func assigned(t kmsg.CreateTopicsRequestTopic, numbers ...int32) kmsg.CreateTopicsRequestTopic {
	for _, n := range numbers {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = n, []int32{1}
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	return t
}

// HC-041: requests that would make more records than one operation may have are
// refused while they are generated; the quorum keeps its epoch, and others are
// served. Fails without the bound in the controller core.
func TestHC041OversizedRequests(t *testing.T) {
	n := start(t)
	c := n.dial()
	epoch := c.epoch()
	var many []kmsg.CreateTopicsRequestTopic
	for i := range 20_000 {
		many = append(many, newTopic(fmt.Sprint("many", i), 1, 1))
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	g := kmsg.NewCreatePartitionsRequestTopic()
	g.Topic, g.Count = "small", 1_000_000
	grow.Topics = append(grow.Topics, g)
	c.create("small", 1)
	for what, req := range map[string]kmsg.Request{"a million partitions": creation(newTopic("huge", 1_000_000, 1)), "20,000 topics": creation(many...), "growth to a million": grow} {
		corr := c.send(req, map[bool]int16{true: 7, false: 3}[req.Key() == 19])
		other := n.dial()
		began := time.Now()
		other.create(fmt.Sprint("beside", len(what)), 1)
		if took := time.Since(began); took > patience/2 {
			t.Errorf("%s: another request took %v", what, took)
		}
		switch resp := c.receive(req, corr).(type) {
		case *kmsg.CreateTopicsResponse:
			for _, r := range resp.Topics {
				if code := kafka.ErrorCode(r.ErrorCode); code != kafka.ErrPolicyViolation {
					t.Fatalf("%s: %s is answered %s", what, r.Topic, code)
				}
			}
		case *kmsg.CreatePartitionsResponse:
			wantCode(t, what, resp.Topics[0].ErrorCode, kafka.ErrPolicyViolation)
		}
	}
	if e := c.epoch(); e != epoch {
		t.Fatalf("epoch %d after %d", e, epoch)
	}
	if n.s.Image().TopicByName("huge").Exists() || n.s.Image().TopicByName("many0").Exists() || n.s.Image().TopicByName("small").NumPartitions() != 1 {
		t.Fatal("something was written")
	}
}

// HC-166: the table of what CreateTopics refuses. Fails with any check missing.
func TestHC166CreateTopicsChecks(t *testing.T) {
	n := start(t, "num.partitions=4")
	c := n.dial()
	c.create("a.b", 1)
	withConfig := func(name string, value *string) kmsg.CreateTopicsRequestTopic {
		topic := newTopic("cfg", 1, 1)
		s := kmsg.NewCreateTopicsRequestTopicConfig()
		s.Name, s.Value = name, value
		topic.Configs = append(topic.Configs, s)
		return topic
	}
	bad, long := "soon", strings.Repeat("x", 250)
	for _, q := range []struct {
		what  string
		topic kmsg.CreateTopicsRequestTopic
		code  kafka.ErrorCode
	}{
		{"gap in assignments", assigned(newTopic("g", -1, -1), 0, 2), kafka.ErrInvalidReplicaAssignment},
		{"assignment and count", assigned(newTopic("g", 2, -1), 0, 1), kafka.ErrInvalidRequest},
		{"null value", withConfig("retention.ms", nil), kafka.ErrInvalidConfig},
		{"bad value", withConfig("retention.ms", &bad), kafka.ErrInvalidConfig},
		{"unknown config", withConfig("no.such", &bad), kafka.ErrInvalidConfig},
		{"collision", newTopic("a_b", 1, 1), kafka.ErrInvalidTopicException},
		{"empty name", newTopic("", 1, 1), kafka.ErrInvalidTopicException},
		{"dot", newTopic(".", 1, 1), kafka.ErrInvalidTopicException},
		{"dots", newTopic("..", 1, 1), kafka.ErrInvalidTopicException},
		{"slash", newTopic("../x", 1, 1), kafka.ErrInvalidTopicException},
		{"too long", newTopic(long, 1, 1), kafka.ErrInvalidTopicException},
		{"zero byte", newTopic("a\x00b", 1, 1), kafka.ErrInvalidTopicException},
		{"exists", newTopic("a.b", 1, 1), kafka.ErrTopicAlreadyExists},
		{"0 partitions", newTopic("g", 0, 1), kafka.ErrInvalidPartitions},
		{"−7 partitions", newTopic("g", -7, 1), kafka.ErrInvalidPartitions},
		{"0 replicas", newTopic("g", 1, 0), kafka.ErrInvalidReplicationFactor},
		{"2 replicas of 1", newTopic("g", 1, 2), kafka.ErrInvalidReplicationFactor},
		{"defaults", newTopic("def", -1, -1), 0},
	} {
		resp := call[*kmsg.CreateTopicsResponse](c, creation(q.topic), 7).Topics[0]
		wantCode(t, q.what, resp.ErrorCode, q.code)
		if q.code == 0 && (resp.NumPartitions != 4 || resp.ReplicationFactor != 1 || len(resp.Configs) == 0) {
			t.Errorf("%s: %+v", q.what, resp)
		}
		if q.code != 0 && (resp.NumPartitions != -1 || resp.ReplicationFactor != -1) {
			t.Errorf("%s: %d partitions, %d replicas beside an error", q.what, resp.NumPartitions, resp.ReplicationFactor)
		}
	}
	twice := call[*kmsg.CreateTopicsResponse](c, creation(newTopic("twice", 1, 1), newTopic("twice", 1, 1)), 7)
	wantCode(t, "twice", twice.Topics[0].ErrorCode, kafka.ErrInvalidRequest)
	if n.s.Image().TopicByName("twice").Exists() || n.s.Image().TopicByName("g").Exists() {
		t.Fatal("made in spite of the error")
	}
}

// resources is one of each kind that has stored settings.
var resources = []struct {
	kind             kmsg.ConfigResourceType
	name, key, value string
	source           int8
}{
	{2, "t", "retention.ms", "1000000", 1},
	{4, "", "message.max.bytes", "3000000", 3},
	{4, "1", "message.max.bytes", "2000000", 2},
	{16, "m", "interval.ms", "1000", 7},
	{32, "g", "consumer.session.timeout.ms", "50000", 8},
}

// HC-165: validate only writes nothing, whoever is asked. Fails if a handler
// drops the flag.
func TestHC165ValidateOnly(t *testing.T) {
	n := start(t, "metadata.max.idle.interval.ms=0")
	c := n.dial()
	c.create("t", 1)
	before := n.committed()
	create := creation(newTopic("x", 3, 1))
	create.ValidateOnly = true
	for v := int16(2); v <= 7; v++ {
		wantCode(t, "CreateTopics", call[*kmsg.CreateTopicsResponse](c, create, v).Topics[0].ErrorCode, 0)
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	g := kmsg.NewCreatePartitionsRequestTopic()
	g.Topic, g.Count = "t", 5
	grow.Topics, grow.ValidateOnly = append(grow.Topics, g), true
	wantCode(t, "CreatePartitions", call[*kmsg.CreatePartitionsResponse](c, grow, 3).Topics[0].ErrorCode, 0)
	alter := alteration("t", "retention.ms", "5", 0)
	alter.ValidateOnly = true
	wantCode(t, "IncrementalAlterConfigs", call[*kmsg.IncrementalAlterConfigsResponse](c, alter, 1).Resources[0].ErrorCode, 0)
	for _, q := range resources {
		alter := alterationOf(q.kind, q.name, q.key, q.value, 0)
		alter.ValidateOnly = true
		wantCode(t, "IncrementalAlterConfigs of "+q.key, call[*kmsg.IncrementalAlterConfigsResponse](c, alter, 1).Resources[0].ErrorCode, 0)
		whole := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = q.kind, q.name
		s := kmsg.NewAlterConfigsRequestResourceConfig()
		s.Name, s.Value = q.key, &q.value
		r.Configs = append(r.Configs, s)
		whole.Resources, whole.ValidateOnly = append(whole.Resources, r), true
		code := kafka.NoError
		if q.kind == 4 && q.name == "" {
			code = kafka.ErrInvalidConfig // it would drop min.insync.replicas, on which ELR rests
		}
		wantCode(t, "AlterConfigs of "+q.key, call[*kmsg.AlterConfigsResponse](c, whole, 2).Resources[0].ErrorCode, code)
	}
	if after := n.committed(); after != before {
		t.Fatalf("metadata moved from %d to %d", before, after)
	}
}

func alteration(topic, name, value string, op kmsg.IncrementalAlterConfigOp) *kmsg.IncrementalAlterConfigsRequest {
	return alterationOf(2, topic, name, value, op)
}

func alterationOf(kind kmsg.ConfigResourceType, resource, name, value string, op kmsg.IncrementalAlterConfigOp) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, resource
	s := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	s.Name, s.Value, s.Op = name, &value, op
	r.Configs = append(r.Configs, s)
	req.Resources = append(req.Resources, r)
	return req
}

func (c *client) described(topic, name string) (value string, source int8) {
	c.t.Helper()
	req := legal(32, 4, kafka.TopicID{}).(*kmsg.DescribeConfigsRequest)
	req.Resources[0].ResourceName, req.Resources[0].ConfigNames = topic, []string{name}
	resp := call[*kmsg.DescribeConfigsResponse](c, req, 4).Resources[0]
	if resp.ErrorCode != 0 || len(resp.Configs) != 1 {
		c.t.Fatalf("%s of %s: %+v", name, topic, resp)
	}
	if v := resp.Configs[0].Value; v != nil {
		value = *v
	}
	return value, int8(resp.Configs[0].Source)
}

// HC-167: sources, and what each way of altering does; settings bite at once.
// Fails if a value that equals the default counts as the default.
func TestHC167Configs(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	step := func(what, name, value string, op kmsg.IncrementalAlterConfigOp, code kafka.ErrorCode) {
		t.Helper()
		wantCode(t, what, call[*kmsg.IncrementalAlterConfigsResponse](c, alteration("t", name, value, op), 1).Resources[0].ErrorCode, code)
	}
	check := func(name, value string, source int8) {
		t.Helper()
		if v, s := c.described("t", name); v != value || s != source {
			t.Errorf("%s is %q from %d, want %q from %d", name, v, s, value, source)
		}
	}
	check("retention.ms", "604800000", 5)
	step("set to the default", "retention.ms", "604800000", 0, 0)
	check("retention.ms", "604800000", 1)
	step("delete", "retention.ms", "", 1, 0)
	check("retention.ms", "604800000", 5)
	step("append", "cleanup.policy", "compact", 2, 0)
	check("cleanup.policy", "delete,compact", 1)
	step("subtract", "cleanup.policy", "compact", 3, 0)
	check("cleanup.policy", "delete", 1)
	step("append to a number", "retention.ms", "1", 2, kafka.ErrInvalidConfig)
	step("unknown", "no.such", "1", 0, kafka.ErrInvalidConfig)
	step("limit", "max.message.bytes", "100", 0, 0)
	wantCode(t, "at once", c.produce("t", batchOf(string(make([]byte, 100)))).ErrorCode, kafka.ErrMessageTooLarge)
	whole := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = 2, "t"
	s := kmsg.NewAlterConfigsRequestResourceConfig()
	v := "1000"
	s.Name, s.Value = "segment.ms", &v
	r.Configs = append(r.Configs, s)
	whole.Resources = append(whole.Resources, r)
	wantCode(t, "AlterConfigs", call[*kmsg.AlterConfigsResponse](c, whole, 2).Resources[0].ErrorCode, 0)
	check("segment.ms", "1000", 1)
	check("cleanup.policy", "delete", 5)
	check("max.message.bytes", "1048588", 5)
	wantCode(t, "large again", c.produce("t", batchOf(string(make([]byte, 100)))).ErrorCode, 0)
	n.restart()
	c = n.dial()
	check("segment.ms", "1000", 1)
}

// HC-168, HC-046: what CreateTopics has answered can be used at once, and what
// DeleteTopics has answered is gone. Fails if replies leave before the image is
// published.
func TestHC046HC168UsableAtOnce(t *testing.T) {
	n := start(t)
	c := n.dial()
	for i := range 100 {
		name := fmt.Sprint("t", i)
		id := c.create(name, 3)
		resp := call[*kmsg.MetadataResponse](c, metadataFor(name), 12).Topics[0]
		if resp.ErrorCode != 0 || resp.TopicID != id || len(resp.Partitions) != 3 || resp.Partitions[2].Leader != 1 {
			t.Fatalf("%+v", resp)
		}
		c.mustProduce(name, batchOf("a"))
		c.wantValues(name, 0, "a")
		c.remove(name)
		req := metadataFor(name)
		req.AllowAutoTopicCreation = false
		wantCode(t, "deleted", call[*kmsg.MetadataResponse](c, req, 12).Topics[0].ErrorCode, kafka.ErrUnknownTopicOrPartition)
		wantCode(t, "produce", c.produce(name, batchOf("b")).ErrorCode, kafka.ErrUnknownTopicOrPartition)
	}
}

// Partitions that are added can be used at once; fewer are refused.
func TestCreatePartitions(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	grow := func(name string, count int32) int16 {
		req := kmsg.NewPtrCreatePartitionsRequest()
		g := kmsg.NewCreatePartitionsRequestTopic()
		g.Topic, g.Count = name, count
		req.Topics = append(req.Topics, g)
		return call[*kmsg.CreatePartitionsResponse](c, req, 3).Topics[0].ErrorCode
	}
	wantCode(t, "3", grow("t", 3), 0)
	wantCode(t, "to partition 2", call[*kmsg.ProduceResponse](c, partitioned(2), 9).Topics[0].Partitions[0].ErrorCode, 0)
	wantCode(t, "2", grow("t", 2), kafka.ErrInvalidPartitions)
	wantCode(t, "3 again", grow("t", 3), kafka.ErrInvalidPartitions)
	wantCode(t, "unknown", grow("u", 3), kafka.ErrUnknownTopicOrPartition)
}

// DescribeLogDirs and DescribeTopicPartitions tell what is there.
func TestDescribeLogDirsAndTopicPartitions(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("a", 2)
	c.create("b", 3)
	b := batchOf("x")
	c.mustProduce("a", b)
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	for v := int16(1); v <= 5; v++ {
		r := call[*kmsg.DescribeLogDirsResponse](c, dirs, v)
		if len(r.Dirs) != 1 || len(r.Dirs[0].Topics) != 2 || r.Dirs[0].Topics[0].Partitions[0].Size != int64(len(b)) || v >= 4 && r.Dirs[0].UsableBytes <= 0 {
			t.Errorf("v%d: %+v", v, r)
		}
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	var got []string
	for range 10 {
		r := call[*kmsg.DescribeTopicPartitionsResponse](c, req, 0)
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				got = append(got, fmt.Sprintf("%s-%d", *topic.Topic, p.Partition))
			}
		}
		if r.NextCursor == nil {
			break
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = r.NextCursor.Topic, r.NextCursor.Partition
		req.Cursor = &cursor
	}
	if want := "[a-0 a-1 b-0 b-1 b-2]"; fmt.Sprint(got) != want {
		t.Fatalf("%v, want %s", got, want)
	}
}
