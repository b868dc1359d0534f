package interop

import "github.com/twmb/franz-go/pkg/kmsg"

func createTopic(name string, partitions int32, replicas int16, change ...func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsRequestTopic {
	q := kmsg.NewCreateTopicsRequestTopic()
	q.Topic, q.NumPartitions, q.ReplicationFactor = name, partitions, replicas
	for _, f := range change {
		f(&q)
	}
	return q
}

func createTopics(topics ...kmsg.CreateTopicsRequestTopic) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		return &kmsg.CreateTopicsRequest{Topics: topics, TimeoutMillis: 10_000}
	}
}

func withConfig(key string, value *string) func(*kmsg.CreateTopicsRequestTopic) {
	return func(q *kmsg.CreateTopicsRequestTopic) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, value
		q.Configs = append(q.Configs, c)
	}
}

// assigned gives partitions their replicas by hand: pairs of partition and brokers.
func assigned(partitions map[int32][]int32) func(*kmsg.CreateTopicsRequestTopic) {
	return func(q *kmsg.CreateTopicsRequestTopic) {
		for p := int32(-1); p < 10; p++ {
			if r, ok := partitions[p]; ok {
				a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				a.Partition, a.Replicas = p, r
				q.ReplicaAssignment = append(q.ReplicaAssignment, a)
			}
		}
	}
}

// longName has 250 characters, one more than a topic may have.
func longName() string {
	b := make([]byte, 250)
	for i := range b {
		b[i] = 'a'
	}
	return string(b)
}

func validateOnly(f func(*side, int16) kmsg.Request) func(*side, int16) kmsg.Request {
	return func(s *side, v int16) kmsg.Request {
		r := f(s, v)
		switch r := r.(type) {
		case *kmsg.CreateTopicsRequest:
			r.ValidateOnly = true
		case *kmsg.CreatePartitionsRequest:
			r.ValidateOnly = true
		case *kmsg.IncrementalAlterConfigsRequest:
			r.ValidateOnly = true
		}
		return r
	}
}

// createErrors is the table of HC-166.
func createErrors() []kmsg.CreateTopicsRequestTopic {
	return []kmsg.CreateTopicsRequestTopic{
		createTopic("one", 1, 1), // exists
		createTopic("e-parts-0", 0, 1),
		createTopic("e-parts-minus-2", -2, 1),
		createTopic("e-replicas-0", 1, 0),
		createTopic("e-replicas-2", 1, 2),
		createTopic("e-replicas-minus-2", 1, -2),
		createTopic("", 1, 1),
		createTopic(".", 1, 1),
		createTopic("..", 1, 1),
		createTopic("bad name", 1, 1),
		createTopic("bad/name", 1, 1),
		createTopic(longName(), 1, 1),
		createTopic("a.b", 1, 1), // a_b exists
		createTopic("e-twice", 1, 1), createTopic("e-twice", 1, 1),
		createTopic("e-hole", -1, -1, assigned(map[int32][]int32{0: {1}, 2: {1}})),
		createTopic("e-unknown-broker", -1, -1, assigned(map[int32][]int32{0: {7}})),
		createTopic("e-same-broker", -1, -1, assigned(map[int32][]int32{0: {1, 1}})),
		createTopic("e-no-replicas", -1, -1, assigned(map[int32][]int32{0: {}})),
		createTopic("e-uneven", -1, -1, assigned(map[int32][]int32{0: {1}, 1: {}})),
		createTopic("e-negative-partition", -1, -1, assigned(map[int32][]int32{-1: {1}})),
		createTopic("e-both", 1, -1, assigned(map[int32][]int32{0: {1}})),
		createTopic("e-both-replicas", -1, 1, assigned(map[int32][]int32{0: {1}})),
		createTopic("e-config-unknown", 1, 1, withConfig("no.such.key", ptr("1"))),
		createTopic("e-config-null", 1, 1, withConfig("retention.ms", nil)),
		createTopic("e-config-range", 1, 1, withConfig("max.message.bytes", ptr("-1"))),
		createTopic("e-config-number", 1, 1, withConfig("retention.ms", ptr("soon"))),
		createTopic("e-config-word", 1, 1, withConfig("compression.type", ptr("rar"))),
		createTopic("e-config-list", 1, 1, withConfig("cleanup.policy", ptr("delete,shred"))),
		createTopic("e-config-two", 1, 1, withConfig("local.retention.ms", ptr("10")), withConfig("retention.ms", ptr("5"))),
		createTopic("__cluster_metadata", 1, 1),
	}
}

func adminCases() []compareCase {
	cases := []compareCase{
		{name: "CreateTopics", from: 7, to: 7, settle: true, req: createTopics(
			createTopic("one", 1, 1), createTopic("three", 3, 1), createTopic("a_b", 1, 1), createTopic("defaults", -1, -1),
			createTopic("by-hand", -1, -1, assigned(map[int32][]int32{0: {1}, 1: {1}})),
			createTopic("append-time", 1, 1, withConfig("message.timestamp.type", ptr("LogAppendTime"))),
			createTopic("bounded", 1, 1, withConfig("message.timestamp.before.max.ms", ptr("3600000")), withConfig("message.timestamp.after.max.ms", ptr("60000"))),
			createTopic("small", 1, 1, withConfig("max.message.bytes", ptr("200"))),
			createTopic("compacted", 1, 1, withConfig("cleanup.policy", ptr("compact"))),
			createTopic("zipped", 1, 1, withConfig("compression.type", ptr("gzip"))),
			createTopic("configured", 2, 1, withConfig("retention.ms", ptr("604800000")), withConfig("segment.bytes", ptr("1048576")), withConfig("cleanup.policy", ptr(" compact , delete "))),
		)},
		{name: "CreateTopics validate only", from: 2, to: 7, req: validateOnly(createTopics(createTopic("never", 2, 1, withConfig("retention.ms", ptr("5"))), createTopic("one", 1, 1)))},
		{name: "CreateTopics defaults", from: 2, to: 7, req: validateOnly(createTopics(createTopic("never", -1, -1)))},
		{name: "CreateTopics nothing", from: 2, to: 7, req: createTopics()},
	}
	for _, e := range createErrors() {
		cases = append(cases, compareCase{name: "CreateTopics error " + e.Topic[:min(len(e.Topic), 20)], from: 2, to: 7, req: validateOnly(createTopics(e))})
	}
	return append(append(cases, compareCase{name: "CreateTopics errors together", from: 7, to: 7, req: validateOnly(createTopics(createErrors()...))}), alterCases()...)
}

func deleteTopics(names ...string) func(*side, int16) kmsg.Request {
	return func(s *side, v int16) kmsg.Request {
		r := &kmsg.DeleteTopicsRequest{TopicNames: names, TimeoutMillis: 10_000}
		for _, name := range names {
			q := kmsg.NewDeleteTopicsRequestTopic()
			q.Topic = ptr(name)
			r.Topics = append(r.Topics, q)
		}
		return r
	}
}

func deleteByID(topics ...kmsg.DeleteTopicsRequestTopic) func(*side, int16) kmsg.Request {
	return func(s *side, v int16) kmsg.Request {
		return &kmsg.DeleteTopicsRequest{Topics: topics, TimeoutMillis: 10_000}
	}
}

func grow(name string, count int32, assignment ...[]int32) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		q := kmsg.NewCreatePartitionsRequestTopic()
		q.Topic, q.Count = name, count
		for _, a := range assignment {
			q.Assignment = append(q.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: a})
		}
		return &kmsg.CreatePartitionsRequest{Topics: []kmsg.CreatePartitionsRequestTopic{q}, TimeoutMillis: 10_000}
	}
}

func alter(kind kmsg.ConfigResourceType, name, key string, op kmsg.IncrementalAlterConfigOp, value *string) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = key, op, value
		r.Configs = append(r.Configs, c)
		return &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{r}}
	}
}

func alterCases() []compareCase {
	const topic, broker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	const set, del, app, sub = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	unknown := kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{1, 2, 3}}
	both := kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{1, 2, 3}, Topic: ptr("one")}
	return []compareCase{
		{name: "DeleteTopics unknown", from: 1, to: 6, req: deleteTopics("nobody")},
		{name: "DeleteTopics illegal", from: 1, to: 6, req: deleteTopics("a b")},
		{name: "DeleteTopics twice", from: 1, to: 6, req: deleteTopics("nobody", "nobody")},
		{name: "DeleteTopics nothing", from: 1, to: 6, req: deleteTopics()},
		{name: "DeleteTopics unknown id", from: 6, to: 6, req: deleteByID(unknown)},
		{name: "DeleteTopics id and name", from: 6, to: 6, req: deleteByID(both)},
		{name: "DeleteTopics neither", from: 6, to: 6, req: deleteByID(kmsg.DeleteTopicsRequestTopic{})},
		{name: "DeleteTopics a_b", from: 6, to: 6, req: deleteTopics("a_b")},
		{name: "CreatePartitions fewer", from: 0, to: 3, req: grow("three", 2)},
		{name: "CreatePartitions same", from: 0, to: 3, req: grow("three", 3)},
		{name: "CreatePartitions zero", from: 0, to: 3, req: grow("three", 0)},
		{name: "CreatePartitions unknown", from: 0, to: 3, req: grow("nobody", 3)},
		{name: "CreatePartitions illegal", from: 0, to: 3, req: grow("a b", 3)},
		{name: "CreatePartitions wrong broker", from: 0, to: 3, req: grow("three", 4, []int32{9})},
		{name: "CreatePartitions wrong count", from: 0, to: 3, req: grow("three", 5, []int32{1})},
		{name: "CreatePartitions wrong factor", from: 0, to: 3, req: grow("three", 4, []int32{1, 1})},
		{name: "CreatePartitions empty assignment", from: 0, to: 3, req: grow("three", 4, []int32{})},
		{name: "CreatePartitions validate only", from: 0, to: 3, req: validateOnly(grow("three", 4))},
		{name: "CreatePartitions", from: 3, to: 3, req: grow("three", 4), settle: true},
		{name: "alter set", from: 0, to: 1, req: alter(topic, "one", "retention.ms", set, ptr("1000000"))},
		{name: "alter set broker key", from: 0, to: 1, req: alter(topic, "one", "log.retention.ms", set, ptr("1000000"))},
		{name: "alter unknown key", from: 0, to: 1, req: alter(topic, "one", "no.such", set, ptr("1"))},
		{name: "alter delete unknown key", from: 0, to: 1, req: alter(topic, "one", "no.such", del, nil)},
		{name: "alter delete unset", from: 0, to: 1, req: alter(topic, "one", "retention.bytes", del, nil)},
		{name: "alter null", from: 0, to: 1, req: alter(topic, "one", "retention.ms", set, nil)},
		{name: "alter range", from: 0, to: 1, req: alter(topic, "one", "segment.bytes", set, ptr("1"))},
		{name: "alter append list", from: 0, to: 1, req: alter(topic, "one", "cleanup.policy", app, ptr("compact"))},
		{name: "alter subtract list", from: 0, to: 1, req: alter(topic, "one", "cleanup.policy", sub, ptr("compact"))},
		{name: "alter append number", from: 0, to: 1, req: alter(topic, "one", "retention.ms", app, ptr("1"))},
		{name: "alter unknown operation", from: 0, to: 1, req: alter(topic, "one", "retention.ms", 9, ptr("1"))},
		{name: "alter unknown topic", from: 0, to: 1, req: alter(topic, "nobody", "retention.ms", set, ptr("1"))},
		{name: "alter illegal topic", from: 0, to: 1, req: alter(topic, "a b", "retention.ms", set, ptr("1"))},
		{name: "alter validate only", from: 0, to: 1, req: validateOnly(alter(topic, "one", "retention.ms", set, ptr("77")))},
		{name: "alter broker", from: 0, to: 1, req: alter(broker, "1", "log.cleaner.threads", set, ptr("2"))},
		{name: "alter broker default", from: 0, to: 1, req: alter(broker, "", "message.max.bytes", set, ptr("1048600"))},
		{name: "alter broker read-only", from: 0, to: 1, req: alter(broker, "1", "node.id", set, ptr("2"))},
		{name: "alter broker unknown id", from: 0, to: 1, req: alter(broker, "9", "log.cleaner.threads", set, ptr("2"))},
		{name: "alter broker word as id", from: 0, to: 1, req: alter(broker, "nine", "log.cleaner.threads", set, ptr("2"))},
		{name: "alter broker bad value", from: 0, to: 1, req: alter(broker, "1", "log.cleaner.threads", set, ptr("many"))},
		{name: "alter broker per-broker as default", from: 0, to: 1, req: alter(broker, "", "listener.security.protocol.map", set, ptr("PLAINTEXT:PLAINTEXT"))},
		{name: "alter group", from: 0, to: 1, req: alter(32, "g", "consumer.session.timeout.ms", set, ptr("50000"))},
		{name: "alter group bad", from: 0, to: 1, req: alter(32, "g", "consumer.session.timeout.ms", set, ptr("-1"))},
		{name: "alter client metrics", from: 0, to: 1, req: alter(16, "m", "interval.ms", set, ptr("1000"))},
		{name: "alter client metrics bad", from: 0, to: 1, req: alter(16, "m", "interval.ms", set, ptr("1"))},
		{name: "alter unknown type", from: 0, to: 1, req: alter(77, "x", "a", set, ptr("1"))},
	}
}
