package handler

// InitProducerId without a transactional id (KIP-98, KIP-360).

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
