package controller

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// configChange is what a request wants for one resource.
type configChange struct {
	resource metadata.Resource
	explicit []record.Message // of the settings that the request names
	implicit []record.Message // of those that AlterConfigs drops by silence
}

// incrementalAlterConfigs answers IncrementalAlterConfigs.
func (s *step) incrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Version = req.Version
	var records []record.Message
	seen := map[metadata.Resource]int{}
	for _, r := range req.Resources {
		seen[metadata.Resource{Type: metadata.ResourceType(r.ResourceType), Name: r.ResourceName}]++
	}
	for _, r := range req.Resources {
		res := metadata.Resource{Type: metadata.ResourceType(r.ResourceType), Name: r.ResourceName}
		var f failure
		if seen[res] > 1 {
			f = failure{kafka.ErrInvalidRequest, "Each resource must appear at most once."}
		} else {
			var ms []record.Message
			ms, f = s.incremental(res, r.Configs)
			records = append(records, ms...)
		}
		result := kmsg.NewIncrementalAlterConfigsResponseResource()
		result.ResourceType, result.ResourceName = r.ResourceType, r.ResourceName
		result.ErrorCode, result.ErrorMessage = int16(f.code), f.text()
		resp.Resources = append(resp.Resources, result)
	}
	records = s.withClearedELR(records)
	if len(records) > MaxRecordsPerOperation {
		for i := range resp.Resources {
			resp.Resources[i].ErrorCode, resp.Resources[i].ErrorMessage = int16(tooManyRecords.code), tooManyRecords.text()
		}
		return resp
	}
	if !req.ValidateOnly {
		s.write(records...)
	}
	return resp
}

// incremental works out the changes of one resource.
func (s *step) incremental(res metadata.Resource, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig) ([]record.Message, failure) {
	c := configChange{resource: res}
	for i, op := range ops {
		if slices.ContainsFunc(ops[:i], func(o kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return o.Name == op.Name }) {
			return nil, failure{kafka.ErrInvalidRequest, "Error due to duplicate config keys"}
		}
		if op.Op != kmsg.IncrementalAlterConfigOpDelete && op.Value == nil {
			return nil, failure{kafka.ErrInvalidRequest, "Null value not supported for : " + op.Name}
		}
		current, had := s.tip.Config(res, op.Name)
		var value *string
		switch op.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			value = op.Value
		case kmsg.IncrementalAlterConfigOpDelete:
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if !s.opts.Rules.IsList(res.Type, op.Name) {
				return nil, failure{kafka.ErrInvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", op.Op, op.Name)}
			}
			value = ptr(s.editList(res, op))
		default:
			return nil, failure{kafka.ErrInvalidRequest, fmt.Sprintf("Unknown operation type %d", op.Op)}
		}
		// A broker reloads its settings even when the value is the same (KAFKA-14136).
		same := had && value != nil && current == *value || !had && value == nil
		if !same || res.Type == metadata.BrokerResource {
			c.explicit = append(c.explicit, &record.Config{ResourceType: int8(res.Type), ResourceName: res.Name, Name: op.Name, Value: value})
		}
	}
	return s.checked(c)
}

// editList appends to or subtracts from a list.
func (s *step) editList(res metadata.Resource, op kmsg.IncrementalAlterConfigsRequestResourceConfig) string {
	old, ok := s.tip.Config(res, op.Name)
	if !ok {
		old, _ = s.opts.Rules.Default(res.Type, op.Name)
	}
	var list []string
	for _, p := range strings.Split(old, ",") {
		if p != "" {
			list = append(list, p)
		}
	}
	for _, p := range strings.Split(*op.Value, ",") {
		i := slices.Index(list, p)
		switch {
		case op.Op == kmsg.IncrementalAlterConfigOpAppend && i < 0:
			list = append(list, p)
		case op.Op == kmsg.IncrementalAlterConfigOpSubtract && i >= 0:
			list = slices.Delete(list, i, i+1)
		}
	}
	return strings.Join(list, ",")
}

// alterConfigs answers AlterConfigs, which replaces all settings of a resource.
func (s *step) alterConfigs(req *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.Version = req.Version
	var records []record.Message
	seen := map[metadata.Resource]int{}
	for _, r := range req.Resources {
		seen[metadata.Resource{Type: metadata.ResourceType(r.ResourceType), Name: r.ResourceName}]++
	}
	for _, r := range req.Resources {
		res := metadata.Resource{Type: metadata.ResourceType(r.ResourceType), Name: r.ResourceName}
		var f failure
		if seen[res] > 1 {
			f = failure{kafka.ErrInvalidRequest, "Each resource must appear at most once."}
		} else {
			var ms []record.Message
			ms, f = s.replacement(res, r.Configs)
			records = append(records, ms...)
		}
		result := kmsg.NewAlterConfigsResponseResource()
		result.ResourceType, result.ResourceName = r.ResourceType, r.ResourceName
		result.ErrorCode, result.ErrorMessage = int16(f.code), f.text()
		resp.Resources = append(resp.Resources, result)
	}
	records = s.withClearedELR(records)
	if len(records) > MaxRecordsPerOperation {
		for i := range resp.Resources {
			resp.Resources[i].ErrorCode, resp.Resources[i].ErrorMessage = int16(tooManyRecords.code), tooManyRecords.text()
		}
		return resp
	}
	if !req.ValidateOnly {
		s.write(records...)
	}
	return resp
}

func (s *step) replacement(res metadata.Resource, configs []kmsg.AlterConfigsRequestResourceConfig) ([]record.Message, failure) {
	c := configChange{resource: res}
	named := map[string]bool{}
	for _, n := range configs {
		if named[n.Name] {
			return nil, failure{kafka.ErrInvalidRequest, "Error due to duplicate config keys"}
		}
		if n.Value == nil {
			return nil, failure{kafka.ErrInvalidRequest, "Null value not supported for : " + n.Name}
		}
		named[n.Name] = true
		if current, had := s.tip.Config(res, n.Name); !had || current != *n.Value || res.Type == metadata.BrokerResource {
			c.explicit = append(c.explicit, &record.Config{ResourceType: int8(res.Type), ResourceName: res.Name, Name: n.Name, Value: n.Value})
		}
	}
	for _, old := range s.tip.Configs(res) {
		if !named[old.Name] {
			c.implicit = append(c.implicit, &record.Config{ResourceType: int8(res.Type), ResourceName: res.Name, Name: old.Name})
		}
	}
	return s.checked(c)
}

// checked gives the records of a change, or why it is refused.
func (s *step) checked(c configChange) ([]record.Message, failure) {
	records := append(c.explicit, c.implicit...)
	all := map[string]string{}
	for _, old := range s.tip.Configs(c.resource) {
		all[old.Name] = old.Value
	}
	for _, m := range records {
		m := m.(*record.Config)
		switch {
		case m.Name == configMinInSync && c.resource.Type == metadata.BrokerResource && s.tip.CanUseELR() && c.resource.Name != "":
			return nil, failure{kafka.ErrInvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."}
		case m.Name == configMinInSync && c.resource.Type == metadata.BrokerResource && s.tip.CanUseELR() && m.Value == nil:
			return nil, failure{kafka.ErrInvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."}
		case m.Value == nil:
			delete(all, m.Name)
		case len(*m.Value) > math.MaxInt16:
			return nil, failure{kafka.ErrInvalidConfig, fmt.Sprintf("The configuration value cannot be added because it exceeds the maximum value size of %d bytes.", math.MaxInt16)}
		default:
			all[m.Name] = *m.Value
		}
	}
	if f := s.checkResource(c.resource); f.failed() {
		return nil, f
	}
	if f := s.checkConfigs(c.resource, all, c.explicit); f.failed() {
		return nil, f
	}
	return records, failure{}
}

// checkResource: the resource can have settings, and exists.
func (s *step) checkResource(r metadata.Resource) failure {
	switch r.Type {
	case metadata.TopicResource:
		if r.Name == "" {
			return failure{kafka.ErrInvalidRequest, "Default topic resources are not allowed."}
		}
		if reason := CheckTopicName(r.Name); reason != "" {
			return failure{kafka.ErrInvalidTopicException, reason}
		}
		if !s.tip.TopicByName(r.Name).Exists() {
			return failure{kafka.ErrUnknownTopicOrPartition, "The topic '" + r.Name + "' does not exist."}
		}
	case metadata.BrokerResource:
		return s.checkBrokerName(r.Name)
	case metadata.GroupResource:
		if r.Name == "" {
			return failure{kafka.ErrInvalidRequest, "Default group resources are not allowed."}
		}
	case metadata.ClientMetricsResource:
		if r.Name == "" {
			return failure{kafka.ErrInvalidRequest, "Subscription name can't be empty"}
		}
	default:
		return failure{kafka.ErrInvalidRequest, fmt.Sprintf("Unknown resource type %d", r.Type)}
	}
	return failure{}
}

func (s *step) checkBrokerName(name string) failure {
	if name == "" {
		return failure{}
	}
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return failure{kafka.ErrInvalidRequest, "Unable to parse broker name as a base 10 number."}
	case id < 0:
		return failure{kafka.ErrInvalidRequest, "Invalid negative broker ID."}
	case s.tip.Broker(kafka.NodeID(id)) == nil && s.tip.Controller(kafka.NodeID(id)) == nil:
		return failure{kafka.ErrBrokerIDNotRegistered, "No node with id " + name + " found."}
	}
	return failure{}
}

// checkConfigs checks values: all that a resource would have, or of a broker
// those that are named: the broker itself has looked at them together.
func (s *step) checkConfigs(r metadata.Resource, all map[string]string, named []record.Message) failure {
	switch r.Type {
	case metadata.TopicResource:
		return s.checkTopicConfigs(all)
	case metadata.GroupResource:
		if err := s.opts.Rules.CheckGroup(all); err != nil {
			return failure{kafka.ErrInvalidConfig, err.Error()}
		}
		return failure{}
	case metadata.ClientMetricsResource:
		malformed, err := s.opts.Rules.CheckClientMetrics(all)
		switch {
		case malformed:
			return failure{kafka.ErrInvalidRequest, err.Error()}
		case err != nil:
			return failure{kafka.ErrInvalidConfig, err.Error()}
		}
		return failure{}
	}
	for _, m := range named {
		m := m.(*record.Config)
		if m.Value == nil {
			continue
		}
		if err := s.opts.Rules.CheckBroker(m.Name, *m.Value, r.Name == ""); err != nil {
			return failure{kafka.ErrInvalidRequest, err.Error()} // ConfigAdminManager
		}
	}
	return failure{}
}

func (s *step) checkTopicConfigs(all map[string]string) failure {
	for _, c := range sortedConfigs(all) {
		if err := s.opts.Rules.CheckTopic(c.Name, c.Value); err != nil {
			return failure{kafka.ErrInvalidConfig, err.Error()}
		}
	}
	if err := s.opts.Rules.CheckTopicSet(all); err != nil {
		return failure{kafka.ErrInvalidConfig, err.Error()}
	}
	return failure{}
}

// withClearedELR empties eligible sets where min.insync.replicas changes: they
// were made under the old minimum.
func (s *step) withClearedELR(records []record.Message) []record.Message {
	if !s.tip.CanUseELR() {
		return records
	}
	for _, m := range slices.Clone(records) {
		if c, ok := m.(*record.Config); ok && c.Name == configMinInSync {
			clear := &record.ClearELR{}
			if metadata.ResourceType(c.ResourceType) == metadata.TopicResource {
				clear.TopicName = c.ResourceName
			}
			records = append(records, clear)
		}
	}
	return records
}
