package config

// groupKeys are the group settings of Apache Kafka 4.4, in order of name.
var groupKeys = []Key{
	{Name: "consumer.assignment.interval.ms", Type: Int, Default: "1000", Bounded: true, Max: noLimit},
	{Name: "consumer.heartbeat.interval.ms", Type: Int, Default: "5000", Bounded: true, Min: 1, Max: noLimit},
	{Name: "consumer.session.timeout.ms", Type: Int, Default: "45000", Bounded: true, Min: 1, Max: noLimit},
	{Name: "errors.deadletterqueue.copy.record.enable", Type: Boolean, Default: "false"},
	{Name: "errors.deadletterqueue.topic.name", Type: String},
	{Name: "share.assignment.interval.ms", Type: Int, Default: "1000", Bounded: true, Max: noLimit},
	{Name: "share.auto.offset.reset", Type: String, Default: "latest", Shape: offsetReset},
	{Name: "share.delivery.count.limit", Type: Int, Default: "5", Bounded: true, Min: 2, Max: noLimit},
	{Name: "share.heartbeat.interval.ms", Type: Int, Default: "5000", Bounded: true, Min: 1, Max: noLimit},
	{Name: "share.isolation.level", Type: String, Default: "read_uncommitted", OneOf: []string{"read_committed", "read_uncommitted"}},
	{Name: "share.partition.max.record.locks", Type: Int, Default: "2000", Bounded: true, Min: 100, Max: noLimit},
	{Name: "share.record.lock.duration.ms", Type: Int, Default: "30000", Bounded: true, Min: 1000, Max: noLimit},
	{Name: "share.renew.acknowledge.enable", Type: Boolean, Default: "true"},
	{Name: "share.session.timeout.ms", Type: Int, Default: "45000", Bounded: true, Min: 1, Max: noLimit},
	{Name: "streams.assignment.interval.ms", Type: Int, Default: "1000", Bounded: true, Max: noLimit},
	{Name: "streams.assignor.name", Type: String, Null: true},
	{Name: "streams.heartbeat.interval.ms", Type: Int, Default: "5000", Bounded: true, Min: 1, Max: noLimit},
	{Name: "streams.initial.rebalance.delay.ms", Type: Int, Default: "3000", Bounded: true, Max: noLimit},
	{Name: "streams.num.standby.replicas", Type: Int, Default: "0", Bounded: true, Max: noLimit},
	{Name: "streams.rack.aware.assignment.tags", Type: List},
	{Name: "streams.session.timeout.ms", Type: Int, Default: "45000", Bounded: true, Min: 1, Max: noLimit},
}
