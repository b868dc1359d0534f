package sim

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/metadata"
)

// broker is the shell of the lifecycle core in a simulated process. It applies
// an image as soon as it is published.
type broker struct {
	n      *node
	core   *lifecycle.Broker
	inc    kafka.IncarnationID
	loaded bool // the logs are open
	// beatsTo is where the last heartbeat went, and as whom.
	beatsTo kafka.NodeID
	beatsAs kafka.BrokerEpoch
	// clean is the epoch that a clean stop has left on the disk; 0 if none.
	clean kafka.BrokerEpoch
}

func (b *broker) boot() {
	w := b.n.w
	b.inc, b.loaded = w.newIncarnation(), false
	b.core = lifecycle.NewBroker(lifecycle.Options{HeartbeatInterval: w.swarm.pace, RetryBackoff: w.swarm.pace / 10})
}

// moved looks at a new image, as server.broker does.
func (b *broker) moved(img *metadata.Image) {
	if b.core.Phase() == lifecycle.Starting && img.Version() != 0 {
		b.step(lifecycle.Loaded{})
	}
	if r := img.Broker(b.n.id); b.core.Phase() == lifecycle.CatchingUp && r != nil && r.Epoch == b.core.Epoch() {
		b.loaded = true
	}
	if b.loaded {
		b.step(lifecycle.Applied{End: img.Provenance().EndOffset})
	}
}

// due: the core's deadline has come.
func (b *broker) due() {
	if b.loaded {
		b.step(lifecycle.Applied{End: b.n.r.Image().Provenance().EndOffset})
	}
	b.step(lifecycle.DeadlineReached{})
}

func (b *broker) step(ev lifecycle.Event) {
	var out lifecycle.Effects
	b.core.Step(b.n.clock(), ev, &out)
	if out.ShutDown {
		b.clean = b.core.Epoch()
		b.n.leave()
		return
	}
	if out.Fatal != 0 {
		b.n.w.violate("registration", "broker %d is refused: %s", b.n.id, out.Fatal)
	}
	if out.Register {
		b.register()
	}
	if out.Heartbeat != nil {
		b.heartbeat(out.Heartbeat)
	}
	if _, ok := ev.(lifecycle.Registered); ok {
		b.moved(b.n.r.Image())
	}
}

// ask sends a request to whom this node believes to be the controller.
func (n *node) ask(body any, done func(answer)) {
	life := n.life
	n.w.ask(n.id, n.r.Leader().Leader, body, func(a answer) { n.do(life, func() { done(a) }) })
}

func (b *broker) register() {
	req := b.registration()
	b.n.ask(req, func(a answer) {
		ev := lifecycle.Registered{Code: kafka.ErrNotController}
		if r, ok := a.resp.(*kmsg.BrokerRegistrationResponse); ok {
			ev = lifecycle.Registered{Code: kafka.ErrorCode(r.ErrorCode), Epoch: kafka.BrokerEpoch(r.BrokerEpoch)}
		}
		b.step(ev)
	})
}

func (b *broker) registration() *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.SetVersion(req.MaxVersion())
	req.BrokerID, req.ClusterID, req.IncarnationID = int32(b.n.id), clusterID, b.inc
	req.PreviousBrokerEpoch = int64(kafka.NoBrokerEpoch)
	if b.clean > 0 {
		req.PreviousBrokerEpoch = int64(b.clean)
	}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "h", 9092
	req.Listeners = append(req.Listeners, l)
	for _, f := range features() {
		m := kmsg.NewBrokerRegistrationRequestFeature()
		m.Name, m.MinSupportedVersion, m.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, m)
	}
	req.LogDirs = [][16]byte{{0: 0xd0, 15: byte(b.n.id)}}
	return req
}

func (b *broker) heartbeat(h *lifecycle.Heartbeat) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.SetVersion(req.MaxVersion())
	req.BrokerID, req.BrokerEpoch = int32(b.n.id), int64(h.Epoch)
	req.CurrentMetadataOffset, req.WantFence, req.WantShutdown = int64(h.MetadataOffset), h.WantFence, h.WantShutdown
	if b.core.Phase() == lifecycle.CatchingUp && b.n.w.rng.IntN(4) == 0 {
		req.WantFence = false // too eager: the controller must know better
	}
	b.beatsTo, b.beatsAs = b.n.r.Leader().Leader, h.Epoch
	b.n.ask(req, func(a answer) {
		ev := lifecycle.Beaten{Code: kafka.ErrNotController}
		if r, ok := a.resp.(*kmsg.BrokerHeartbeatResponse); ok {
			ev = lifecycle.Beaten{Code: kafka.ErrorCode(r.ErrorCode), Fenced: r.IsFenced, ShutDown: r.ShouldShutdown}
		}
		b.step(ev)
	})
	if b.n.w.rng.IntN(4) == 0 {
		b.growISR()
	}
}

// growISR proposes all replicas of one partition that this broker leads, as if
// they had caught up.
func (b *broker) growISR() {
	img := b.n.r.Image()
	var req *kmsg.AlterPartitionRequest
	img.EachTopic(func(t metadata.Topic) bool {
		t.Each(func(p metadata.Partition) bool {
			if p.Leader != b.n.id || len(p.ISR) == len(p.Replicas) {
				return true
			}
			req = b.alterPartition(img, t, p)
			return false
		})
		return req == nil
	})
	if req != nil {
		b.n.ask(req, func(answer) {})
	}
}

func (b *broker) alterPartition(img *metadata.Image, t metadata.Topic, p metadata.Partition) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.SetVersion(3)
	req.BrokerID, req.BrokerEpoch = int32(b.n.id), int64(b.core.Epoch())
	rt := kmsg.NewAlterPartitionRequestTopic()
	rt.TopicID = t.ID()
	rp := kmsg.NewAlterPartitionRequestTopicPartition()
	rp.Partition, rp.LeaderEpoch, rp.PartitionEpoch = int32(p.ID), int32(p.LeaderEpoch), p.PartitionEpoch
	for _, r := range p.Replicas {
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		m.BrokerID, m.BrokerEpoch = int32(r), int64(kafka.NoBrokerEpoch)
		reg := img.Broker(r)
		if reg == nil || !reg.Active() && !slices.Contains(p.ISR, r) {
			continue
		}
		m.BrokerEpoch = int64(reg.Epoch)
		rp.NewEpochISR = append(rp.NewEpochISR, m)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// disconnected: the process has died, and its controller sees the connection
// close.
func (b *broker) disconnected() {
	to := b.n.w.node(b.beatsTo)
	if to == nil || to == b.n || !to.alive {
		return
	}
	life, epoch, from := to.life, b.beatsAs, b.n.id
	b.n.w.net.send(from, to.id, "closed", func() {
		to.do(life, func() { to.r.BrokerConnectionLost(controller.BrokerConnectionLost{Broker: from, Epoch: epoch}) })
	})
}
