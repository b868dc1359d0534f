package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// failure is a protocol error with the text that explains it.
type failure struct {
	code    kafka.ErrorCode
	message string
}

func (f failure) failed() bool { return f.code != kafka.NoError }

// text gives the message as responses want it: null when there is none.
func (f failure) text() *string {
	if f.message == "" {
		return nil
	}
	return &f.message
}

var tooManyRecords = failure{kafka.ErrPolicyViolation, "Excessively large number of records per request."}

// request answers one request.
func (s *step) request(r Request) {
	switch {
	case !s.active:
		s.fail(r.Token, kafka.ErrNotController, "The active controller appears to be another node.")
		return
	case s.tip.Version() == 0:
		s.fail(r.Token, kafka.ErrNotController, "The controller is not ready: there is no metadata.version yet.")
		return
	}
	var resp any
	switch body := r.Body.(type) {
	case *kmsg.BrokerRegistrationRequest:
		resp = s.registerBroker(body)
	case *kmsg.BrokerHeartbeatRequest:
		resp = s.heartbeat(body)
	case *kmsg.UnregisterBrokerRequest:
		resp = s.unregisterBroker(body)
	case *kmsg.ControllerRegistrationRequest:
		resp = s.registerController(body)
	case *kmsg.UnregisterControllerRequest:
		resp = s.unregisterController(body)
	case *kmsg.AllocateProducerIDsRequest:
		resp = s.allocateProducerIDs(body)
	case *kmsg.CreateTopicsRequest:
		resp = s.createTopics(body)
	case *kmsg.DeleteTopicsRequest:
		resp = s.deleteTopics(body)
	case *kmsg.CreatePartitionsRequest:
		resp = s.createPartitions(body)
	case *kmsg.IncrementalAlterConfigsRequest:
		resp = s.incrementalAlterConfigs(body)
	case *kmsg.AlterConfigsRequest:
		resp = s.alterConfigs(body)
	case *kmsg.AlterClientQuotasRequest:
		resp = s.alterClientQuotas(body)
	case *kmsg.AlterPartitionRequest:
		resp = s.alterPartition(body)
	case *kmsg.AssignReplicasToDirsRequest:
		resp = s.assignReplicasToDirs(body)
	case *kmsg.ElectLeadersRequest:
		resp = s.electLeaders(body)
	case *kmsg.UpdateFeaturesRequest:
		resp = s.updateFeatures(body)
	default:
		s.fail(r.Token, kafka.ErrUnsupportedVersion, "The controller does not handle this request.")
		return
	}
	s.reply(r.Token, resp)
}
