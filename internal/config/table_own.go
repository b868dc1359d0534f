package config

// ownKeys are settings of this server that Apache Kafka does not have, in order
// of name. A Kafka node that finds one in its file warns and ignores it.
// DescribeConfigs does not show them: its tools know Kafka's settings only.
var ownKeys = []Key{
	{Name: "moldau.controller.quorum.fast.failover", Type: Boolean, Default: "true"},
}

// OwnKeys are the settings that only this server has; see BrokerKeys.
func OwnKeys() []Key { return ownKeys }
