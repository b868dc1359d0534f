package handler

// FindCoordinator. v1: transactions; v4: several keys; v6: share groups.

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Kinds of coordinators, as FindCoordinator names them (CoordinatorType).
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
)

// coordinatorTypes is how many kinds of coordinators a version may ask for.
func coordinatorTypes(version int16) int8 {
	switch {
	case version >= 6:
		return 3
	case version >= 1:
		return 2
	}
	return 1
}

// found is the answer for one key. Host, port and id are empty, −1 and −1 beside
// a code.
type found struct {
	code kafka.ErrorCode
	why  string
	id   kafka.NodeID
	at   kafka.Endpoint
}

func (f *found) port() int32 {
	if f.code != 0 {
		return -1
	}
	return int32(f.at.Port)
}

func notFound(code kafka.ErrorCode, why string) found {
	return found{code: code, why: why, id: kafka.NoNode}
}

func (h *Handler) findCoordinator(c *call) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if c.Version < 4 {
		f := h.findOne(c, img, req.CoordinatorType, req.CoordinatorKey)
		if f.code == 0 {
			f.why = "NONE" // as Kafka
		}
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = int16(f.code), &f.why, int32(f.id), f.at.Host, f.port()
		c.reply(resp)
		return
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, 0, len(req.CoordinatorKeys))
	for _, key := range req.CoordinatorKeys {
		f := h.findOne(c, img, req.CoordinatorType, key)
		r := kmsg.NewFindCoordinatorResponseCoordinator()
		r.Key, r.ErrorCode, r.ErrorMessage, r.NodeID, r.Host, r.Port = key, int16(f.code), &f.why, int32(f.id), f.at.Host, f.port()
		resp.Coordinators = append(resp.Coordinators, r)
	}
	c.reply(resp)
}

// findOne finds the coordinator of one key (KafkaApis.getCoordinator).
func (h *Handler) findOne(c *call, img *metadata.Image, kind int8, key string) found {
	switch {
	case kind < 0 || kind >= coordinatorTypes(c.Version):
		return notFound(kafka.ErrInvalidRequest, "There is no such kind of coordinator in this version of the request.")
	case kind == transactionCoordinator && key == "":
		return notFound(kafka.ErrInvalidRequest, "A transactional id is not empty.")
	case kind != groupCoordinator:
		return notFound(kafka.ErrCoordinatorNotAvailable, "This server does not coordinate transactions and share groups yet.")
	}
	topic := img.TopicByName(kafka.ConsumerOffsetsTopic)
	if !topic.Exists() {
		h.creating.start(h, []string{kafka.ConsumerOffsetsTopic})
		return notFound(kafka.ErrCoordinatorNotAvailable, "The topic of committed offsets is being created.")
	}
	p, ok := topic.Partition(h.opts.Groups.Partition(key))
	t := topicLister{img: img, listener: c.Peer.Listener}
	if code, leader := t.leader(&p); ok && code == 0 {
		e, _ := img.Broker(leader).Endpoint(c.Peer.Listener)
		return found{id: leader, at: e}
	}
	return notFound(kafka.ErrCoordinatorNotAvailable, "The partition that keeps the group has no leader on this listener.")
}
