package handler

// Membership of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. The
// checks and the rules of versions are the coordinator's (package group).

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// joinGroup. v1: rebalance timeout; v4: member id required; v5: instance id; v7:
// protocol type; v9: the leader may skip the assignment.
func (h *Handler) joinGroup(c *call) {
	req := kmsg.NewPtrJoinGroupRequest()
	if !c.decode(req) {
		return
	}
	h.ask(c, req.Group, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode = int16(code)
		return resp
	})
}

// syncGroup. v3: instance id; v5: protocol type and name, which are mandatory.
func (h *Handler) syncGroup(c *call) {
	req := kmsg.NewPtrSyncGroupRequest()
	if !c.decode(req) {
		return
	}
	refuse := func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode, resp.MemberAssignment = int16(code), []byte{}
		return resp
	}
	if c.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		c.reply(refuse(kafka.ErrInconsistentGroupProtocol))
		return
	}
	h.ask(c, req.Group, req, refuse)
}

// heartbeat. While the group is loaded, members are told that all is well: they
// are not to leave it because of that.
func (h *Handler) heartbeat(c *call) {
	req := kmsg.NewPtrHeartbeatRequest()
	if !c.decode(req) {
		return
	}
	h.ask(c, req.Group, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrHeartbeatResponse()
		if code != kafka.ErrCoordinatorLoadInProgress {
			resp.ErrorCode = int16(code)
		}
		return resp
	})
}

// leaveGroup. v3: several members at once; v5: reasons.
func (h *Handler) leaveGroup(c *call) {
	req := kmsg.NewPtrLeaveGroupRequest()
	if !c.decode(req) {
		return
	}
	h.ask(c, req.Group, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = int16(code)
		return resp
	})
}
