package handler

// NewBroker makes the handler of client listeners. The versions are those of
// Apache Kafka 4.4, for the APIs that are implemented.
func NewBroker(opts Options) *Handler {
	return newHandler(opts, []api{
		{key: 0, min: 3, max: 13, serve: (*Handler).produce},
		{key: 1, min: 4, max: 18, listed: 4, serve: (*Handler).fetch},
		{key: 2, min: 1, max: 11, listed: 1, serve: (*Handler).listOffsets},
		{key: 3, min: 0, max: 13, serve: (*Handler).metadata},
		{key: 10, min: 0, max: 6, serve: (*Handler).findCoordinator},
		{key: 18, min: 0, max: 5, serve: (*Handler).apiVersions},
		{key: 19, min: 2, max: 7, listed: 2, serve: (*Handler).createTopics},
		{key: 20, min: 1, max: 6, listed: 1, serve: (*Handler).deleteTopics},
		{key: 21, min: 0, max: 2, serve: (*Handler).deleteRecords},
		{key: 22, min: 0, max: 5, serve: (*Handler).initProducerID},
		{key: 23, min: 2, max: 4, listed: 2, serve: (*Handler).offsetForLeaderEpoch},
		{key: 32, min: 1, max: 4, listed: 1, serve: (*Handler).describeConfigs},
		{key: 33, min: 0, max: 2, serve: (*Handler).alterConfigs},
		{key: 35, min: 1, max: 5, listed: 1, serve: (*Handler).describeLogDirs},
		{key: 37, min: 0, max: 3, serve: (*Handler).createPartitions},
		{key: 43, min: 0, max: 2, serve: (*Handler).relay},
		{key: 44, min: 0, max: 1, serve: (*Handler).incrementalAlterConfigs},
		{key: 48, min: 0, max: 1, serve: (*Handler).describeClientQuotas},
		{key: 49, min: 0, max: 1, serve: (*Handler).alterClientQuotas},
		{key: 55, min: 0, max: 2, serve: (*Handler).askQuorum},
		{key: 57, min: 0, max: 2, serve: (*Handler).updateFeatures},
		{key: 60, min: 0, max: 2, serve: (*Handler).describeCluster},
		{key: 61, min: 0, max: 0, serve: (*Handler).describeProducers},
		{key: 64, min: 0, max: 0, serve: (*Handler).relay},
		{key: 74, min: 0, max: 1, serve: (*Handler).listConfigResources},
		{key: 75, min: 0, max: 0, serve: (*Handler).describeTopicPartitions},
		{key: 80, min: 0, max: 1, serve: (*Handler).askQuorum},
		{key: 81, min: 0, max: 0, serve: (*Handler).askQuorum},
		{key: 94, min: 0, max: 0, serve: (*Handler).relay},
	})
}

// NewController makes the handler of controller listeners (KIP-919).
func NewController(opts Options) *Handler {
	return newHandler(opts, []api{
		{key: 1, min: 4, max: 18, listed: 4, serve: (*Handler).raft},
		{key: 18, min: 0, max: 5, serve: (*Handler).apiVersions},
		{key: 19, min: 2, max: 7, listed: 2, serve: (*Handler).createTopics},
		{key: 20, min: 1, max: 6, listed: 1, serve: (*Handler).deleteTopics},
		{key: 32, min: 1, max: 4, listed: 1, serve: (*Handler).describeConfigs},
		{key: 33, min: 0, max: 2, serve: (*Handler).alterConfigs},
		{key: 37, min: 0, max: 3, serve: (*Handler).createPartitions},
		{key: 43, min: 0, max: 2, serve: (*Handler).relay},
		{key: 44, min: 0, max: 1, serve: (*Handler).incrementalAlterConfigs},
		{key: 49, min: 0, max: 1, serve: (*Handler).alterClientQuotas},
		{key: 52, min: 0, max: 2, serve: (*Handler).raft},
		{key: 53, min: 0, max: 1, serve: (*Handler).raft},
		{key: 54, min: 0, max: 1, serve: (*Handler).raft},
		{key: 55, min: 0, max: 2, serve: (*Handler).describeQuorum},
		{key: 56, min: 2, max: 3, listed: 2, serve: (*Handler).relay},
		{key: 57, min: 0, max: 2, serve: (*Handler).updateFeatures},
		{key: 58, min: 0, max: 0, serve: (*Handler).envelope},
		{key: 59, min: 0, max: 1, serve: (*Handler).raft},
		{key: 60, min: 0, max: 2, serve: (*Handler).describeControllers},
		{key: 62, min: 0, max: 4, serve: (*Handler).relay},
		{key: 63, min: 0, max: 2, serve: (*Handler).brokerHeartbeat},
		{key: 64, min: 0, max: 0, serve: (*Handler).relay},
		{key: 67, min: 0, max: 0, serve: (*Handler).relay},
		{key: 70, min: 0, max: 0, serve: (*Handler).relay},
		{key: 73, min: 0, max: 0, serve: (*Handler).relay},
		{key: 80, min: 0, max: 1, serve: (*Handler).raft},
		{key: 81, min: 0, max: 0, serve: (*Handler).raft},
		{key: 82, min: 0, max: 0, serve: (*Handler).raft},
		{key: 94, min: 0, max: 0, serve: (*Handler).relay},
	})
}
