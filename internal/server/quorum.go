package server

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	"moldau/internal/config"
	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/peer"
	"moldau/internal/quorum"
	"moldau/internal/raft"
	"moldau/internal/raftnet"
)

// quorumOptions: a node without the role of a controller observes, and has no
// controller core.
func (s *Server) quorumOptions() (quorum.Options, error) {
	c := s.opts.Config
	ms := func(name string) time.Duration { return time.Duration(c.Long(name)) * time.Millisecond }
	self := raft.ReplicaKey{ID: c.NodeID, Dir: s.storage.MetadataID}
	o := quorum.Options{
		FS: s.opts.FS, Dir: c.MetadataLogDir, Clock: s.clock, Fatal: s.fatal,
		Warn: func(msg string, err error) { s.log.Warn(msg, "error", err) },
		Raft: raft.Options{
			ClusterID: s.storage.ClusterID, Self: self, Endpoints: controllerEndpoints(c), MinKRaft: 0, MaxKRaft: 1,
			CanBecomeVoter: c.Controller, ElectionTimeout: ms("controller.quorum.election.timeout.ms"),
			ElectionBackoffMax: ms("controller.quorum.election.backoff.max.ms"), FetchTimeout: ms("controller.quorum.fetch.timeout.ms"),
			RequestTimeout: ms("controller.quorum.request.timeout.ms"), RetryBackoff: ms("controller.quorum.retry.backoff.ms"),
			FetchMaxWait: 500 * time.Millisecond, FetchMaxBytes: int(c.Long("controller.quorum.fetch.max.bytes")),
			SnapshotMaxBytes: int(c.Long("controller.quorum.fetch.snapshot.max.bytes")), Seed: rand.Uint64(),
			Bootstrap: raftnet.BootstrapIDs(len(c.BootstrapServers)), AutoJoin: c.Flag("controller.quorum.auto.join.enable"), FastFailover: c.Flag("moldau.controller.quorum.fast.failover"),
		},
		Log: quorum.LogConfig{SegmentBytes: c.Long("metadata.log.segment.bytes"), SegmentMs: c.Long("metadata.log.segment.ms")},
		Snapshots: quorum.SnapshotConfig{
			MaxBytes: c.Long("metadata.log.max.record.bytes.between.snapshots"), MaxIntervalMs: c.Long("metadata.log.max.snapshot.interval.ms"),
			RetentionBytes: c.Long("metadata.max.retention.bytes"), RetentionMs: c.Long("metadata.max.retention.ms"),
		},
		LeaderChanged: s.leaderChanged,
	}
	if c.Controller {
		o.Controller = &controller.Options{
			NodeID: c.NodeID, ClusterID: s.storage.ClusterID, Features: Features(), Rules: rules{static: c.Static}, Random: rand.Uint64,
			SessionTimeout: ms("broker.session.timeout.ms"), MaxIdleInterval: ms("metadata.max.idle.interval.ms"),
			DefaultPartitions: int32(c.Long("num.partitions")), DefaultReplicationFactor: int16(c.Long("default.replication.factor")),
			MinInSyncReplicas: int(c.Long("min.insync.replicas")), UncleanLeaderElection: c.Flag("unclean.leader.election.enable"),
		}
		if c.Flag("auto.leader.rebalance.enable") {
			o.Controller.LeaderCheckInterval = time.Duration(c.Long("leader.imbalance.check.interval.seconds")) * time.Second
		}
	}
	if len(c.Voters) > 0 {
		// kraft.version 0: the configuration names the voters, without directories.
		var err error
		if o.Static, err = staticVoters(c); err != nil {
			return o, err
		}
	}
	return o, nil
}

// leaderChanged: what waited for a controller goes out, and the broker tells the
// new one that it lives.
func (s *Server) leaderChanged(l raft.LeaderAndEpoch) {
	if l.Leader != kafka.NoNode {
		if s.led.Swap(true) { // not the first one since the start
			s.log.Info("another active controller", "node", l.Leader, "epoch", l.Epoch)
		}
	}
	s.remote.changed()
	if s.broker != nil && l.Leader != kafka.NoNode {
		go s.broker.send(lifecycle.Disconnected{})
	}
}

// maxConnect bounds how long a voter's address may take to answer, so that a
// candidate asks again before its election ends.
const maxConnect = time.Second

func raftNetOptions(c *config.Server, log *slog.Logger) raftnet.Options {
	timeout := time.Duration(c.Long("controller.quorum.request.timeout.ms")) * time.Millisecond
	return raftnet.Options{
		Listener: c.ControllerListeners[0], Bootstrap: c.BootstrapServers,
		Peer: peer.Options{
			ClientID: fmt.Sprint("raft-client-", c.NodeID), RequestTimeout: timeout, ConnectTimeout: min(timeout, maxConnect),
			IdleTimeout: time.Duration(c.Long("connections.max.idle.ms")) * time.Millisecond, Log: log,
		},
	}
}

// staticVoters are those of controller.quorum.voters.
func staticVoters(c *config.Server) (raft.VoterSet, error) {
	var voters []raft.Voter
	for _, v := range c.Voters {
		host, text, err := net.SplitHostPort(v.Address)
		port, portErr := strconv.ParseUint(text, 10, 16)
		if err != nil || portErr != nil || host == "" {
			return raft.VoterSet{}, fmt.Errorf("controller.quorum.voters: %q is not of the form host:port", v.Address)
		}
		voters = append(voters, raft.Voter{
			Key:       raft.ReplicaKey{ID: v.ID},
			Endpoints: []kafka.Endpoint{{Name: c.ControllerListeners[0], Host: host, Port: uint16(port)}},
		})
	}
	set, err := raft.NewVoterSet(voters...)
	if err != nil {
		err = fmt.Errorf("controller.quorum.voters: %w", err)
	}
	return set, err
}

// votes refuses a node that could only wait for ever: this node's id is the only
// voter's, but the directory is another. Any other node that is not a voter
// observes until it is added.
func (s *Server) votes(self raft.ReplicaKey) error {
	set := s.quorum.Describe().VoterSet
	if set.Contains(self) {
		return nil
	}
	if v, ok := set.Find(self.ID); ok && set.Len() == 1 {
		return fmt.Errorf("the metadata in %s is decided by node %d with directory.id %s, but this is node %d with directory.id %s (meta.properties): check node.id and metadata.log.dir, or restore meta.properties",
			s.opts.Config.MetadataLogDir, v.Key.ID, v.Key.Dir, self.ID, s.storage.MetadataID)
	}
	if !s.opts.Config.Controller {
		return nil
	}
	s.log.Info("this controller observes the metadata quorum until it is added as a voter", "node.id", self.ID, "directory.id", s.storage.MetadataID, "voters", set.String())
	return nil
}

// nameHosts fills in the host name where a listener on all addresses advertises
// none, as Kafka does. A node that is the whole quorum is called localhost.
func nameHosts(c *config.Server, alone bool) error {
	if alone {
		return nil
	}
	for i := range c.Advertised {
		if c.Advertised[i].Host != "" {
			continue
		}
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("listener %s has no host to tell the other nodes: %w; set advertised.listeners", c.Advertised[i].Name, err)
		}
		c.Advertised[i].Host = host
	}
	return nil
}
