package interop

import "github.com/twmb/franz-go/pkg/kmsg"

func deleteRecords(topic string, offsets ...int64) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		q := kmsg.NewDeleteRecordsRequestTopic()
		q.Topic = topic
		for n, o := range offsets {
			q.Partitions = append(q.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: int32(n), Offset: o})
		}
		return &kmsg.DeleteRecordsRequest{TimeoutMillis: 5000, Topics: []kmsg.DeleteRecordsRequestTopic{q}}
	}
}

func deleteRecordsCases() []compareCase {
	together := func(s *side, v int16) kmsg.Request {
		r := deleteRecords("one", 1)(s, v).(*kmsg.DeleteRecordsRequest)
		for _, topic := range []string{"three", "nobody", "compacted", "one"} {
			r.Topics = append(r.Topics, deleteRecords(topic, 0)(s, v).(*kmsg.DeleteRecordsRequest).Topics...)
		}
		return r
	}
	cases := []compareCase{{name: "Produce what is deleted", from: 9, to: 9, req: produceTo("one", 0, plain("1").bytes())}}
	for _, q := range []struct {
		name, topic string
		offsets     []int64
	}{
		{"start", "one", []int64{0}}, {"one record", "one", []int64{1}}, {"down", "one", []int64{0}}, {"beyond", "one", []int64{1 << 40}},
		{"below -1", "one", []int64{-2}}, {"all", "one", []int64{-1}}, {"empty partitions", "three", []int64{0, -1, 1, -1}},
		{"unknown partition", "one", []int64{0, 0}}, {"unknown topic", "nobody", []int64{0}}, {"illegal topic", "a b", []int64{0}},
		{"compacted", "compacted", []int64{0}}, {"compacted all", "compacted", []int64{-1}}, {"compacted and deleted", "configured", []int64{-1}},
		{"metadata", "__cluster_metadata", []int64{0}}, {"no partition", "one", nil},
	} {
		cases = append(cases, compareCase{name: "DeleteRecords " + q.name, from: 0, to: 2, req: deleteRecords(q.topic, q.offsets...)})
	}
	return append(cases,
		compareCase{name: "DeleteRecords nothing", from: 0, to: 2, req: func(*side, int16) kmsg.Request { return &kmsg.DeleteRecordsRequest{TimeoutMillis: 1} }},
		compareCase{name: "DeleteRecords of many", from: 0, to: 2, req: together},
		compareCase{name: "ListOffsets after DeleteRecords", from: 9, to: 9, req: listOffsets("one", 0, -2, -1, 0)},
		compareCase{name: "Fetch what was deleted", from: 12, to: 12, req: fetchOf("one", 0, 0)},
	)
}

func listResources(kinds ...int8) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request { return &kmsg.ListConfigResourcesRequest{ResourceTypes: kinds} }
}

// settingCases are settings of groups, client metrics, brokers and loggers.
func settingCases() []compareCase {
	const broker, logger, metrics, group = kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig
	const set, del, app = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend
	var cases []compareCase
	add := func(name string, from, to int16, req func(*side, int16) kmsg.Request) {
		cases = append(cases, compareCase{name: name, from: from, to: to, req: req})
	}
	try := func(kind kmsg.ConfigResourceType, name, key string, op kmsg.IncrementalAlterConfigOp, value string) {
		add("alter "+kind.String()+" "+name+" "+key+" "+op.String()+" "+value, 1, 1, validateOnly(alter(kind, name, key, op, &value)))
	}
	for _, kv := range [][2]string{
		{"consumer.session.timeout.ms", "44000"}, {"consumer.heartbeat.interval.ms", "15001"}, {"share.record.lock.duration.ms", "14000"},
		{"share.delivery.count.limit", "11"}, {"share.auto.offset.reset", "by_duration:PT1H"}, {"share.auto.offset.reset", "by_duration:1"},
		{"streams.assignor.name", "none"}, {"streams.num.standby.replicas", "3"}, {"streams.rack.aware.assignment.tags", "a,a"},
		{"errors.deadletterqueue.topic.name", "__x"}, {"nope", "1"},
	} {
		try(group, "g", kv[0], set, kv[1])
	}
	try(group, "", "consumer.session.timeout.ms", set, "50000")
	try(group, "g", "nope", del, "")
	try(group, "g", "streams.rack.aware.assignment.tags", app, "a")
	for _, kv := range [][2]string{
		{"metrics", "a,,b"}, {"metrics", "*"}, {"interval.ms", "99"}, {"interval.ms", "x"}, {"match", "client_id"}, {"match", "nope=x"},
		{"match", "client_id=["}, {"match", "client_id=a=b"}, {"match", " client_id = x , client_software_name=y"}, {"nope", "1"},
	} {
		try(metrics, "m", kv[0], set, kv[1])
	}
	try(metrics, "", "interval.ms", set, "1000")
	try(metrics, "m", "metrics", app, "a")
	for _, kv := range [][2]string{
		{"num.io.threads", "17"}, {"num.io.threads", "16"}, {"num.io.threads", "3"}, {"foo.bar", "x"}, {"listener.name.plaintext.max.connections", "500"},
		{"listener.name.plaintext.max.connections", "x"}, {"leader.replication.throttled.rate", "x"}, {"log.retention.hours", "1"}, {"ssl.keystore.location", "x"},
		{"max.connections.per.ip.overrides", "127.0.0.1"}, {"max.connections.per.ip", "0"}, {"log.retention.ms", "0"}, {"log.roll.ms", "0"},
		{"log.cleaner.dedupe.buffer.size", "1000"}, {"log.local.retention.ms", "99999999999"}, {"group.consumer.assignment.interval.ms", "20000"},
		{"unclean.leader.election.enable", "true"}, {"min.insync.replicas", "2"}, {"sasl.kerberos.service.name", "x"}, {"cordoned.log.dirs", "nowhere"},
	} {
		try(broker, "1", kv[0], set, kv[1])
		try(broker, "", kv[0], set, kv[1])
	}
	try(broker, "1", "message.max.bytes", app, "5")
	try(broker, "1", "log.cleanup.policy", app, "compact")
	try(broker, "1", "foo.bar", app, "compact")
	try(broker, "1", "node.id", del, "")
	for _, name := range []string{"", "2", "x"} {
		try(logger, name, "root", set, "INFO")
		add("DescribeConfigs logger of "+name, 4, 4, describeConfigs(logger, name, nil, true))
	}
	try(logger, "1", "root", set, "LOUD")
	try(logger, "1", "root", set, "WARN")
	try(logger, "1", "root", del, "")
	try(logger, "1", "root", app, "WARN")
	try(logger, "1", "no.such.logger", set, "WARN")
	add("DescribeConfigs logger root", 1, 4, describeConfigs(logger, "1", []string{"root"}, true))
	add("AlterConfigs logger", 2, 2, replaceConfigs(logger, "1", "root", "INFO"))
	add("AlterConfigs group bad", 2, 2, replaceConfigs(group, "g", "consumer.session.timeout.ms", "1"))
	add("AlterConfigs broker drops the minimum", 2, 2, replaceConfigs(broker, "", "num.io.threads", "9"))
	stored := []struct {
		kind             kmsg.ConfigResourceType
		name, key, value string
	}{
		{group, "g2", "consumer.session.timeout.ms", "50000"}, {metrics, "m2", "interval.ms", "1000"}, {metrics, "m2", "match", "client_id=a, client_software_name=b"},
		{broker, "1", "foo.bar", "x"}, {broker, "1", "listener.name.plaintext.max.connections", "500"}, {broker, "1", "leader.replication.throttled.rate", "5000"},
		{broker, "", "num.io.threads", "9"}, {broker, "", "group.consumer.assignment.interval.ms", "2000"}, {broker, "", "leader.replication.throttled.rate", "6000"},
		{broker, "1", "listener.name.plaintext.sasl.jaas.config", "secret"}, {broker, "", "log.retention.ms", "3600000"},
	}
	for _, s := range stored {
		cases = append(cases, compareCase{name: "set " + s.name + " " + s.key, from: 1, to: 1, req: alter(s.kind, s.name, s.key, set, ptr(s.value)), settle: true})
	}
	for _, v := range []struct {
		kind kmsg.ConfigResourceType
		name string
	}{{group, "g2"}, {group, "unset"}, {group, ""}, {metrics, "m2"}, {metrics, "unset"}, {metrics, ""}, {broker, "1"}, {broker, ""}, {broker, "9"}} {
		add("DescribeConfigs all of "+v.kind.String()+" "+v.name, 1, 4, describeConfigs(v.kind, v.name, nil, true))
	}
	for name, kinds := range map[string][]int8{"all": nil, "groups": {32}, "metrics": {16}, "topics": {2}, "brokers": {4, 8}, "unknown": {32, 77}, "zero": {0}} {
		add("ListConfigResources "+name, 1, 1, listResources(kinds...))
	}
	add("ListConfigResources of clients", 0, 0, listResources())
	for _, s := range stored {
		cases = append(cases, compareCase{name: "unset " + s.name + " " + s.key, from: 1, to: 1, req: alter(s.kind, s.name, s.key, del, nil), settle: true})
	}
	add("ListConfigResources without settings", 1, 1, listResources(32, 16))
	return cases
}
