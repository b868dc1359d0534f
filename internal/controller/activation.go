package controller

import (
	"fmt"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// Settings that the controller itself reads.
const (
	configMinInSync = "min.insync.replicas"
	configUnclean   = "unclean.leader.election.enable"
)

// activate takes over: it completes the log where the last leader left it
// (ActivationRecordsGenerator) and gives every unfenced broker a session.
func (s *step) activate(ev BecameLeader) {
	epoch := ev.Epoch
	s.active, s.epoch, s.activation, s.lastAppend = true, epoch, s.next, s.now.Mono
	s.sessions, s.earliest, s.nextBalance = map[kafka.NodeID]*session{}, kafka.Never, kafka.Never
	if s.opts.LeaderCheckInterval > 0 {
		s.nextBalance = s.now.Mono.Add(s.opts.LeaderCheckInterval)
	}
	s.tip.EachBroker(func(b *metadata.Broker) bool {
		if !b.Fenced {
			// A combined node does not wait for its own ghost: the session that
			// its former self may have had ends, but does not count as alive.
			ses := newSession(b.Epoch, s.now.Mono.Add(s.opts.SessionTimeout))
			ses.ghost = b.ID == s.opts.NodeID
			if ev.Lost != nil && *ev.Lost == b.ID {
				ses.expires = s.now.Mono.Add(min(deadLeaderGrace, s.opts.SessionTimeout))
			}
			s.addSession(b.ID, ses)
		}
		return true
	})
	switch {
	case s.tip.Version() == 0:
		s.bootstrap()
	case s.tip.InTransaction():
		s.write(&record.AbortTransaction{Reason: ptr("Controller failover")})
	}
}

// bootstrap writes the first records of a cluster, in a transaction if the
// level allows it.
func (s *step) bootstrap() {
	var v metadata.Version
	elr := false
	for _, r := range s.opts.Bootstrap {
		if f, ok := r.Message.(*record.FeatureLevel); ok {
			switch f.Name {
			case metadata.FeatureMetadataVersion:
				v = metadata.Version(f.FeatureLevel)
			case metadata.FeatureELR:
				elr = f.FeatureLevel > 0
			}
		}
	}
	if !v.Known() {
		panic(fmt.Sprintf("controller: bootstrap records set metadata.version %d", v))
	}
	var batch []VersionedRecord
	add := func(m record.Message) { batch = append(batch, VersionedRecord{m, v.RecordVersion(m)}) }
	if s.tip.InTransaction() {
		add(&record.AbortTransaction{Reason: ptr("Controller failover")})
	}
	if v.CanWriteTransactions() {
		add(&record.BeginTransaction{Name: ptr("Bootstrap records")})
	}
	batch = append(batch, s.opts.Bootstrap...)
	if elr {
		// With ELR the cluster-wide minimum must be a stored setting.
		add(&record.Config{ResourceType: int8(metadata.BrokerResource), Name: configMinInSync,
			Value: ptr(strconv.Itoa(max(s.opts.MinInSyncReplicas, 1)))})
	}
	if v.CanWriteTransactions() {
		add(&record.EndTransaction{})
	}
	s.out.Batches = append(s.out.Batches, batch)
}

func ptr[T any](v T) *T { return &v }
