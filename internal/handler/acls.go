package handler

// DescribeAcls, CreateAcls and DeleteAcls on a server that has no authorizer:
// nobody is held to rules, so there are none to show or change (AclApis).

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

const noAuthorizer = "No Authorizer is configured."

func (h *Handler) describeACLs(c *call) {
	req := kmsg.NewPtrDescribeACLsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.ErrorCode, resp.ErrorMessage = int16(kafka.ErrSecurityDisabled), text(noAuthorizer)
	c.reply(resp)
}

func (h *Handler) createACLs(c *call) {
	req := kmsg.NewPtrCreateACLsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrCreateACLsResponse()
	for range req.Creations {
		r := kmsg.NewCreateACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = int16(kafka.ErrSecurityDisabled), text(noAuthorizer)
		resp.Results = append(resp.Results, r)
	}
	c.reply(resp)
}

func (h *Handler) deleteACLs(c *call) {
	req := kmsg.NewPtrDeleteACLsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDeleteACLsResponse()
	for range req.Filters {
		r := kmsg.NewDeleteACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = int16(kafka.ErrSecurityDisabled), text(noAuthorizer)
		resp.Results = append(resp.Results, r)
	}
	c.reply(resp)
}
