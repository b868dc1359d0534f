package handler

// Produce. v3: v2 batches only; v7: zstd; v8: errors of single records; v10:
// who leads now (KIP-951); v13: topic ids.

import (
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
	"moldau/internal/wire"
)

// adminClientID is the client id under which tools may write to internal topics.
const adminClientID = "__admin_client"

// produceScratch is memory that serves one Produce after the other.
type produceScratch struct {
	req     wire.ProduceRequest
	results []wire.ProduceResult
	work    batch.Workspace
}

func (h *Handler) takeScratch() *produceScratch {
	select {
	case s := <-h.scratch:
		return s
	default:
		return &produceScratch{}
	}
}

// maxKeptPartitions bounds the memory that a scratch keeps.
const maxKeptPartitions = 10_000

func (h *Handler) giveScratch(s *produceScratch) {
	if cap(s.results) > maxKeptPartitions {
		return
	}
	select {
	case h.scratch <- s:
	default:
	}
}

func (h *Handler) produce(c *call) {
	s := h.takeScratch()
	defer h.giveScratch(s)
	if err := s.req.Decode(c.body, c.Version); err != nil {
		c.Drop(fmt.Errorf("Produce version %d: %w", c.Version, err))
		return
	}
	s.results = s.results[:0]
	img, now := h.opts.Image(), h.opts.Now()
	for i := range s.req.Topics {
		t := &s.req.Topics[i]
		topic, code := h.produceTopic(c, &s.req, t, img)
		for j := t.First; j < t.End; j++ {
			if code != 0 {
				s.results = append(s.results, produceError(code, ""))
				continue
			}
			s.results = append(s.results, h.produceTo(c, s, &s.req.Partitions[j], topic, now))
		}
	}
	if s.req.Acks == 0 {
		h.finishSilently(c, s)
		return
	}
	resp := c.start()
	resp.EncodeProduce(c.Version, &s.req, s.results, h.newLeaders(c, img, s.results))
	c.Reply(resp)
}

// finishSilently ends a Produce with acks=0: nothing on success, and on any
// error the connection closes, so that the client asks for metadata (HC-144).
func (h *Handler) finishSilently(c *call, s *produceScratch) {
	for i := range s.results {
		if code := s.results[i].Code; code != 0 {
			c.Drop(fmt.Errorf("a Produce with acks=0 failed with %s", code))
			return
		}
	}
	c.NoReply()
}

func produceError(code kafka.ErrorCode, message string) wire.ProduceResult {
	return wire.ProduceResult{
		Code: code, Message: message, BaseOffset: kafka.NoOffset, AppendTimeMs: kafka.NoTimestamp,
		LogStart: kafka.NoOffset, CurrentLeader: kafka.NoNode, LeaderEpoch: kafka.NoEpoch,
	}
}

// produceTopic finds a topic, or says why none of its partitions takes records.
func (h *Handler) produceTopic(c *call, req *wire.ProduceRequest, t *wire.ProduceTopic, img *metadata.Image) (metadata.Topic, kafka.ErrorCode) {
	if req.Acks < -1 || req.Acks > 1 {
		return metadata.Topic{}, kafka.ErrInvalidRequiredAcks
	}
	if req.TransactionalID != nil {
		// There is no transaction coordinator that could have begun one.
		return metadata.Topic{}, kafka.ErrInvalidTxnState
	}
	var topic metadata.Topic
	if c.Version >= 13 {
		if topic = img.TopicByID(t.ID); !topic.Exists() {
			return topic, kafka.ErrUnknownTopicID
		}
	} else if topic = img.TopicByName(string(t.Name)); !topic.Exists() {
		return topic, kafka.ErrUnknownTopicOrPartition
	}
	if kafka.IsInternalTopic(topic.Name()) && string(c.ClientID) != adminClientID {
		return topic, kafka.ErrInvalidTopicException
	}
	return topic, 0
}

func (h *Handler) produceTo(c *call, s *produceScratch, q *wire.ProducePartition, topic metadata.Topic, now kafka.Now) wire.ProduceResult {
	p, code := h.find(topic, q.Index)
	if code != 0 {
		return produceError(code, "")
	}
	if s.req.TransactionalID == nil && transactional(q.Records) {
		return produceError(kafka.ErrTransactionalIDAuthorizationFailed, "Transactional records need a transactional id.")
	}
	b, r := s.work.Produced(q.Records, c.Version, &p.Settings().Rules, now.Wall)
	if r.Code != 0 {
		res := produceError(r.Code, r.Message)
		if r.Appending {
			res.LogStart = p.LogStart()
		}
		for _, e := range r.Records {
			res.RecordErrors = append(res.RecordErrors, wire.RecordError(e))
		}
		return res
	}
	a := p.Append(b, s.req.Acks == -1, now.Wall)
	return wire.ProduceResult{
		Code: a.Code, Message: a.Message, BaseOffset: a.BaseOffset, AppendTimeMs: a.AppendTimeMs,
		LogStart: a.LogStart, CurrentLeader: a.Leader, LeaderEpoch: a.Epoch,
	}
}

// transactional looks at the first batch only; a second one is refused anyway.
func transactional(records []byte) bool {
	b, _, err := batch.Next(records)
	return err == nil && b.Transactional()
}

// find gives a partition that has a replica here. Otherwise the code says
// whether it does not exist or is elsewhere (HC-146).
func (h *Handler) find(topic metadata.Topic, n kafka.PartitionID) (*partition.Partition, kafka.ErrorCode) {
	if p := h.opts.Store.Partition(topic.ID(), n); p != nil {
		return p, 0
	}
	if _, _, ok := topic.Leader(n); ok {
		return nil, kafka.ErrNotLeaderForPartition
	}
	return nil, kafka.ErrUnknownTopicOrPartition
}

// newLeaders lists where the leaders that the results name can be reached.
func (h *Handler) newLeaders(c *call, img *metadata.Image, results []wire.ProduceResult) []wire.NodeEndpoint {
	var out []wire.NodeEndpoint
	for i := range results {
		out = h.addLeader(out, c, img, results[i].CurrentLeader)
	}
	return out
}

func (h *Handler) addLeader(out []wire.NodeEndpoint, c *call, img *metadata.Image, id kafka.NodeID) []wire.NodeEndpoint {
	if id < 0 {
		return out
	}
	for _, n := range out {
		if n.ID == id {
			return out
		}
	}
	b := img.Broker(id)
	if b == nil || b.Fenced {
		return out
	}
	if e, ok := b.Endpoint(c.Peer.Listener); ok {
		out = append(out, wire.NodeEndpoint{ID: id, Host: e.Host, Port: int32(e.Port), Rack: b.Rack})
	}
	return out
}
