package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// maxTopicName is the length that leaves room for "-partition" in a file name.
const maxTopicName = 249

// CheckTopicName says why a name is not allowed, or nothing (Kafka's Topic.validate).
func CheckTopicName(name string) string {
	reason := ""
	switch {
	case name == "":
		reason = "the empty string is not allowed"
	case name == "." || name == "..":
		reason = "'" + name + "' is not allowed"
	case len(name) > maxTopicName:
		reason = fmt.Sprintf("the length of '%s' is longer than the max allowed length %d", name, maxTopicName)
	case strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}):
		reason = "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	default:
		return ""
	}
	return "Topic name is invalid: " + reason
}

// createTopics answers CreateTopics. Topics fail one by one; what succeeds is
// written in one batch.
func (s *step) createTopics(req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = req.Version
	count := map[string]int{}
	for i := range req.Topics {
		count[req.Topics[i].Topic]++
	}
	var records []record.Message
	var taken []string // lookalikes within the request
	overall := s.checkPartitionTotal(req)
	for i := range req.Topics {
		t := &req.Topics[i]
		result := kmsg.NewCreateTopicsResponseTopic()
		result.Topic = t.Topic
		var f failure
		var ms []record.Message
		switch {
		case count[t.Topic] == 0:
			continue // a duplicate is answered once
		case count[t.Topic] > 1:
			f = failure{kafka.ErrInvalidRequest, "Duplicate topic name."}
			count[t.Topic] = 0
		case overall.failed():
			f = overall
		default:
			ms, f = s.createTopic(t, taken, &result)
		}
		if !f.failed() && len(records)+len(ms) > MaxRecordsPerOperation {
			return s.refuseTopics(req, tooManyRecords)
		}
		if f.failed() {
			result = kmsg.NewCreateTopicsResponseTopic()
			result.Topic, result.ErrorCode, result.ErrorMessage = t.Topic, int16(f.code), f.text()
			result.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // Kafka's clients take null for "not authorized"
		} else {
			taken = append(taken, t.Topic)
		}
		records = append(records, ms...)
		resp.Topics = append(resp.Topics, result)
	}
	if !req.ValidateOnly {
		s.write(records...)
	}
	return resp
}

// refuseTopics fails every topic of the request the same way.
func (s *step) refuseTopics(req *kmsg.CreateTopicsRequest, f failure) *kmsg.CreateTopicsResponse {
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = req.Version
	for _, t := range req.Topics {
		result := kmsg.NewCreateTopicsResponseTopic()
		result.Topic, result.ErrorCode, result.ErrorMessage = t.Topic, int16(f.code), f.text()
		resp.Topics = append(resp.Topics, result)
	}
	return resp
}

// checkPartitionTotal refuses what would be too large before any work is done.
func (s *step) checkPartitionTotal(req *kmsg.CreateTopicsRequest) failure {
	total := int64(0)
	for _, t := range req.Topics {
		switch {
		case len(t.ReplicaAssignment) > 0:
			total += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == -1:
			total += int64(s.opts.DefaultPartitions)
		case t.NumPartitions > 0:
			total += int64(t.NumPartitions)
		}
	}
	if total > MaxRecordsPerOperation {
		return failure{kafka.ErrPolicyViolation, "Excessively large number of partitions per request."}
	}
	return failure{}
}

// createTopic makes the records of one topic and fills in its result.
func (s *step) createTopic(t *kmsg.CreateTopicsRequestTopic, taken []string, result *kmsg.CreateTopicsResponseTopic) ([]record.Message, failure) {
	if f := s.checkNewTopic(t, taken); f.failed() {
		return nil, f
	}
	overrides := map[string]string{}
	for _, c := range t.Configs {
		overrides[c.Name] = *c.Value
	}
	if f := s.checkTopicConfigs(overrides); f.failed() {
		return nil, f
	}
	parts, f := s.newPartitions(t)
	if f.failed() {
		return nil, f
	}
	id := s.newTopicID()
	records := []record.Message{&record.Topic{Name: t.Topic, TopicID: id}}
	for _, c := range sortedConfigs(overrides) {
		records = append(records, &record.Config{ResourceType: int8(metadata.TopicResource), ResourceName: t.Topic, Name: c.Name, Value: ptr(c.Value)})
	}
	for i, replicas := range parts {
		records = append(records, s.partitionRecord(id, kafka.PartitionID(i), replicas))
	}
	result.TopicID = id
	result.NumPartitions, result.ReplicationFactor = int32(len(parts)), int16(len(parts[0]))
	result.Configs = s.effectiveConfigs(overrides)
	return records, failure{}
}

func sortedConfigs(m map[string]string) []metadata.Config {
	var out []metadata.Config
	for name, value := range m {
		out = append(out, metadata.Config{Name: name, Value: value})
	}
	slices.SortFunc(out, func(a, b metadata.Config) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (s *step) checkNewTopic(t *kmsg.CreateTopicsRequestTopic, taken []string) failure {
	if t.Topic == kafka.ClusterMetadataTopic {
		return failure{kafka.ErrInvalidRequest, "Creation of internal topic __cluster_metadata is prohibited."}
	}
	if reason := CheckTopicName(t.Topic); reason != "" {
		return failure{kafka.ErrInvalidTopicException, reason}
	}
	if s.tip.TopicByName(t.Topic).Exists() {
		return failure{kafka.ErrTopicAlreadyExists, fmt.Sprintf("Topic '%s' already exists.", t.Topic)}
	}
	other, found := s.tip.Lookalike(t.Topic)
	for _, n := range taken {
		if !found && strings.ReplaceAll(n, ".", "_") == strings.ReplaceAll(t.Topic, ".", "_") {
			other, found = n, true
		}
	}
	if found {
		return failure{kafka.ErrInvalidTopicException, fmt.Sprintf("Topic '%s' collides with existing topic: %s", t.Topic, other)}
	}
	var null []string
	for _, c := range t.Configs {
		if c.Value == nil {
			null = append(null, c.Name)
		}
	}
	if len(null) > 0 {
		return failure{kafka.ErrInvalidConfig, "Null value not supported for topic configs: " + strings.Join(null, ",")}
	}
	return failure{}
}

// newPartitions gives the replicas of each partition of a new topic.
func (s *step) newPartitions(t *kmsg.CreateTopicsRequestTopic) ([][]kafka.NodeID, failure) {
	if len(t.ReplicaAssignment) > 0 {
		return s.assignedPartitions(t)
	}
	switch {
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return nil, failure{kafka.ErrInvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value."}
	case t.NumPartitions < -1 || t.NumPartitions == 0:
		return nil, failure{kafka.ErrInvalidPartitions, "Number of partitions was set to an invalid non-positive value."}
	}
	n, rf := t.NumPartitions, t.ReplicationFactor
	if n == -1 {
		n = s.opts.DefaultPartitions
	}
	if rf == -1 {
		rf = s.opts.DefaultReplicationFactor
	}
	return s.placed(int(n), int(rf))
}

// placed lets the placer choose.
func (s *step) placed(partitions, replicas int) ([][]kafka.NodeID, failure) {
	p := s.newPlacer()
	prefix := fmt.Sprintf("Unable to replicate the partition %d time(s): ", replicas)
	if f := p.check(replicas); f.failed() {
		f.message = prefix + f.message
		return nil, f
	}
	out := make([][]kafka.NodeID, partitions)
	for i := range out {
		out[i] = p.place(replicas)
		if len(s.activeOf(out[i])) == 0 {
			return nil, failure{kafka.ErrInvalidReplicationFactor, prefix + "All brokers are currently fenced or in controlled shutdown."}
		}
	}
	return out, failure{}
}

// assignedPartitions checks a manual assignment.
func (s *step) assignedPartitions(t *kmsg.CreateTopicsRequestTopic) ([][]kafka.NodeID, failure) {
	switch {
	case t.ReplicationFactor != -1:
		return nil, failure{kafka.ErrInvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1."}
	case t.NumPartitions != -1:
		return nil, failure{kafka.ErrInvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1."}
	}
	out := make([][]kafka.NodeID, len(t.ReplicaAssignment))
	factor := 0
	for _, a := range t.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(out) {
			return nil, failure{kafka.ErrInvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence"}
		}
		if out[a.Partition] != nil {
			return nil, failure{kafka.ErrInvalidReplicaAssignment, fmt.Sprintf("Found multiple manual partition assignments for partition %d", a.Partition)}
		}
		replicas, f := s.checkAssignment(a.Replicas, factor, int(a.Partition))
		if f.failed() {
			return nil, f
		}
		factor = len(replicas)
		out[a.Partition] = replicas
	}
	return out, failure{}
}

// checkAssignment checks the replicas of one partition; factor 0 is any.
func (s *step) checkAssignment(nodes []int32, factor, partition int) ([]kafka.NodeID, failure) {
	bad := func(format string, args ...any) ([]kafka.NodeID, failure) {
		return nil, failure{kafka.ErrInvalidReplicaAssignment, fmt.Sprintf(format, args...)}
	}
	if len(nodes) == 0 {
		return bad("The manual partition assignment includes an empty replica list.")
	}
	var out []kafka.NodeID
	for _, n := range nodes {
		id := kafka.NodeID(n)
		switch {
		case s.tip.Broker(id) == nil:
			return bad("The manual partition assignment includes broker %d, but no such broker is registered.", n)
		case s.tip.Broker(id).AllCordoned():
			return bad("The manual partition assignment includes broker %d, but all its log directories are cordoned.", n)
		case slices.Contains(out, id):
			return bad("The manual partition assignment includes the broker %d more than once.", n)
		}
		out = append(out, id)
	}
	if factor != 0 && len(out) != factor {
		return bad("The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(out), factor)
	}
	if len(s.activeOf(out)) == 0 {
		return bad("All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition)
	}
	return out, failure{}
}

// activeOf gives the nodes that can be in sync from the start.
func (s *step) activeOf(nodes []kafka.NodeID) []kafka.NodeID {
	return slices.DeleteFunc(slices.Clone(nodes), func(n kafka.NodeID) bool {
		b := s.tip.Broker(n)
		return b == nil || !b.Active()
	})
}

// partitionRecord makes the record of a new partition: the first active
// replica leads, all active ones are in sync.
func (s *step) partitionRecord(topic kafka.TopicID, id kafka.PartitionID, replicas []kafka.NodeID) *record.Partition {
	m := record.NewPartition()
	m.TopicID, m.PartitionID, m.Replicas = topic, id, replicas
	m.ISR = s.activeOf(replicas)
	m.Leader, m.LeaderEpoch, m.PartitionEpoch = m.ISR[0], 0, 0
	if s.tip.Version().CanAssignDirectories() {
		for _, n := range replicas {
			m.Directories = append(m.Directories, s.defaultDirectory(n))
		}
	}
	return m
}

// effectiveConfigs lists all settings of a topic with the given overrides.
func (s *step) effectiveConfigs(overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	var out []kmsg.CreateTopicsResponseTopicConfig
	node := metadata.Resource{Type: metadata.BrokerResource, Name: strconv.Itoa(int(s.opts.NodeID))}
	for _, d := range s.opts.Rules.TopicDefaults() {
		value, source := d.Value, d.Source
		if v, ok := overrides[d.Name]; ok {
			value, source = v, DynamicTopicConfig
		} else if v, ok := s.tip.Config(node, d.BrokerName); ok && d.BrokerName != "" {
			value, source = v, DynamicBrokerConfig
		} else if v, ok := s.tip.Config(metadata.Resource{Type: metadata.BrokerResource}, d.BrokerName); ok && d.BrokerName != "" {
			value, source = v, DynamicDefaultBrokerConfig
		}
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Source, c.IsSensitive = d.Name, int8(source), d.Sensitive
		if !d.Sensitive {
			c.Value = ptr(value)
		}
		out = append(out, c)
	}
	return out
}
