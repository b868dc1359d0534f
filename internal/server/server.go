package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/config"
	"moldau/internal/handler"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/network"
	"moldau/internal/partition"
	"moldau/internal/quorum"
	"moldau/internal/raftnet"
	"moldau/internal/vfs"
)

// Options make a Server.
type Options struct {
	Config *config.Server
	FS     vfs.FS
	Log    *slog.Logger
	// LogLevel is the level of Log; nil if it cannot be changed.
	LogLevel *slog.LevelVar
	// Fatal is called when the node cannot go on; the process must end soon,
	// without Stop. Called at most once.
	Fatal func(error)
}

// Server is one node.
type Server struct {
	opts    Options
	log     *slog.Logger
	clock   func() kafka.Now
	storage *Storage
	quorum  *quorum.Quorum
	raftNet *raftnet.Net
	store   *partition.Store
	broker  *broker
	groups  *groups // nil without the role of a broker
	remote  *remote
	member  *member // nil without the role of a controller
	network *network.Server
	ports   *ports
	ready   chan struct{}
	failed  chan error
	once    sync.Once

	stopping atomic.Bool
	opened   atomic.Bool // clients have been let in
	led      atomic.Bool // an active controller has been known

}

// Start brings the node up and returns when it has begun; Ready tells when it
// serves. An error says what to change.
func Start(o Options) (*Server, error) {
	c := o.Config
	if err := supported(c); err != nil {
		return nil, err
	}
	st, err := LockStorage(o.FS, c)
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: o, log: o.Log, clock: newClock(), storage: st,
		ready: make(chan struct{}), failed: make(chan error, 1),
	}
	if err := s.start(); err != nil {
		s.Stop(context.Background())
		return nil, err
	}
	return s, nil
}

// supported refuses what this version cannot do.
func supported(c *config.Server) error {
	switch {
	case c.Text("create.topic.policy.class.name") != "" || c.Text("alter.config.policy.class.name") != "":
		return errors.New("create.topic.policy.class.name and alter.config.policy.class.name name Java classes, which this server cannot ask; remove them if topics and settings need no policy")
	case c.Text("authorizer.class.name") != "":
		// Without the authorizer everybody may do what the operator forbade.
		return errors.New("authorizer.class.name is set, but this version does not authorize anybody yet; remove it if everybody who reaches the listeners may do everything")
	}
	_, err := staticVoters(c)
	return err
}

func newClock() func() kafka.Now {
	start := time.Now()
	return func() kafka.Now {
		now := time.Now()
		return kafka.Now{Mono: kafka.Mono(now.Sub(start)), Wall: kafka.WallMs(now.UnixMilli())}
	}
}

func (s *Server) start() error {
	c := s.opts.Config
	s.network = network.New(networkOptions(c, s.log))
	s.ports = newPorts(s)
	// Ports are taken before anything is written: a port that is in use must be
	// said at once, and ports of 0 become known.
	err := s.ports.hold()
	if err != nil {
		return err
	}
	if err := nameHosts(c, s.storage.whole); err != nil {
		return err
	}
	if err := s.storage.Open(s.opts.FS, c); err != nil {
		return err
	}
	if c.Broker {
		if s.store, err = s.newStore(); err != nil {
			return err
		}
		s.groups = newGroups(s)
	}
	s.remote = newRemote(s)
	opts, err := s.quorumOptions()
	if err != nil {
		return err
	}
	s.raftNet = raftnet.New(raftNetOptions(c, s.log))
	opts.Net = s.raftNet
	if s.quorum, err = quorum.Open(opts); err != nil {
		return err
	}
	if err := s.votes(opts.Raft.Self); err != nil {
		return err
	}
	s.quorum.Subscribe(s.follow) // before the broker registers what it listens on
	if c.Broker {
		s.broker = newBroker(s)
		s.quorum.Subscribe(s.broker.publish)
	}
	if c.Controller {
		s.member = newMember(s)
		s.quorum.Subscribe(s.member.publish)
	}
	s.raftNet.Start(s.quorum.Deliver)
	s.quorum.Start()
	if c.Broker {
		s.broker.start()
	}
	if c.Controller {
		s.member.start()
	}
	return s.ports.serveControllers()
}

func networkOptions(c *config.Server, log *slog.Logger) network.Options {
	limits := limitsOf(config.Layers{Static: c.Static})
	o := network.Options{
		MaxRequestBytes: int(c.Long("socket.request.max.bytes")), BudgetBytes: c.Long("queued.max.request.bytes"),
		Limits:      &limits,
		IdleTimeout: time.Duration(c.Long("connections.max.idle.ms")) * time.Millisecond, Log: log,
	}
	// Kafka's default of 100 KiB costs throughput; only a configured size counts.
	if _, ok := c.Static("socket.send.buffer.bytes"); ok {
		o.SendBufferBytes = int(c.Long("socket.send.buffer.bytes"))
	}
	if _, ok := c.Static("socket.receive.buffer.bytes"); ok {
		o.ReceiveBufferBytes = int(c.Long("socket.receive.buffer.bytes"))
	}
	return o
}

func (s *Server) newStore() (*partition.Store, error) {
	c := s.opts.Config
	dirs, err := takeDirectories(s.opts.FS, s.storage)
	if err != nil {
		return nil, err
	}
	segments, _ := descriptors()
	return partition.New(partition.Options{
		FS: s.opts.FS, Dirs: dirs, Self: c.NodeID, Now: s.clock, Log: s.log, Random: rand.Uint64, Static: c.Static,
		OpenFiles: segments, LoadWorkers: max(runtime.GOMAXPROCS(0), int(c.Long("num.recovery.threads.per.data.dir"))*len(dirs)),
		Fatal: s.fatal, Boot: bootID(),
		RetentionCheckMs: c.Long("log.retention.check.interval.ms"), InitialTaskDelayMs: 30_000,
		HighCheckpointMs:  c.Long("replica.high.watermark.checkpoint.interval.ms"),
		FlushCheckpointMs: max(c.Long("log.flush.offset.checkpoint.interval.ms"), 1000),
		StartCheckpointMs: max(c.Long("log.flush.start.offset.checkpoint.interval.ms"), 1000),
		ProducerExpireMs:  c.Long("producer.id.expiration.ms"), DeletedFolderWaitMs: c.Long("log.segment.delete.delay.ms"),
	}), nil
}

func (s *Server) handlerOptions() handler.Options {
	c := s.opts.Config
	o := handler.Options{
		Self: c.NodeID, ClusterID: s.storage.ClusterID, Image: s.quorum.Image, Store: s.store,
		Controller: s.control(), Raft: s.raftNet, ProducerIDs: s.broker, Groups: s.groups, Static: c.Static, StaticNames: c.ListenerNames(), Now: s.clock, Random: rand.Uint64, Log: s.log, LogLevel: s.opts.LogLevel,
		FetchMaxBytes: int(c.Long("fetch.max.bytes")), FetchSessionSlots: int(c.Long("max.incremental.fetch.session.cache.slots")),
		AutoCreateTopics: c.Flag("auto.create.topics.enable"), KeepTopics: !c.Flag("delete.topic.enable"),
		PartitionsPerDescribe: int(c.Long("max.request.partition.size.limit")),
		OffsetsTopic: handler.InternalTopic{
			Partitions: int32(c.Long("offsets.topic.num.partitions")), ReplicationFactor: int16(c.Long("offsets.topic.replication.factor")),
			SegmentBytes: c.Text("offsets.topic.segment.bytes"),
		},
	}
	o.KRaftVersion = func() int16 { return s.quorum.Describe().KRaftVersion }
	for _, f := range Features() {
		o.SupportedFeatures = append(o.SupportedFeatures, handler.Feature(f))
	}
	return o
}

// control is the way to the active controller.
func (s *Server) control() control { return control{s: s} }

// brokerGone tells the controller of a broker whose process has died. This
// node's own cannot have.
func (s *Server) brokerGone(id kafka.NodeID, epoch kafka.BrokerEpoch) {
	if id != s.opts.Config.NodeID {
		s.quorum.BrokerConnectionLost(id, epoch)
	}
}

// Ready is closed when the node serves clients.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Failed delivers the error with which the node failed, if it does.
func (s *Server) Failed() <-chan error { return s.failed }

// ClusterID is the id of the node's cluster.
func (s *Server) ClusterID() string { return s.storage.ClusterID }

// Image is the newest committed metadata.
func (s *Server) Image() *metadata.Image { return s.quorum.Image() }

// Address is where a listener is open; nil if it is not.
func (s *Server) Address(name string) net.Addr { return s.ports.address(name) }

// Listeners are those of clients that are open, as they are reached.
func (s *Server) Listeners() []config.Listener { return s.ports.reached(false) }

// unfenced lets clients in, the first time: a broker that was fenced for a
// while kept its listeners.
func (s *Server) unfenced() {
	if s.stopping.Load() || s.opened.Swap(true) {
		return
	}
	if err := s.ports.serveClients(); err != nil {
		if !s.stopping.Load() {
			s.fatal(err)
		}
		return
	}
	close(s.ready)
}

// fatal tells once that the node cannot go on.
func (s *Server) fatal(err error) {
	s.once.Do(func() {
		s.failed <- err
		if s.opts.Fatal != nil {
			s.opts.Fatal(err)
		}
	})
}

// Stop ends the node: no more requests, logs closed cleanly, then the metadata
// log. ctx bounds the wait for the metadata quorum.
func (s *Server) Stop(ctx context.Context) error {
	var errs []error
	if s.broker != nil && s.opened.Load() && s.opts.Config.Flag("controlled.shutdown.enable") {
		s.broker.shutDown(ctx)
	}
	s.stopping.Store(true)
	if s.quorum != nil {
		s.quorum.Leave() // before others find the connections closed (SharedServer.ensureNotRaftLeader)
	}
	if s.ports != nil {
		s.ports.stop()
	}
	if s.network != nil {
		s.network.Close()
	}
	if s.member != nil {
		s.member.stop()
	}
	if s.broker != nil {
		s.broker.stop()
		s.store.SetBrokerEpoch(s.broker.epoch())
	}
	if s.groups != nil {
		s.groups.stop()
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.quorum != nil {
		errs = append(errs, s.quorum.Stop(ctx))
	}
	if s.remote != nil {
		s.remote.close()
	}
	if s.raftNet != nil {
		s.raftNet.Close() // after the leader's farewell
	}
	s.storage.Unlock()
	return errors.Join(slices.DeleteFunc(errs, func(e error) bool { return e == nil })...)
}
