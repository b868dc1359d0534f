package handler

// InitProducerId without a transactional id (KIP-98, KIP-360), and
// FindCoordinator as long as there are no coordinators.

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func (h *Handler) initProducerID(c *call) {
	req := kmsg.NewPtrInitProducerIDRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "":
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
	case c.Version >= 3 && (req.ProducerID < 0) != (req.ProducerEpoch < 0):
		// Both of them, or neither (KafkaApis.handleInitProducerIdRequest).
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
	case req.TransactionalID != nil:
		resp.ErrorCode = int16(kafka.ErrCoordinatorNotAvailable)
	default:
		later := *c
		h.opts.ProducerIDs.Next(func(id kafka.ProducerID, code kafka.ErrorCode) {
			resp.ErrorCode = int16(code)
			if code == 0 {
				resp.ProducerID, resp.ProducerEpoch = int64(id), 0
			}
			go later.reply(resp)
		})
		return
	}
	c.reply(resp)
}

// coordinatorTypes is how many kinds of coordinators a version may ask for:
// groups, transactions (v1), share groups (v6).
func coordinatorTypes(version int16) int8 {
	switch {
	case version >= 6:
		return 3
	case version >= 1:
		return 2
	}
	return 1
}

func (h *Handler) findCoordinator(c *call) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	if !c.decode(req) {
		return
	}
	answer := func(key string) (kafka.ErrorCode, *string) {
		switch {
		case req.CoordinatorType < 0 || req.CoordinatorType >= coordinatorTypes(c.Version):
			return kafka.ErrInvalidRequest, nil
		case req.CoordinatorType == 1 && key == "":
			return kafka.ErrInvalidRequest, nil
		}
		why := "This server does not coordinate groups and transactions yet."
		return kafka.ErrCoordinatorNotAvailable, &why
	}
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.NodeID, resp.Port = -1, -1
	if c.Version < 4 {
		code, why := answer(req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = int16(code), why
		c.reply(resp)
		return
	}
	for _, key := range req.CoordinatorKeys {
		r := kmsg.NewFindCoordinatorResponseCoordinator()
		r.Key, r.NodeID, r.Port = key, -1, -1
		code, why := answer(key)
		r.ErrorCode, r.ErrorMessage = int16(code), why
		resp.Coordinators = append(resp.Coordinators, r)
	}
	c.reply(resp)
}
