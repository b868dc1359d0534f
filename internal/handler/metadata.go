package handler

// Metadata. v1: null is all, empty is none; v4: whether to create; v8:
// authorized operations; v10, v12: topics by id; v13: top-level error.

import (
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Authorized operations when there is no authorizer: every operation that the
// kind of resource has, as bits (AclEntry.supportedOperations).
const (
	noOperations      = -1 << 31
	topicOperations   = 0xdf8
	clusterOperations = 0x1fa0
)

func (h *Handler) metadata(c *call) {
	req := kmsg.NewPtrMetadataRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrMetadataResponse()
	clusterID := h.opts.ClusterID
	resp.ClusterID, resp.ControllerID = &clusterID, h.anyBroker(img, "")
	resp.AuthorizedOperations = noOperations
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	resp.Brokers = brokersOf(img, c.Peer.Listener)
	t := topicLister{img: img, listener: c.Peer.Listener, version: c.Version, withOps: req.IncludeTopicAuthorizedOperations}
	if all := req.Topics == nil || c.Version == 0 && len(req.Topics) == 0; all {
		img.EachTopic(func(topic metadata.Topic) bool {
			resp.Topics = append(resp.Topics, t.describe(topic))
			return true
		})
	} else {
		if code := checkAsked(req.Topics, c.Version); code != 0 {
			refuseMetadata(c, req, code)
			return
		}
		create := h.opts.AutoCreateTopics && (c.Version < 4 || req.AllowAutoTopicCreation)
		var missing []string
		for _, q := range onceEach(req.Topics) {
			topic, absent := t.lookup(&q, c.Version)
			resp.Topics = append(resp.Topics, topic)
			if absent != "" {
				missing = append(missing, absent)
			}
		}
		if create && len(missing) > 0 {
			h.creating.start(h, missing)
		}
	}
	c.reply(resp)
}

// checkAsked gives the error of a request that names its topics in a way that
// the version does not know (KafkaApis.handleTopicMetadataRequest).
func checkAsked(topics []kmsg.MetadataRequestTopic, version int16) kafka.ErrorCode {
	for i := range topics {
		hasID := topics[i].TopicID != [16]byte{}
		if version < 12 && (hasID || topics[i].Topic == nil) || !hasID && topics[i].Topic == nil {
			return kafka.ErrInvalidRequest
		}
	}
	return 0
}

// refuseMetadata answers with an error for each topic and nothing else.
func refuseMetadata(c *call, req *kmsg.MetadataRequest, code kafka.ErrorCode) {
	resp := kmsg.NewPtrMetadataResponse()
	resp.ControllerID, resp.AuthorizedOperations, resp.ErrorCode = -1, noOperations, int16(code)
	for i := range req.Topics {
		r := kmsg.NewMetadataResponseTopic()
		r.Topic, r.TopicID, r.ErrorCode = req.Topics[i].Topic, req.Topics[i].TopicID, int16(code)
		r.AuthorizedOperations = noOperations
		if r.Topic == nil && c.Version < 12 {
			empty := ""
			r.Topic = &empty
		}
		resp.Topics = append(resp.Topics, r)
	}
	c.reply(resp)
}

// onceEach drops what was asked twice. A request that asks by id is answered
// for its ids only, as Kafka does.
func onceEach(topics []kmsg.MetadataRequestTopic) []kmsg.MetadataRequestTopic {
	byID := false
	for i := range topics {
		byID = byID || topics[i].TopicID != [16]byte{}
	}
	ids, names := map[[16]byte]bool{}, map[string]bool{}
	out := make([]kmsg.MetadataRequestTopic, 0, len(topics))
	for _, q := range topics {
		switch {
		case byID && q.TopicID != [16]byte{} && !ids[q.TopicID]:
			ids[q.TopicID] = true
			out = append(out, q)
		case !byID && !names[*q.Topic]:
			names[*q.Topic] = true
			out = append(out, q)
		}
	}
	return out
}

// anyBroker is what clients are told to be the controller: any broker in
// service, which forwards what they ask (KRaftMetadataCache.getRandomAliveBroker),
// on a listener if one is named; −1 if there is none.
func (h *Handler) anyBroker(img *metadata.Image, listener string) int32 {
	var ids []kafka.NodeID
	img.EachBroker(func(b *metadata.Broker) bool {
		if _, ok := b.Endpoint(listener); !b.Fenced && (ok || listener == "") {
			ids = append(ids, b.ID)
		}
		return true
	})
	if len(ids) == 0 {
		return -1
	}
	return int32(ids[h.opts.Random()%uint64(len(ids))])
}

// brokersOf lists the brokers that are not fenced and have the listener of the
// connection that asks (HC-149).
func brokersOf(img *metadata.Image, listener string) []kmsg.MetadataResponseBroker {
	out := []kmsg.MetadataResponseBroker{}
	img.EachBroker(func(b *metadata.Broker) bool {
		if e, ok := b.Endpoint(listener); ok && !b.Fenced {
			m := kmsg.NewMetadataResponseBroker()
			m.NodeID, m.Host, m.Port = int32(b.ID), e.Host, int32(e.Port)
			if b.HasRack {
				m.Rack = &b.Rack
			}
			out = append(out, m)
		}
		return true
	})
	return out
}

// topicLister describes topics as a client of a listener must see them.
type topicLister struct {
	img      *metadata.Image
	listener string
	version  int16 // of Metadata
	withOps  bool
}

// lookup answers for one topic that was asked for. absent is its name if it
// does not exist but could.
func (t *topicLister) lookup(q *kmsg.MetadataRequestTopic, version int16) (r kmsg.MetadataResponseTopic, absent string) {
	var topic metadata.Topic
	byID := version >= 10 && q.TopicID != [16]byte{}
	if byID {
		topic = t.img.TopicByID(q.TopicID)
	} else if q.Topic != nil {
		topic = t.img.TopicByName(*q.Topic)
	}
	if topic.Exists() {
		return t.describe(topic), ""
	}
	r = kmsg.NewMetadataResponseTopic()
	r.Partitions = []kmsg.MetadataResponseTopicPartition{}
	r.AuthorizedOperations = t.operations()
	switch {
	case byID:
		r.TopicID, r.ErrorCode = q.TopicID, int16(kafka.ErrUnknownTopicID)
		if version < 12 {
			empty := ""
			r.Topic = &empty
		}
	case controller.CheckTopicName(*q.Topic) != "":
		r.Topic, r.ErrorCode = q.Topic, int16(kafka.ErrInvalidTopicException)
	default:
		r.Topic, r.ErrorCode = q.Topic, int16(kafka.ErrUnknownTopicOrPartition)
		r.IsInternal = kafka.IsInternalTopic(*q.Topic)
		absent = *q.Topic
	}
	return r, absent
}

func (t *topicLister) operations() int32 {
	if t.withOps {
		return topicOperations
	}
	return noOperations
}

func (t *topicLister) describe(topic metadata.Topic) kmsg.MetadataResponseTopic {
	r := kmsg.NewMetadataResponseTopic()
	name := topic.Name()
	r.Topic, r.TopicID, r.IsInternal = &name, topic.ID(), kafka.IsInternalTopic(name)
	r.AuthorizedOperations = t.operations()
	r.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, topic.NumPartitions())
	topic.Each(func(p metadata.Partition) bool {
		m := kmsg.NewMetadataResponseTopicPartition()
		code, leader := t.leader(&p)
		m.Replicas, m.ISR, m.OfflineReplicas = nodes(p.Replicas), nodes(p.ISR), t.offline(&p)
		if t.version < 6 && code == kafka.ErrListenerNotFound {
			code = kafka.ErrLeaderNotAvailable
		}
		if t.version == 0 { // it told clients of no broker that it did not list
			m.Replicas, m.ISR = nodes(t.listed(p.Replicas)), nodes(t.listed(p.ISR))
			if code == 0 && (len(m.Replicas) < len(p.Replicas) || len(m.ISR) < len(p.ISR)) {
				code = kafka.ErrReplicaNotAvailable
			}
		}
		m.ErrorCode, m.Partition, m.Leader, m.LeaderEpoch = int16(code), int32(p.ID), int32(leader), int32(p.LeaderEpoch)
		r.Partitions = append(r.Partitions, m)
		return true
	})
	return r
}

// leader gives the leader as the client may use it (KRaftMetadataCache).
func (t *topicLister) leader(p *metadata.Partition) (kafka.ErrorCode, kafka.NodeID) {
	b := t.img.Broker(p.Leader)
	if p.Leader < 0 || b == nil || b.Fenced {
		return kafka.ErrLeaderNotAvailable, kafka.NoNode
	}
	if _, ok := b.Endpoint(t.listener); !ok {
		return kafka.ErrListenerNotFound, kafka.NoNode
	}
	return 0, p.Leader
}

// listed gives those of some brokers that the client is told of.
func (t *topicLister) listed(ids []kafka.NodeID) []kafka.NodeID {
	var out []kafka.NodeID
	for _, id := range ids {
		if b := t.img.Broker(id); b != nil && !b.Fenced {
			if _, ok := b.Endpoint(t.listener); ok {
				out = append(out, id)
			}
		}
	}
	return out
}

// offline lists the replicas on brokers that are away or whose directory is.
func (t *topicLister) offline(p *metadata.Partition) []int32 {
	out := []int32{}
	for _, id := range p.Replicas {
		b := t.img.Broker(id)
		dir, _ := p.Directory(id)
		if b == nil || b.Fenced || !b.Online(dir) {
			out = append(out, int32(id))
		} else if _, ok := b.Endpoint(t.listener); !ok {
			out = append(out, int32(id))
		}
	}
	return out
}

func nodes(ids []kafka.NodeID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// autoCreation remembers which topics are being created because somebody asked
// for them, so that many clients cause one request (HC-136).
type autoCreation struct {
	mu   sync.Mutex
	busy map[string]bool
}

// creatable is how a topic is created that nobody has described. Internal topics
// carry their settings with them: else they would be lost when Apache Kafka takes
// the cluster over (Trap 9).
func (h *Handler) creatable(name string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	if name != kafka.ConsumerOffsetsTopic {
		return t
	}
	o := &h.opts.OffsetsTopic
	t.NumPartitions, t.ReplicationFactor = o.Partitions, o.ReplicationFactor
	for _, kv := range [][2]string{{"cleanup.policy", "compact"}, {"compression.type", "producer"}, {"segment.bytes", o.SegmentBytes}} {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = kv[0], &kv[1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

// maxAutoCreating bounds the topics that are being created at a time.
const maxAutoCreating = 1000

func (a *autoCreation) start(h *Handler, names []string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(req.MaxVersion())
	a.mu.Lock()
	if a.busy == nil {
		a.busy = map[string]bool{}
	}
	for _, name := range names {
		if a.busy[name] || len(a.busy) >= maxAutoCreating {
			continue
		}
		a.busy[name] = true
		req.Topics = append(req.Topics, h.creatable(name))
	}
	a.mu.Unlock()
	if len(req.Topics) == 0 {
		return
	}
	req.TimeoutMillis = 30_000
	from := Caller{Host: "127.0.0.1", Principal: Anonymous()}
	h.opts.Controller.Submit(from, req, func(resp kmsg.Response, err error) {
		a.mu.Lock()
		for i := range req.Topics {
			delete(a.busy, req.Topics[i].Topic)
		}
		a.mu.Unlock()
		if err != nil {
			h.opts.Log.Warn("automatic creation of topics failed; the clients will ask again", "error", err)
			return
		}
		for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
			code := kafka.ErrorCode(t.ErrorCode)
			if code != 0 && code != kafka.ErrTopicAlreadyExists {
				h.opts.Log.Warn("automatic creation of a topic was refused", "topic", t.Topic, "error", errors.New(code.String()))
			}
		}
	})
}
