package server

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/metadata"
	"moldau/internal/partition"
	"moldau/internal/quorum"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// takeDirectories reads and removes the marks of a clean stop, before anything
// else is touched (HC-119).
func takeDirectories(fsys vfs.FS, st *Storage) ([]partition.Dir, error) {
	var out []partition.Dir
	for _, d := range st.Dirs {
		clean, epoch, err := logdir.TakeCleanShutdown(fsys, d.Path)
		if err != nil {
			return nil, err
		}
		out = append(out, partition.Dir{Path: d.Path, ID: d.ID, Clean: clean})
		st.previousEpoch = max(st.previousEpoch, epoch)
	}
	return out, nil
}

// bootID names the boot of the machine; "" if the system does not tell.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// broker is the shell of the lifecycle core: one goroutine feeds it and does
// what it says, publish hands it the metadata as it is committed.
type broker struct {
	s    *Server
	core *lifecycle.Broker
	inc  kafka.IncarnationID

	asks   asks
	events chan lifecycle.Event
	poke   chan struct{} // the image has moved
	done   chan struct{}
	ended  chan struct{}

	running atomic.Bool   // unfenced: nobody waits for what is applied
	timeout time.Duration // of registrations and heartbeats
	gone    chan struct{} // closed when the controller lets the broker go

	mu      sync.Mutex // publish and load
	latest  *metadata.Image
	loaded  bool // the logs are open: a new image is applied at once
	current kafka.BrokerEpoch

	idMu      sync.Mutex
	ids       lifecycle.IDBlocks
	idWaiters []func(kafka.ProducerID, kafka.ErrorCode)
}

// Bounds of the broker's queues.
const (
	maxEvents    = 64
	maxIDWaiters = 10_000
	retryBackoff = 20 * time.Millisecond
)

func newBroker(s *Server) *broker {
	b := &broker{
		s: s, inc: kafka.IncarnationID(NewUUID()), current: kafka.NoBrokerEpoch,
		core: lifecycle.NewBroker(lifecycle.Options{
			HeartbeatInterval: time.Duration(s.opts.Config.Long("broker.heartbeat.interval.ms")) * time.Millisecond,
			RetryBackoff:      retryBackoff,
		}),
		timeout: time.Duration(s.opts.Config.Long("broker.heartbeat.interval.ms")) * time.Millisecond, gone: make(chan struct{}),
		events: make(chan lifecycle.Event, maxEvents), poke: make(chan struct{}, 1),
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	b.asks.b = b
	return b
}

func (b *broker) start() { go b.run() }

// controlledShutdownWait bounds how long a broker waits until others lead what
// it leads (BrokerServer.shutdown).
const controlledShutdownWait = 5 * time.Minute

// shutDown lets others take over what this broker leads. A broker that is alone
// in service just stops: there is nobody to take it.
func (b *broker) shutDown(ctx context.Context) {
	others := false
	self := b.s.opts.Config.NodeID
	b.s.Image().EachBroker(func(r *metadata.Broker) bool {
		others = others || r.ID != self && r.Active()
		return !others
	})
	if !others {
		return
	}
	b.send(lifecycle.ShutDown{})
	wait := controlledShutdownWait
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2) // the logs have to be closed too
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-b.gone:
	case <-b.ended:
	case <-ctx.Done():
	case <-limit.C:
	}
}

// stop ends the goroutine and waits for it.
func (b *broker) stop() {
	select {
	case <-b.done:
	default:
		close(b.done)
	}
	<-b.ended
}

func (b *broker) epoch() kafka.BrokerEpoch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

// loadedLogs tells whether the logs have been opened.
func (b *broker) loadedLogs() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loaded
}

// publish runs on the quorum's loop for each committed change. Once the logs
// are open, the change has been applied when it returns, and replies go out
// only after that: a topic can be used when CreateTopics has answered.
func (b *broker) publish(d *metadata.Delta, img *metadata.Image) {
	b.mu.Lock()
	b.latest = img
	if b.loaded {
		b.s.store.Apply(d, img)
		b.s.groups.follow(d, img)
	}
	b.mu.Unlock()
	b.asks.follow(d, img)
	if b.running.Load() && b.asks.deadline() == kafka.Never {
		return // the next heartbeat looks by itself
	}
	b.wake()
}

func (b *broker) run() {
	defer close(b.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(b.untilDeadline())
		select {
		case <-b.done:
			return
		case ev := <-b.events:
			b.step(ev)
		case <-b.poke:
			b.moved()
		case <-timer.C:
			if b.core.Deadline() <= b.s.clock().Mono {
				b.moved()
				b.step(lifecycle.DeadlineReached{})
			}
		}
		if b.core.Phase() == lifecycle.Running {
			b.asks.send(b.core.Epoch())
		}
	}
}

func (b *broker) untilDeadline() time.Duration {
	if b.core.Phase() != lifecycle.Running {
		return b.earlier(b.core.Deadline(), kafka.Never)
	}
	return b.earlier(b.core.Deadline(), b.asks.deadline())
}

// moved looks at the newest image: the first one with a level starts the
// registration, the one with our registration opens the logs.
func (b *broker) moved() {
	b.mu.Lock()
	img := b.latest
	b.mu.Unlock()
	if b.core.Phase() == lifecycle.Starting && img.Version() != 0 {
		b.step(lifecycle.Loaded{})
	}
	if b.core.Phase() == lifecycle.CatchingUp && !b.loadedLogs() && b.registeredIn(img) && !b.load() {
		return
	}
	if b.loadedLogs() {
		b.step(lifecycle.Applied{End: img.Provenance().EndOffset})
	}
}

func (b *broker) registeredIn(img *metadata.Image) bool {
	r := img.Broker(b.s.opts.Config.NodeID)
	return r != nil && r.Epoch == b.core.Epoch()
}

// load opens the logs for the newest image, then applies as one change what has
// come in the meantime.
func (b *broker) load() bool {
	b.mu.Lock()
	img := b.latest
	b.mu.Unlock()
	if err := b.s.store.Load(img); err != nil {
		b.s.fatal(err)
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s.groups.load(img)
	if b.latest != img {
		d := metadata.Diff(img, b.latest)
		b.s.store.Apply(d, b.latest)
		b.s.groups.follow(d, b.latest)
	}
	b.loaded = true
	b.asks.look(b.latest)
	return true
}

func (b *broker) step(ev lifecycle.Event) {
	var out lifecycle.Effects
	b.core.Step(b.s.clock(), ev, &out)
	b.mu.Lock()
	b.current = b.core.Epoch()
	b.mu.Unlock()
	if out.Duplicate {
		b.s.log.Warn("another broker with this node.id has a session; trying again until it ends", "node.id", b.s.opts.Config.NodeID)
	}
	if out.Fatal != 0 {
		b.s.fatal(&quorum.ReplyError{Code: out.Fatal, Message: "the controller refuses this broker's registration"})
		return
	}
	if out.ShutDown {
		close(b.gone)
	}
	if out.Register {
		b.register()
	}
	if out.Heartbeat != nil {
		b.heartbeat(out.Heartbeat)
	}
	b.running.Store(b.core.Phase() == lifecycle.Running)
	if out.Unfenced {
		b.s.unfenced()
	}
	if _, ok := ev.(lifecycle.Registered); ok {
		b.moved()
	}
}

// send gives an event to the goroutine, from any other.
func (b *broker) send(ev lifecycle.Event) {
	select {
	case b.events <- ev:
	case <-b.done:
	}
}

func (b *broker) register() {
	c := b.s.opts.Config
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.SetVersion(req.MaxVersion())
	req.BrokerID, req.ClusterID, req.IncarnationID = int32(c.NodeID), b.s.storage.ClusterID, b.inc
	req.PreviousBrokerEpoch = int64(b.s.storage.previousEpoch)
	if c.Rack != "" {
		req.Rack = &c.Rack
	}
	b.s.ports.applyFirst() // what the metadata says of listeners
	for _, l := range b.s.ports.reached(true) {
		m := kmsg.NewBrokerRegistrationRequestListener()
		m.Name, m.Host, m.Port, m.SecurityProtocol = l.Name, hostOf(l), l.Port, int16(l.Protocol)
		req.Listeners = append(req.Listeners, m)
	}
	for _, f := range Features() {
		m := kmsg.NewBrokerRegistrationRequestFeature()
		m.Name, m.MinSupportedVersion, m.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, m)
	}
	for _, d := range b.s.storage.Dirs {
		req.LogDirs = append(req.LogDirs, d.ID)
	}
	b.s.control().own(req, b.timeout, func(resp kmsg.Response, err error) {
		ev := lifecycle.Registered{Code: kafka.ErrNotController}
		if r, ok := resp.(*kmsg.BrokerRegistrationResponse); ok && err == nil {
			ev = lifecycle.Registered{Code: kafka.ErrorCode(r.ErrorCode), Epoch: kafka.BrokerEpoch(r.BrokerEpoch)}
		}
		go b.send(ev)
	})
}

func (b *broker) heartbeat(h *lifecycle.Heartbeat) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.SetVersion(req.MaxVersion())
	req.BrokerID, req.BrokerEpoch = int32(b.s.opts.Config.NodeID), int64(h.Epoch)
	req.CurrentMetadataOffset, req.WantFence = int64(h.MetadataOffset), h.WantFence
	req.WantShutdown = h.WantShutdown
	for _, d := range b.s.store.OfflineDirs() {
		req.OfflineLogDirs = append(req.OfflineLogDirs, d)
	}
	if b.s.Image().Version().CanCordonDirectories() {
		req.CordonedLogDirs = [][16]byte{} // none, not unknown
		for _, d := range b.s.store.CordonedDirs() {
			req.CordonedLogDirs = append(req.CordonedLogDirs, d)
		}
	}
	b.s.control().own(req, b.timeout, func(resp kmsg.Response, err error) {
		ev := lifecycle.Beaten{Code: kafka.ErrNotController}
		if r, ok := resp.(*kmsg.BrokerHeartbeatResponse); ok && err == nil {
			ev = lifecycle.Beaten{Code: kafka.ErrorCode(r.ErrorCode), Fenced: r.IsFenced, ShutDown: r.ShouldShutdown}
		}
		go b.send(ev)
	})
}

// Next implements handler.ProducerIDs.
func (b *broker) Next(done func(kafka.ProducerID, kafka.ErrorCode)) {
	b.idMu.Lock()
	id, ok, ask := b.ids.Take()
	full := !ok && len(b.idWaiters) >= maxIDWaiters
	if !ok && !full {
		b.idWaiters = append(b.idWaiters, done)
	}
	b.idMu.Unlock()
	if ask {
		b.askForIDs()
	}
	switch {
	case ok:
		done(id, 0)
	case full:
		done(-1, kafka.ErrCoordinatorLoadInProgress)
	}
}

func (b *broker) askForIDs() {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = int32(b.s.opts.Config.NodeID), int64(b.epoch())
	b.s.control().own(req, forwardTimeout, func(resp kmsg.Response, err error) {
		r, ok := resp.(*kmsg.AllocateProducerIDsResponse)
		b.idMu.Lock()
		granted := ok && err == nil && r.ErrorCode == 0
		if granted {
			b.ids.Granted(kafka.ProducerID(r.ProducerIDStart), r.ProducerIDLen)
		} else {
			b.ids.Refused()
		}
		waiters := b.idWaiters
		b.idWaiters = nil
		b.idMu.Unlock()
		// Not on the loop of the quorum: Next may ask it for another block.
		go b.hand(waiters, granted)
	})
}

func (b *broker) hand(waiters []func(kafka.ProducerID, kafka.ErrorCode), granted bool) {
	for _, w := range waiters {
		if granted {
			b.Next(w)
		} else {
			// As Kafka: the client comes back (RPCProducerIdManager).
			w(-1, kafka.ErrCoordinatorLoadInProgress)
		}
	}
}
