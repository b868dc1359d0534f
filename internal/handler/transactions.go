package handler

// DescribeTransactions and ListTransactions (KIP-664) on a broker that
// coordinates none: there is nothing to list, and whoever asks for one has asked
// the wrong broker.

import (
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func (h *Handler) describeTransactions(c *call) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	resp.TransactionStates = make([]kmsg.DescribeTransactionsResponseTransactionState, 0, len(req.TransactionalIDs))
	for _, id := range req.TransactionalIDs {
		s := kmsg.NewDescribeTransactionsResponseTransactionState()
		s.TransactionalID, s.ErrorCode = id, int16(kafka.ErrNotCoordinator)
		if id == "" {
			s.ErrorCode = int16(kafka.ErrInvalidRequest)
		}
		resp.TransactionStates = append(resp.TransactionStates, s)
	}
	c.reply(resp)
}

// transactionStates are the states that clients may filter by.
func transactionStates() []string {
	return []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}
}

func (h *Handler) listTransactions(c *call) {
	req := kmsg.NewPtrListTransactionsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrListTransactionsResponse()
	for _, s := range req.StateFilters {
		if !slices.Contains(transactionStates(), s) {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, s)
		}
	}
	if p := req.TransactionalIDPattern; c.Version >= 2 && p != nil && *p != "" {
		if _, err := regexp.Compile(*p); err != nil {
			resp.ErrorCode, resp.UnknownStateFilters = int16(kafka.ErrInvalidRegularExpression), nil
		}
	}
	c.reply(resp)
}
