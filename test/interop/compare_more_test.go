package interop

import "github.com/twmb/franz-go/pkg/kmsg"

// oldCases are versions that Kafka 4.4 no longer takes: the connection closes.
func oldCases() []compareCase {
	return []compareCase{
		{name: "old Produce", from: 0, to: 2, req: produceTo("one", 0, plain("v").bytes())},
		{name: "old Fetch", from: 0, to: 3, req: fetchOf("one", 0, 0)},
		{name: "old ListOffsets", from: 0, to: 0, req: listOffsets("one", 0, -1, -1, 0)},
		{name: "old CreateTopics", from: 0, to: 1, req: createTopics(createTopic("never", 1, 1))},
		{name: "old DeleteTopics", from: 0, to: 0, req: deleteTopics("nobody")},
		{name: "old OffsetForLeaderEpoch", from: 0, to: 1, req: leaderEpoch("one", 0, -1, 0)},
		{name: "old DescribeConfigs", from: 0, to: 0, req: describeConfigs(kmsg.ConfigResourceTypeTopic, "one", nil, false)},
		{name: "controller's API", from: 0, to: 0, req: func(*side, int16) kmsg.Request { return &kmsg.AllocateProducerIDsRequest{} }},
		{name: "removed API", from: 0, to: 0, req: func(*side, int16) kmsg.Request { return &kmsg.ControlledShutdownRequest{} }},
		{name: "ApiVersions of the future", from: 6, to: 6, req: func(*side, int16) kmsg.Request { return kmsg.NewPtrApiVersionsRequest() }, ignore: []string{"FinalizedFeaturesEpoch"}},
	}
}

func replaceConfigs(kind kmsg.ConfigResourceType, name string, pairs ...string) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		for i := 0; i < len(pairs); i += 2 {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name, c.Value = pairs[i], &pairs[i+1]
			r.Configs = append(r.Configs, c)
		}
		return &kmsg.AlterConfigsRequest{Resources: []kmsg.AlterConfigsRequestResource{r}}
	}
}

func moreAlterCases() []compareCase {
	const topic, broker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	const set = kmsg.IncrementalAlterConfigOpSet
	several := func(s *side, v int16) kmsg.Request {
		r := &kmsg.IncrementalAlterConfigsRequest{}
		for _, f := range []func(*side, int16) kmsg.Request{
			alter(topic, "three", "retention.ms", set, ptr("5000000")), alter(topic, "nobody", "retention.ms", set, ptr("5000000")),
			alter(broker, "9", "log.cleaner.threads", set, ptr("1")), alter(topic, "defaults", "no.such", set, ptr("1")),
		} {
			r.Resources = append(r.Resources, f(s, v).(*kmsg.IncrementalAlterConfigsRequest).Resources...)
		}
		return r
	}
	twice := func(s *side, v int16) kmsg.Request {
		r := alter(topic, "three", "retention.ms", set, ptr("1"))(s, v).(*kmsg.IncrementalAlterConfigsRequest)
		r.Resources = append(r.Resources, r.Resources[0])
		return r
	}
	twoKeys := func(s *side, v int16) kmsg.Request {
		r := alter(topic, "three", "retention.ms", set, ptr("1"))(s, v).(*kmsg.IncrementalAlterConfigsRequest)
		r.Resources[0].Configs = append(r.Resources[0].Configs, r.Resources[0].Configs[0])
		return r
	}
	features := func(name string, level int16, kind int8, validate bool) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = name, level, kind, kind > 1
			return &kmsg.UpdateFeaturesRequest{TimeoutMillis: 5000, FeatureUpdates: []kmsg.UpdateFeaturesRequestFeatureUpdate{u}, ValidateOnly: validate}
		}
	}
	return []compareCase{
		{name: "alter several", from: 0, to: 1, req: several},
		{name: "alter a resource twice", from: 0, to: 1, req: twice},
		{name: "alter a key twice", from: 0, to: 1, req: twoKeys},
		{name: "alter nothing", from: 0, to: 1, req: func(*side, int16) kmsg.Request { return &kmsg.IncrementalAlterConfigsRequest{} }},
		{name: "AlterConfigs", from: 0, to: 2, req: replaceConfigs(topic, "three", "segment.bytes", "2000000")},
		{name: "DescribeConfigs after AlterConfigs", from: 4, to: 4, req: describeConfigs(topic, "three", nil, true)},
		{name: "AlterConfigs unknown key", from: 0, to: 2, req: replaceConfigs(topic, "three", "no.such", "2000000")},
		{name: "AlterConfigs unknown topic", from: 0, to: 2, req: replaceConfigs(topic, "nobody", "segment.bytes", "2000000")},
		{name: "AlterConfigs other broker", from: 0, to: 2, req: replaceConfigs(broker, "9", "log.cleaner.threads", "1")},
		{name: "AlterConfigs empty", from: 0, to: 2, req: replaceConfigs(topic, "three")},
		{name: "AlterConfigs default topic", from: 0, to: 2, req: replaceConfigs(topic, "", "segment.bytes", "2000000")},
		{name: "UpdateFeatures unknown", from: 0, to: 2, req: features("no.such", 1, 1, true)},
		{name: "UpdateFeatures unsupported level", from: 0, to: 2, req: features("group.version", 99, 1, false)},
		{name: "UpdateFeatures same level", from: 0, to: 2, req: features("group.version", 1, 1, false)},
		{name: "UpdateFeatures downgrade as upgrade", from: 1, to: 2, req: features("group.version", 0, 1, false)},
		{name: "UpdateFeatures validate downgrade", from: 1, to: 2, req: features("group.version", 0, 2, true)},
		{name: "UpdateFeatures negative", from: 1, to: 2, req: features("group.version", -1, 1, true)},
		{name: "UpdateFeatures none", from: 0, to: 2, req: func(*side, int16) kmsg.Request { return &kmsg.UpdateFeaturesRequest{TimeoutMillis: 5000} }},
	}
}

// manyTopics: several topics and partitions in one request, good and bad.
func manyCases() []compareCase {
	produce := func(s *side, v int16) kmsg.Request {
		r := produceTo("one", 0, plain("m").bytes())(s, v).(*kmsg.ProduceRequest)
		r.Topics = append(r.Topics, produceTo("nobody", 0, plain("m").bytes())(s, v).(*kmsg.ProduceRequest).Topics...)
		bad := produceTo("three", 0, plain("m").with(func(b *testBatch) { b.crcBy = 3 }).bytes())(s, v).(*kmsg.ProduceRequest).Topics[0]
		bad.Partitions = append(bad.Partitions, produceTo("three", 2, plain("n").bytes())(s, v).(*kmsg.ProduceRequest).Topics[0].Partitions...)
		r.Topics = append(r.Topics, bad)
		return r
	}
	fetch := func(s *side, v int16) kmsg.Request {
		r := fetchOf("one", 0, 0)(s, v).(*kmsg.FetchRequest)
		for _, f := range []func(*side, int16) kmsg.Request{fetchOf("nobody", 0, 0), fetchOf("three", 2, 0), fetchOf("defaults", 0, 77)} {
			r.Topics = append(r.Topics, f(s, v).(*kmsg.FetchRequest).Topics...)
		}
		return r
	}
	transactional := func(s *side, v int16) kmsg.Request {
		r := produceTo("one", 0, plain("m").with(func(b *testBatch) { b.attributes, b.producer, b.epoch, b.sequence = 0x10, 5, 0, 0 }).bytes())(s, v).(*kmsg.ProduceRequest)
		r.TransactionID = ptr("t")
		return r
	}
	return []compareCase{
		{name: "Produce to many", from: 3, to: 13, req: produce},
		{name: "Fetch of many", from: 4, to: 18, req: fetch},
		{name: "Produce nothing", from: 3, to: 13, req: func(*side, int16) kmsg.Request { return &kmsg.ProduceRequest{Acks: -1, TimeoutMillis: 1000} }},
		{name: "Fetch nothing", from: 4, to: 18, req: func(*side, int16) kmsg.Request {
			r := kmsg.NewPtrFetchRequest()
			r.MaxWaitMillis, r.MinBytes, r.SessionEpoch = 10, 1, -1
			return r
		}},
		{name: "ListOffsets nothing", from: 1, to: 11, req: func(*side, int16) kmsg.Request { return &kmsg.ListOffsetsRequest{ReplicaID: -1} }},
		{name: "Produce transactional", from: 3, to: 13, req: transactional},
	}
}
