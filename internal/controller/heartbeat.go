package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// brokerState is where a broker is in its life, as the controller sees it.
type brokerState int8

const (
	stateFenced brokerState = iota
	stateUnfenced
	stateShuttingDown
	stateShutdownNow
)

// heartbeat answers BrokerHeartbeat (ReplicationControlManager.processBrokerHeartbeat).
func (s *step) heartbeat(req *kmsg.BrokerHeartbeatRequest) *kmsg.BrokerHeartbeatResponse {
	resp := kmsg.NewPtrBrokerHeartbeatResponse()
	resp.Version = req.Version
	id := kafka.NodeID(req.BrokerID)
	if f := s.checkEpoch(id, kafka.BrokerEpoch(req.BrokerEpoch)); f.failed() {
		resp.ErrorCode = int16(f.code)
		return resp
	}
	b := s.tip.Broker(id)
	ses := s.touch(b)
	current := ses.state(b)
	next := s.nextState(b, ses, current, req)
	if next == stateUnfenced && current == stateFenced && losesDirectory(b, req) {
		// Both would change the same partitions; the next heartbeat unfences.
		next = stateFenced
	}
	if next == stateUnfenced && current == stateFenced && !s.live(b) {
		// It lay in the queue for too long, or the process has died since.
		next = stateFenced
	}
	var records []record.Message
	if next != current {
		switch next {
		case stateFenced, stateShutdownNow:
			if !b.Fenced {
				records = s.fence(b)
			}
		case stateUnfenced:
			records = s.unfence(b)
		case stateShuttingDown:
			records = s.startShutdown(b)
		}
	}
	ses.metadataOffset = kafka.Offset(req.CurrentMetadataOffset)
	switch next {
	case stateShuttingDown:
		if ses.shutdownOffset < 0 {
			// The broker may go once all others know who leads instead.
			ses.shutdownOffset = s.next + kafka.Offset(len(records)) - 1
		}
	case stateShutdownNow:
		// A restart is welcome at once (KAFKA-19047).
		ses.expires, ses.shutdownOffset = kafka.Never, -1
	case stateFenced:
		ses.shutdownOffset = -1
	}
	records = append(records, s.changedDirectories(b, req)...)
	s.writeSplit(records)
	resp.IsCaughtUp = !b.Fenced || s.caughtUp(ses, req)
	resp.IsFenced = next == stateFenced || next == stateShutdownNow
	resp.ShouldShutdown = next == stateShutdownNow
	return resp
}

// touch prolongs the session of a broker that gave a sign of life.
func (s *step) touch(b *metadata.Broker) *session {
	ses := s.sessions[b.ID]
	if ses == nil || ses.epoch != b.Epoch {
		ses = newSession(b.Epoch, kafka.Never)
		s.sessions[b.ID] = ses
	}
	s.contact(ses, s.at)
	return ses
}

func (ses *session) state(b *metadata.Broker) brokerState {
	switch {
	case b.Fenced:
		return stateFenced
	case ses.shutdownOffset >= 0:
		return stateShuttingDown
	}
	return stateUnfenced
}

// caughtUp: the broker has applied its own registration. A registration from
// before this node became active ends below the activation offset.
func (s *step) caughtUp(ses *session, req *kmsg.BrokerHeartbeatRequest) bool {
	need := ses.registered
	if need == 0 {
		need = s.activation - 1
	}
	return kafka.Offset(req.CurrentMetadataOffset) >= need || mutantUnfenceEarly
}

// nextState is Kafka's BrokerHeartbeatManager.calculateNextBrokerState.
func (s *step) nextState(b *metadata.Broker, ses *session, current brokerState, req *kmsg.BrokerHeartbeatRequest) brokerState {
	switch current {
	case stateFenced:
		switch {
		case req.WantShutdown:
			return stateShutdownNow
		case !req.WantFence && s.caughtUp(ses, req):
			return stateUnfenced
		}
		return stateFenced
	case stateUnfenced:
		switch {
		case req.WantFence && req.WantShutdown:
			return stateShutdownNow
		case req.WantFence:
			return stateFenced
		case req.WantShutdown && s.tip.Counts(b.ID).Leaders > 0:
			return stateShuttingDown
		case req.WantShutdown:
			return stateShutdownNow
		}
		return stateUnfenced
	}
	if s.tip.Counts(b.ID).Leaders > 0 || ses.shutdownOffset > s.lowestActiveOffset() {
		return stateShuttingDown
	}
	return stateShutdownNow
}

// lowestActiveOffset is the metadata offset that every broker in service has
// reached.
func (s *step) lowestActiveOffset() kafka.Offset {
	lowest := kafka.Offset(1<<63 - 1)
	s.tip.EachBroker(func(b *metadata.Broker) bool {
		if ses := s.sessions[b.ID]; !b.Fenced && ses != nil && ses.epoch == b.Epoch && ses.shutdownOffset < 0 {
			lowest = min(lowest, ses.metadataOffset)
		}
		return true
	})
	return lowest
}

// fence takes a broker out of service: leadership first, then the state.
func (s *step) fence(b *metadata.Broker) []record.Message {
	m := record.NewBrokerRegistrationChange()
	m.BrokerID, m.BrokerEpoch, m.Fenced = b.ID, b.Epoch, 1
	if mutantFenceKeepsLeader {
		return []record.Message{m}
	}
	return append(s.leaderAndISR(b.ID, brokerGone), m)
}

// unfence puts a broker into service, then gives it what nobody leads.
func (s *step) unfence(b *metadata.Broker) []record.Message {
	m := record.NewBrokerRegistrationChange()
	m.BrokerID, m.BrokerEpoch, m.Fenced = b.ID, b.Epoch, -1
	return append([]record.Message{m}, s.leaderAndISR(b.ID, brokerBack)...)
}

func (s *step) startShutdown(b *metadata.Broker) []record.Message {
	var records []record.Message
	if !b.InControlledShutdown {
		m := record.NewBrokerRegistrationChange()
		m.BrokerID, m.BrokerEpoch, m.InControlledShutdown = b.ID, b.Epoch, 1
		records = append(records, m)
	}
	return append(records, s.leaderAndISR(b.ID, brokerGone)...)
}

// restarted cleans up behind a former incarnation of a broker.
func (s *step) restarted(id kafka.NodeID, clean bool) []record.Message {
	if s.tip.CanUseELR() && !clean {
		return s.leaderAndISR(id, brokerLostData)
	}
	return s.leaderAndISR(id, brokerGone)
}

// changedDirectories writes down directories that a heartbeat reports offline
// or cordoned, and takes the broker's replicas in lost ones out of service.
func (s *step) changedDirectories(b *metadata.Broker, req *kmsg.BrokerHeartbeatRequest) []record.Message {
	m := record.NewBrokerRegistrationChange()
	m.BrokerID, m.BrokerEpoch = b.ID, b.Epoch
	var out []record.Message
	if s.tip.Version().CanCordonDirectories() && req.CordonedLogDirs != nil {
		cordoned := []kafka.DirectoryID{}
		for _, d := range req.CordonedLogDirs {
			cordoned = append(cordoned, kafka.DirectoryID(d))
		}
		if b.CordonedDirectories == nil && len(cordoned) > 0 || !sameSet(b.CordonedDirectories, cordoned) {
			m.CordonedLogDirs = cordoned
			out = append(out, m)
		}
	}
	if !s.tip.Version().CanAssignDirectories() || len(req.OfflineLogDirs) == 0 {
		return out
	}
	var lost, online []kafka.DirectoryID
	for _, d := range b.Directories {
		if slices.Contains(req.OfflineLogDirs, [16]byte(d)) {
			lost = append(lost, d)
		} else {
			online = append(online, d)
		}
	}
	if len(lost) == 0 || len(online) == 0 {
		// A broker without any directory shuts itself down.
		return out
	}
	if len(out) == 0 {
		out = append(out, m)
	}
	m.LogDirs = online
	return append(out, s.directoriesLost(b.ID, lost)...)
}

// losesDirectory tells whether the heartbeat reports an online directory offline.
func losesDirectory(b *metadata.Broker, req *kmsg.BrokerHeartbeatRequest) bool {
	return slices.ContainsFunc(b.Directories, func(d kafka.DirectoryID) bool { return slices.Contains(req.OfflineLogDirs, [16]byte(d)) })
}

func sameSet(a, b []kafka.DirectoryID) bool {
	if len(a) != len(b) {
		return false
	}
	for _, d := range a {
		if !slices.Contains(b, d) {
			return false
		}
	}
	return true
}
