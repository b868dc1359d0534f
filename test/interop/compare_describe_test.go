package interop

import "github.com/twmb/franz-go/pkg/kmsg"

func metadataOf(names ...string) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		r := &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{}}
		for _, n := range names {
			r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: ptr(n)})
		}
		return r
	}
}

func metadataByID(names ...string) func(*side, int16) kmsg.Request {
	return func(s *side, v int16) kmsg.Request {
		r := &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{}}
		for _, n := range names {
			r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{TopicID: topicID(s, n)})
		}
		return r
	}
}

func describeConfigs(kind kmsg.ConfigResourceType, name string, keys []string, more bool) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		q := kmsg.NewDescribeConfigsRequestResource()
		q.ResourceType, q.ResourceName, q.ConfigNames = kind, name, keys
		return &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{q}, IncludeSynonyms: more, IncludeDocumentation: more}
	}
}

func pages(cursor *kmsg.DescribeTopicPartitionsRequestCursor, limit int32, names ...string) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		r := &kmsg.DescribeTopicPartitionsRequest{ResponsePartitionLimit: limit, Cursor: cursor}
		for _, n := range names {
			r.Topics = append(r.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: n})
		}
		return r
	}
}

func at(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
	return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: partition}
}

func describeCases() []compareCase {
	const topic, broker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	cluster := func(endpoint int8, fenced bool) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			return &kmsg.DescribeClusterRequest{EndpointType: endpoint, IncludeFencedBrokers: fenced, IncludeClusterAuthorizedOperations: true}
		}
	}
	quorum := func(name string, p int32) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			return &kmsg.DescribeQuorumRequest{Topics: []kmsg.DescribeQuorumRequestTopic{{Topic: name, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: p}}}}}
		}
	}
	versions := func(name, version string) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			r := kmsg.NewPtrApiVersionsRequest()
			r.ClientSoftwareName, r.ClientSoftwareVersion = name, version
			return r
		}
	}
	initID := func(txn *string, id int64, epoch int16) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			r := kmsg.NewPtrInitProducerIDRequest()
			r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.TransactionTimeoutMillis = txn, id, epoch, 1000
			return r
		}
	}
	dirs := func(topics []kmsg.DescribeLogDirsRequestTopic) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request { return &kmsg.DescribeLogDirsRequest{Topics: topics} }
	}
	return []compareCase{
		{name: "ApiVersions", from: 0, to: 5, req: versions("interop", "1.0"), ignore: []string{"ApiKeys", "FinalizedFeaturesEpoch"}},
		{name: "ApiVersions bad name", from: 3, to: 5, req: versions("-bad-", "1"), ignore: []string{"FinalizedFeaturesEpoch"}},
		{name: "ApiVersions empty name", from: 3, to: 5, req: versions("", ""), ignore: []string{"FinalizedFeaturesEpoch"}},
		{name: "Metadata all", from: 0, to: 13, req: func(*side, int16) kmsg.Request { return &kmsg.MetadataRequest{} }},
		{name: "Metadata none", from: 0, to: 13, req: metadataOf()},
		{name: "Metadata some", from: 0, to: 13, req: metadataOf("three", "one")},
		{name: "Metadata unknown", from: 0, to: 13, req: metadataOf("nobody", "one")},
		{name: "Metadata illegal", from: 0, to: 13, req: metadataOf("a b")},
		{name: "Metadata empty name", from: 0, to: 13, req: metadataOf("")},
		{name: "Metadata long name", from: 0, to: 13, req: metadataOf(longName())},
		{name: "Metadata twice", from: 0, to: 13, req: metadataOf("one", "one")},
		{name: "Metadata internal unknown", from: 0, to: 13, req: metadataOf("__consumer_offsets")},
		{name: "Metadata operations", from: 8, to: 13, req: func(*side, int16) kmsg.Request {
			return &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: ptr("one")}, {Topic: ptr("nobody")}}, IncludeClusterAuthorizedOperations: true, IncludeTopicAuthorizedOperations: true}
		}},
		{name: "Metadata by id", from: 12, to: 13, req: metadataByID("one", "three")},
		{name: "Metadata by id early", from: 10, to: 11, req: metadataByID("one")},
		{name: "Metadata by unknown id", from: 12, to: 13, req: metadataByID("one", "nobody")},
		{name: "Metadata by zero id", from: 12, to: 13, req: func(*side, int16) kmsg.Request {
			return &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{}}}
		}},
		{name: "Metadata by id and name", from: 12, to: 13, req: func(s *side, v int16) kmsg.Request {
			return &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: ptr("one"), TopicID: topicID(s, "one")}}}
		}},
		{name: "Metadata by id mixed", from: 12, to: 13, req: func(s *side, v int16) kmsg.Request {
			return &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: ptr("three")}, {TopicID: topicID(s, "one")}}}
		}},
		{name: "DescribeConfigs topic", from: 1, to: 4, req: describeConfigs(topic, "configured", nil, true)},
		{name: "DescribeConfigs topic brief", from: 1, to: 4, req: describeConfigs(topic, "one", nil, false)},
		{name: "DescribeConfigs topic one key", from: 1, to: 4, req: describeConfigs(topic, "one", []string{"retention.ms", "no.such"}, true)},
		{name: "DescribeConfigs topic no keys", from: 1, to: 4, req: describeConfigs(topic, "one", []string{}, true)},
		{name: "DescribeConfigs unknown topic", from: 1, to: 4, req: describeConfigs(topic, "nobody", nil, false)},
		{name: "DescribeConfigs illegal topic", from: 1, to: 4, req: describeConfigs(topic, "a b", nil, false)},
		{name: "DescribeConfigs broker", from: 1, to: 4, req: describeConfigs(broker, "1", nil, true)},
		{name: "DescribeConfigs broker brief", from: 1, to: 4, req: describeConfigs(broker, "1", nil, false)},
		{name: "DescribeConfigs broker default", from: 1, to: 4, req: describeConfigs(broker, "", nil, true)},
		{name: "DescribeConfigs unknown broker", from: 1, to: 4, req: describeConfigs(broker, "9", nil, false)},
		{name: "DescribeConfigs word as broker", from: 1, to: 4, req: describeConfigs(broker, "nine", nil, false)},
		{name: "DescribeConfigs logger", from: 1, to: 4, req: describeConfigs(8, "9", nil, false)},
		{name: "DescribeConfigs group", from: 1, to: 4, req: describeConfigs(32, "g", nil, true)},
		{name: "DescribeConfigs group empty", from: 1, to: 4, req: describeConfigs(32, "", nil, true)},
		{name: "DescribeConfigs client metrics", from: 1, to: 4, req: describeConfigs(16, "m", nil, true)},
		{name: "DescribeConfigs client metrics unknown", from: 1, to: 4, req: describeConfigs(16, "n", nil, true)},
		{name: "DescribeConfigs unknown type", from: 1, to: 4, req: describeConfigs(77, "x", nil, true)},
		{name: "DescribeCluster", from: 0, to: 2, req: cluster(1, false)},
		{name: "DescribeCluster fenced", from: 0, to: 2, req: cluster(1, true)},
		{name: "DescribeCluster controllers", from: 1, to: 2, req: cluster(2, false)},
		{name: "DescribeCluster unknown type", from: 1, to: 2, req: cluster(9, false)},
		{name: "DescribeQuorum", from: 0, to: 2, req: quorum("__cluster_metadata", 0), ignore: []string{"LogEndOffset", "HighWatermark", "LastFetchTimestamp", "LastCaughtUpTimestamp", "LeaderEpoch"}},
		{name: "DescribeQuorum other topic", from: 0, to: 2, req: quorum("one", 0)},
		{name: "DescribeQuorum other partition", from: 0, to: 2, req: quorum("__cluster_metadata", 1)},
		{name: "DescribeTopicPartitions all", from: 0, to: 0, ordered: true, req: pages(nil, 2000)},
		{name: "DescribeTopicPartitions page", from: 0, to: 0, ordered: true, req: pages(nil, 5)},
		{name: "DescribeTopicPartitions page of one", from: 0, to: 0, ordered: true, req: pages(nil, 1)},
		{name: "DescribeTopicPartitions limit 0", from: 0, to: 0, ordered: true, req: pages(nil, 0)},
		{name: "DescribeTopicPartitions limit negative", from: 0, to: 0, ordered: true, req: pages(nil, -1)},
		{name: "DescribeTopicPartitions cursor", from: 0, to: 0, ordered: true, req: pages(at("three", 2), 2000)},
		{name: "DescribeTopicPartitions cursor and limit", from: 0, to: 0, ordered: true, req: pages(at("three", 1), 2)},
		{name: "DescribeTopicPartitions cursor of nobody", from: 0, to: 0, ordered: true, req: pages(at("p", 1), 2)},
		{name: "DescribeTopicPartitions cursor beyond", from: 0, to: 0, ordered: true, req: pages(at("three", 40), 2)},
		{name: "DescribeTopicPartitions cursor negative", from: 0, to: 0, ordered: true, req: pages(at("three", -1), 2)},
		{name: "DescribeTopicPartitions cursor after all", from: 0, to: 0, ordered: true, req: pages(at("zzz", 0), 2)},
		{name: "DescribeTopicPartitions named", from: 0, to: 0, ordered: true, req: pages(nil, 2000, "three", "nobody", "one", "a b", "one")},
		{name: "DescribeTopicPartitions named page", from: 0, to: 0, ordered: true, req: pages(nil, 2, "three", "one")},
		{name: "DescribeTopicPartitions named cursor", from: 0, to: 0, ordered: true, req: pages(at("p", 0), 2, "three", "one", "zzz")},
		{name: "DescribeTopicPartitions named, unknown at the limit", from: 0, to: 0, ordered: true, req: pages(nil, 1, "one", "onf", "three")},
		{name: "DescribeLogDirs all", from: 1, to: 5, req: dirs(nil), ignore: []string{"TotalBytes", "UsableBytes"}},
		{name: "DescribeLogDirs none", from: 1, to: 5, req: dirs([]kmsg.DescribeLogDirsRequestTopic{}), ignore: []string{"TotalBytes", "UsableBytes"}},
		{name: "DescribeLogDirs some", from: 1, to: 5, req: dirs([]kmsg.DescribeLogDirsRequestTopic{{Topic: "three", Partitions: []int32{0, 2, 9}}, {Topic: "nobody", Partitions: []int32{0}}}), ignore: []string{"TotalBytes", "UsableBytes"}},
		{name: "InitProducerId", from: 0, to: 5, req: initID(nil, -1, -1), ignore: []string{"ProducerID"}},
		{name: "InitProducerId of a producer", from: 3, to: 5, req: initID(nil, 5, 3), ignore: []string{"ProducerID"}},
		{name: "InitProducerId half", from: 3, to: 5, req: initID(nil, 5, -1)},
		{name: "InitProducerId other half", from: 3, to: 5, req: initID(nil, -1, 5)},
		{name: "InitProducerId empty transactional id", from: 0, to: 5, req: initID(ptr(""), -1, -1)},
	}
}
