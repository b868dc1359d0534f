package main

import "strings"

// skipped are schemas that are not binary (JSON files) or too small to need a
// struct.
var skipped = map[string]bool{"QuorumStateData": true, "ControlRecordTypeSchema": true}

// goNames gives every struct its Go name: the schema's without "Record" or
// "Message". A struct inside a message gets the message's name in front when
// its own name is not unique.
func goNames(messages []*message) {
	seen := map[string]int{}
	for _, m := range messages {
		m.goName = initialisms(strings.TrimSuffix(strings.TrimSuffix(m.name, "Record"), "Message"))
		seen[m.goName]++
		for _, s := range m.nested {
			seen[s.name]++
		}
	}
	for _, m := range messages {
		for _, s := range m.nested {
			s.goName = initialisms(s.name)
			if seen[s.name] > 1 {
				s.goName = m.goName + initialisms(s.name)
			}
		}
	}
}

// initialisms writes the abbreviations in a struct's name as Go does.
func initialisms(name string) string {
	if s, ok := strings.CutSuffix(name, "Ids"); ok {
		name = s + "IDs"
	}
	return strings.Replace(strings.Replace(name, "Zk", "ZK", 1), "Elr", "ELR", 1)
}

// fieldName gives the exported Go name of a field, with Go's initialisms.
func fieldName(name string) string {
	name = strings.ToUpper(name[:1]) + name[1:]
	switch name {
	case "Isr":
		return "ISR"
	case "LastKnownElr":
		return "LastKnownELR"
	case "IsMigratingZkBroker":
		return "IsMigratingZKBroker"
	case "Id":
		return "ID"
	}
	name = strings.Replace(name, "Zk", "ZK", 1)
	if s, ok := strings.CutSuffix(name, "Ids"); ok {
		return s + "IDs"
	}
	if s, ok := strings.CutSuffix(name, "Id"); ok {
		return s + "ID"
	}
	return name
}

// kafkaType names the type of package kafka that a field's meaning asks for,
// or "".
func kafkaType(f field) string {
	switch f.typ {
	case "int32":
		return kafkaInt32(f)
	case "int64":
		return kafkaInt64(f)
	case "int16":
		switch f.name {
		case "SecurityProtocol":
			return "SecurityProtocol"
		case "ProducerEpoch", "NextProducerEpoch":
			return "ProducerEpoch"
		}
	case "uuid":
		switch f.name {
		case "TopicId", "topicId":
			return "TopicID"
		case "LogDirs", "CordonedLogDirs", "Directories", "VoterDirectoryId":
			return "DirectoryID"
		case "IncarnationId":
			return "IncarnationID"
		}
		return "UUID"
	}
	return ""
}

func kafkaInt32(f field) string {
	switch f.name {
	case "BrokerId", "Leader", "ControllerId", "VoterId", "LeaderId", "Id", "Replicas", "Isr",
		"RemovingReplicas", "AddingReplicas", "EligibleLeaderReplicas", "LastKnownElr":
		return "NodeID"
	case "LeaderEpoch", "leaderEpoch", "CoordinatorEpoch":
		return "Epoch"
	case "PartitionId", "Partition", "partition", "PartitionIds":
		return "PartitionID"
	case "Partitions":
		if f.array {
			return "PartitionID"
		}
	}
	return ""
}

func kafkaInt64(f field) string {
	switch f.name {
	case "BrokerEpoch", "Epoch":
		if f.name == "Epoch" && f.versions.lo != 0 {
			return ""
		}
		return "BrokerEpoch"
	case "ProducerId", "NextProducerId", "PreviousProducerId":
		return "ProducerID"
	case "offset", "FirstOffset", "LastOffset", "StartOffset", "LastStableOffset":
		return "Offset"
	}
	if strings.HasSuffix(f.name, "imestamp") || strings.HasSuffix(f.name, "TimestampMs") {
		return "WallMs"
	}
	return ""
}

// fileOf sorts messages into generated files of a readable size.
func fileOf(m *message) string {
	has := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(m.name, p) {
				return true
			}
		}
		return false
	}
	switch {
	case isMetadata(m) && has("RegisterBroker", "UnregisterBroker", "Fence", "Unfence", "BrokerRegistration"):
		return "metadata_brokers"
	case isMetadata(m) && has("Topic", "Partition", "RemoveTopic", "ClearElr"):
		return "metadata_topics"
	case isMetadata(m) && has("Delegation", "RemoveDelegation", "User", "RemoveUser", "Access", "RemoveAccess", "ClientQuota"):
		return "metadata_security"
	case isMetadata(m):
		return "metadata_cluster"
	case m.id == none && has("Consumer", "DefaultPrincipal", "AbortedTxn"):
		return "file"
	case m.id == none:
		return "control"
	case has("TransactionLog"):
		return "transaction_log"
	case has("ShareSnapshot", "ShareUpdate"):
		return "share_log"
	case has("ConsumerGroupTarget", "ConsumerGroupCurrent"):
		return "group_consumer_assignment"
	case has("ConsumerGroup"):
		return "group_consumer"
	case has("ShareGroupTarget", "ShareGroupCurrent"):
		return "group_share_assignment"
	case has("ShareGroup"):
		return "group_share"
	case has("StreamsGroupTopology", "StreamsGroupMetadata", "StreamsGroupMember"):
		return "group_streams"
	case has("StreamsGroup"):
		return "group_streams_assignment"
	}
	return "group_classic"
}

// isMetadata tells whether the message is a record of __cluster_metadata.
func isMetadata(m *message) bool { return m.id != none && strings.HasSuffix(m.name, "Record") }
