package controller

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// registerBroker answers BrokerRegistration (ClusterControlManager.registerBroker).
func (s *step) registerBroker(req *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse {
	resp := kmsg.NewPtrBrokerRegistrationResponse()
	resp.Version = req.Version
	resp.BrokerEpoch = int64(kafka.NoBrokerEpoch)
	if f := s.checkRegistration(req); f.failed() {
		resp.ErrorCode = int16(f.code)
		return resp
	}
	id := kafka.NodeID(req.BrokerID)
	old := s.tip.Broker(id)
	m := s.registration(req)
	var records []record.Message
	if old != nil && old.Incarnation == m.IncarnationID {
		// The same process: its epoch and state stay (KAFKA-16952).
		m.Fenced, m.InControlledShutdown, m.BrokerEpoch = old.Fenced, old.InControlledShutdown, old.Epoch
	} else {
		m.BrokerEpoch = kafka.BrokerEpoch(s.next)
		clean := old != nil && req.Version >= 3 && kafka.BrokerEpoch(req.PreviousBrokerEpoch) == old.Epoch
		records = s.restarted(id, clean)
	}
	// The registration comes last: should this node fail half-way, the broker
	// registers again and the next controller cleans up again.
	records = append(records, m)
	s.writeSplit(records)
	ses := s.sessions[id]
	if ses == nil || ses.epoch != m.BrokerEpoch {
		ses = newSession(m.BrokerEpoch, kafka.Never)
		s.sessions[id] = ses
	}
	ses.registered = s.next + kafka.Offset(len(records)-1)
	resp.BrokerEpoch = int64(m.BrokerEpoch)
	return resp
}

// registration makes the record; epoch and state are still missing.
func (s *step) registration(req *kmsg.BrokerRegistrationRequest) *record.RegisterBroker {
	m := record.NewRegisterBroker()
	m.BrokerID, m.IncarnationID, m.Rack = kafka.NodeID(req.BrokerID), kafka.IncarnationID(req.IncarnationID), req.Rack
	for _, l := range req.Listeners {
		m.EndPoints = append(m.EndPoints, record.BrokerEndpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: kafka.SecurityProtocol(l.SecurityProtocol)})
	}
	for _, f := range req.Features {
		m.Features = append(m.Features, record.BrokerFeature{
			Name: f.Name, MinSupportedVersion: f.MinSupportedVersion, MaxSupportedVersion: f.MaxSupportedVersion})
	}
	if s.tip.Version().CanAssignDirectories() {
		for _, d := range req.LogDirs {
			m.LogDirs = append(m.LogDirs, kafka.DirectoryID(d))
		}
	}
	return m
}

func (s *step) checkRegistration(req *kmsg.BrokerRegistrationRequest) failure {
	if req.ClusterID != s.opts.ClusterID {
		return failure{kafka.ErrInconsistentClusterID, fmt.Sprintf("This is cluster %s, not %s.", s.opts.ClusterID, req.ClusterID)}
	}
	if req.BrokerID < 0 {
		return failure{kafka.ErrInvalidRequest, "Negative broker id."}
	}
	if old := s.tip.Broker(kafka.NodeID(req.BrokerID)); old != nil && s.live(old) && old.Incarnation != kafka.IncarnationID(req.IncarnationID) {
		return failure{kafka.ErrDuplicateBrokerRegistration, "Another process with this broker id is alive. If the broker has just been restarted, wait for the end of its old session."}
	}
	if req.IsMigratingZkBroker {
		return failure{kafka.ErrBrokerIDNotRegistered, "Brokers of a ZooKeeper cluster cannot register."}
	}
	if f := s.checkDirectories(req); f.failed() {
		return f
	}
	if len(req.Listeners) == 0 {
		return failure{kafka.ErrInvalidRegistration, "No listeners specified in request."}
	}
	for i, l := range req.Listeners {
		if l.Name == "" || slices.ContainsFunc(req.Listeners[:i], func(o kmsg.BrokerRegistrationRequestListener) bool { return o.Name == l.Name }) {
			return failure{kafka.ErrInvalidRegistration, "Listener names must be unique and not empty."}
		}
	}
	return s.checkBrokerFeatures(req)
}

func (s *step) checkDirectories(req *kmsg.BrokerRegistrationRequest) failure {
	if !s.tip.Version().CanAssignDirectories() {
		return failure{}
	}
	if len(req.LogDirs) == 0 {
		return failure{kafka.ErrInvalidRegistration, "No directories specified in request"}
	}
	seen := map[kafka.DirectoryID]bool{}
	for _, d := range req.LogDirs {
		if kafka.UUID(d).Reserved() {
			return failure{kafka.ErrInvalidRegistration, "Reserved directory ID in request"}
		}
		if seen[d] {
			return failure{kafka.ErrInvalidRegistration, "Duplicate directory ID in request"}
		}
		seen[d] = true
	}
	var f failure
	s.tip.EachBroker(func(b *metadata.Broker) bool {
		for _, d := range b.Directories {
			if seen[d] && b.ID != kafka.NodeID(req.BrokerID) {
				f = failure{kafka.ErrInvalidRegistration, fmt.Sprintf("Broker %d is already registered with directory %s", b.ID, d)}
			}
		}
		return !f.failed()
	})
	return f
}

// checkBrokerFeatures: the broker supports every level that is in force.
func (s *step) checkBrokerFeatures(req *kmsg.BrokerRegistrationRequest) (f failure) {
	offered := map[string]kmsg.BrokerRegistrationRequestFeature{}
	for _, o := range req.Features {
		offered[o.Name] = o
		// A feature that is off is at level 0.
		if level := s.tip.FeatureLevel(o.Name); o.Name != metadata.FeatureKRaftVersion && (level < o.MinSupportedVersion || level > o.MaxSupportedVersion) {
			return failure{kafka.ErrUnsupportedVersion, fmt.Sprintf(
				"Unable to register because the broker does not support finalized version %d of %s. The broker wants a version between %d and %d, inclusive.",
				level, o.Name, o.MinSupportedVersion, o.MaxSupportedVersion)}
		}
	}
	if _, ok := offered[metadata.FeatureMetadataVersion]; !ok {
		return failure{kafka.ErrInvalidRegistration, "Request features do not contain 'metadata.version'"}
	}
	s.tip.EachFeature(func(name string, level int16) {
		if _, ok := offered[name]; !ok && level != 0 && !f.failed() {
			f = failure{kafka.ErrUnsupportedVersion, fmt.Sprintf("Unable to register because the broker does not support finalized version %d of %s.", level, name)}
		}
	})
	return f
}

// unregisterBroker answers UnregisterBroker.
func (s *step) unregisterBroker(req *kmsg.UnregisterBrokerRequest) *kmsg.UnregisterBrokerResponse {
	resp := kmsg.NewPtrUnregisterBrokerResponse()
	resp.Version = req.Version
	fail := func(f failure) *kmsg.UnregisterBrokerResponse {
		resp.ErrorCode, resp.ErrorMessage = int16(f.code), f.text()
		return resp
	}
	b := s.tip.Broker(kafka.NodeID(req.BrokerID))
	if b == nil {
		return fail(failure{kafka.ErrBrokerIDNotRegistered, fmt.Sprintf("Broker ID %d is not currently registered", req.BrokerID)})
	}
	records := append(s.leaderAndISR(b.ID, brokerGone), &record.UnregisterBroker{BrokerID: b.ID, BrokerEpoch: b.Epoch})
	if len(records) > MaxRecordsPerOperation {
		return fail(tooManyRecords)
	}
	s.write(records...)
	delete(s.sessions, b.ID)
	return resp
}

// registerController answers ControllerRegistration.
func (s *step) registerController(req *kmsg.ControllerRegistrationRequest) *kmsg.ControllerRegistrationResponse {
	resp := kmsg.NewPtrControllerRegistrationResponse()
	resp.Version = req.Version
	if !s.tip.Version().CanRegisterControllers() {
		resp.ErrorCode = int16(kafka.ErrUnsupportedVersion)
		resp.ErrorMessage = ptr("The current MetadataVersion is too old to support controller registrations.")
		return resp
	}
	m := record.NewRegisterController()
	m.ControllerID, m.IncarnationID = kafka.NodeID(req.ControllerID), kafka.IncarnationID(req.IncarnationID)
	for _, l := range req.Listeners {
		m.EndPoints = append(m.EndPoints, record.ControllerEndpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: kafka.SecurityProtocol(l.SecurityProtocol)})
	}
	for _, f := range req.Features {
		m.Features = append(m.Features, record.ControllerFeature{
			Name: f.Name, MinSupportedVersion: f.MinSupportedVersion, MaxSupportedVersion: f.MaxSupportedVersion})
	}
	s.write(m)
	return resp
}

// unregisterController answers UnregisterController (new in 4.4).
func (s *step) unregisterController(req *kmsg.UnregisterControllerRequest) *kmsg.UnregisterControllerResponse {
	resp := kmsg.NewPtrUnregisterControllerResponse()
	resp.Version = req.Version
	id := kafka.NodeID(req.ControllerID)
	var f failure
	switch {
	case !s.tip.Version().CanUnregisterControllers():
		f = failure{kafka.ErrUnsupportedVersion, "The current MetadataVersion is too old to unregister controllers."}
	case s.tip.Controller(id) == nil:
		f = failure{kafka.ErrControllerIDNotRegistered, fmt.Sprintf("Controller ID %d is not currently registered", id)}
	case s.opts.Voters != nil && slices.Contains(s.opts.Voters(), id):
		f = failure{kafka.ErrInvalidRequest, fmt.Sprintf("Controller %d is a voter; remove it from the quorum first.", id)}
	default:
		s.write(&record.UnregisterController{ControllerID: id})
	}
	resp.ErrorCode, resp.ErrorMessage = int16(f.code), f.text()
	return resp
}

// producerIDBlock is how many ids a broker gets at a time.
const producerIDBlock = 1000

// allocateProducerIDs answers AllocateProducerIds.
func (s *step) allocateProducerIDs(req *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse {
	resp := kmsg.NewPtrAllocateProducerIDsResponse()
	resp.Version = req.Version
	id, epoch := kafka.NodeID(req.BrokerID), kafka.BrokerEpoch(req.BrokerEpoch)
	first := s.tip.NextProducerID()
	f := s.checkEpoch(id, epoch)
	if !f.failed() && first > 1<<63-1-producerIDBlock {
		f = failure{kafka.ErrUnknownServerError, "All producer ids have been used."}
	}
	if f.failed() {
		resp.ErrorCode = int16(f.code)
		return resp
	}
	s.write(&record.ProducerIDs{BrokerID: id, BrokerEpoch: epoch, NextProducerID: first + producerIDBlock})
	resp.ProducerIDStart, resp.ProducerIDLen = int64(first), producerIDBlock
	return resp
}

// checkEpoch: the request comes from the broker's newest registration.
func (s *step) checkEpoch(id kafka.NodeID, epoch kafka.BrokerEpoch) failure {
	b := s.tip.Broker(id)
	switch {
	case b == nil:
		return failure{kafka.ErrStaleBrokerEpoch, fmt.Sprintf("No broker registration found for broker id %d", id)}
	case b.Epoch != epoch:
		return failure{kafka.ErrStaleBrokerEpoch, fmt.Sprintf("Expected broker epoch %d, but got broker epoch %d", b.Epoch, epoch)}
	}
	return failure{}
}
