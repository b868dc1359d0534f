package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
)

// clients is how many admin clients there are; firstClient is the id of the
// first one on the network.
const (
	clients                  = 3
	firstClient kafka.NodeID = 1000
)

// Errors of ask.
var (
	// errUnknown: the request may or may not have been carried out.
	errUnknown = errors.New("outcome unknown")
	// errRefused: it certainly has not.
	errRefused = errors.New("refused")
)

// answer is what became of a request.
type answer struct {
	resp any
	err  error
	// Where and in which epoch it was decided; whether anything was written.
	node  *node
	epoch kafka.Epoch
	wrote bool
}

// ask sends a request to a node's controller. done is called once, within a
// few seconds at most.
func (w *World) ask(from, to kafka.NodeID, body any, done func(answer)) {
	open := true
	finish := func(a answer) {
		if open {
			open = false
			done(a)
		}
	}
	w.after(2*w.swarm.pace, func() { finish(answer{err: errUnknown}) })
	peer := w.node(to)
	if peer == nil {
		w.after(w.swarm.latency, func() { finish(answer{err: errRefused}) })
		return
	}
	w.net.send(from, to, "ask", func() {
		reply := func(a answer) { w.net.send(to, from, "answer", func() { finish(a) }) }
		if !peer.alive {
			reply(answer{err: errRefused})
			return
		}
		arrived := peer.r.Arrived(body) // noted beside the queue, even if the loop stands still
		peer.do(peer.life, func() { peer.submit(body, arrived, reply) })
	})
}

// submit gives a request to the controller of this node, and tells the checkers
// what the answer rests on.
func (n *node) submit(body any, arrived kafka.Mono, reply func(answer)) {
	core := n.r.Core()
	before := core.EndOffset()
	a := answer{node: n, epoch: core.Election().Epoch}
	rests := kafka.NoOffset // known when Submit has returned
	n.r.Submit(body, arrived, func(resp any, err error) {
		asked := rests == kafka.NoOffset
		if asked {
			rests = core.EndOffset()
		}
		var failed *quorum.ReplyError
		switch {
		case err == nil:
			a.resp = resp
			n.w.check.replies.told(n, rests)
		case errors.As(err, &failed):
			a.err = errRefused
			n.w.check.replies.told(n, rests)
		case asked && core.EndOffset() == before:
			a.err = errRefused
		default:
			a.err = errUnknown
		}
		reply(a)
	})
	if rests == kafka.NoOffset {
		rests = core.EndOffset()
		a.wrote = rests > before
	}
}

// client is an administrator. It believes in some controller, asks it for
// something, waits for the outcome, and goes on.
type client struct {
	w    *World
	id   kafka.NodeID
	hint kafka.NodeID // whom it believes to be the controller
}

func newClient(w *World, id kafka.NodeID) *client { return &client{w: w, id: id} }

// pause is the time between two operations.
func (c *client) pause() {
	c.w.after(c.w.between(time.Millisecond, c.w.swarm.pace/4), c.act)
}

// target is the controller that the client asks.
func (c *client) target() kafka.NodeID {
	if c.hint == 0 || c.w.rng.IntN(20) == 0 {
		c.hint = pick(c.w, c.w.controllers()...).id
	}
	return c.hint
}

// ask sends a request; done need not care for where the controller is.
func (c *client) ask(body any, done func(answer)) {
	c.w.ask(c.id, c.target(), body, func(a answer) {
		if a.err != nil {
			c.look()
		}
		if done != nil {
			done(a)
		}
		c.pause()
	})
}

// look finds out whom some node believes to lead.
func (c *client) look() {
	c.hint = 0
	if n := pick(c.w, c.w.nodes...); n.alive {
		c.hint = max(n.r.Leader().Leader, 0)
	}
}

func (c *client) act() {
	w := c.w
	if w.failed != nil || w.quiet {
		return
	}
	switch k := w.rng.IntN(40); {
	case k < 24:
		c.topicOperation(pick(w, w.check.linear.names()...))
	case k < 28:
		c.ask(c.createPartitions(), nil)
	case k < 33:
		c.ask(c.alterConfigs(), nil)
	case k < 35:
		c.ask(c.electLeaders(), nil)
	case k < 36:
		c.ask(c.updateFeatures(), nil)
	case k < 37:
		c.ask(c.unregister(), nil)
	case k < 39:
		c.ask(c.producerIDs(), nil)
	default:
		c.ask(c.createMany(), nil)
	}
}

// topicOperation creates, deletes or looks for a topic and has the outcome
// checked for linearizability.
func (c *client) topicOperation(name string) {
	w := c.w
	op := &topicOp{name: name, call: w.now, kind: pick(w, createOp, createOp, deleteOp, lookOp)}
	var body any
	switch op.kind {
	case createOp:
		body = createTopics(name, int32(1+w.rng.IntN(3)), int16(1+w.rng.IntN(3)), false)
	case deleteOp:
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.SetVersion(6)
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
		body = req
	case lookOp: // a dry run tells whether the name is free, through the write path
		body = createTopics(name, 1, 1, true)
	}
	w.check.linear.begins(op)
	c.ask(body, func(a answer) {
		op.take(a)
		w.check.linear.add(op, a)
	})
}

func createTopics(name string, partitions int32, replicas int16, validateOnly bool) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	req.ValidateOnly = validateOnly
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	req.Topics = append(req.Topics, t)
	return req
}

// createMany creates several topics at once, one perhaps twice.
func (c *client) createMany() any {
	req := createTopics("", 2, 1, c.w.rng.IntN(4) == 0)
	req.Topics = nil
	for range 1 + c.w.rng.IntN(5) {
		name := fmt.Sprintf("bulk-%d", c.w.rng.IntN(12))
		req.Topics = append(req.Topics, createTopics(name, 1, 1, false).Topics...)
	}
	return req
}

func (c *client) createPartitions() any {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.SetVersion(3)
	req.ValidateOnly = c.w.rng.IntN(4) == 0
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = pick(c.w, c.w.check.linear.names()...), int32(1+c.w.rng.IntN(6))
	req.Topics = append(req.Topics, t)
	return req
}

// alterConfigs changes settings of a topic or of all brokers, sometimes one key
// twice, sometimes as a dry run.
func (c *client) alterConfigs() any {
	w := c.w
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.SetVersion(1)
	req.ValidateOnly = w.rng.IntN(4) == 0
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, pick(w, w.check.linear.names()...)
	if w.rng.IntN(3) == 0 {
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, ""
	}
	for range 1 + w.rng.IntN(3) {
		k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		k.Name = pick(w, "retention.ms", "segment.bytes", "min.insync.replicas", "x", "y", "z")
		k.Op = kmsg.IncrementalAlterConfigOpSet
		value := fmt.Sprint(1 + w.rng.IntN(2))
		k.Value = &value
		if k.Name != "min.insync.replicas" && w.rng.IntN(3) == 0 {
			k.Op, k.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		}
		r.Configs = append(r.Configs, k)
	}
	req.Resources = append(req.Resources, r)
	return req
}

func (c *client) electLeaders() any {
	req := kmsg.NewPtrElectLeadersRequest()
	req.SetVersion(2)
	req.ElectionType = int8(c.w.rng.IntN(2))
	req.Topics = nil
	return req
}

// updateFeatures raises or lowers a level.
func (c *client) updateFeatures() any {
	w := c.w
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.SetVersion(1)
	req.ValidateOnly = w.rng.IntN(4) == 0
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.UpgradeType = 1
	switch w.rng.IntN(4) {
	case 0:
		u.Feature, u.MaxVersionLevel = "group.version", int16(w.rng.IntN(2))
	case 1:
		u.Feature, u.MaxVersionLevel = "transaction.version", int16(w.rng.IntN(3))
	case 2:
		u.Feature, u.MaxVersionLevel = "eligible.leader.replicas.version", int16(w.rng.IntN(2))
	case 3:
		u.Feature, u.MaxVersionLevel = "metadata.version", w.swarm.level+int16(w.rng.IntN(int(latestLevel-w.swarm.level)+1))
	}
	if w.rng.IntN(3) == 0 {
		u.UpgradeType = 2
	}
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	return req
}

func (c *client) unregister() any {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = int32(pick(c.w, c.w.nodes...).id)
	return req
}

// producerIDs asks for a block in a broker's name.
func (c *client) producerIDs() any {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	n := pick(c.w, c.w.nodes...)
	req.BrokerID, req.BrokerEpoch = int32(n.id), -1
	if n.broker != nil && n.alive {
		req.BrokerEpoch = int64(n.broker.core.Epoch())
	}
	return req
}
