package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// leaveManySince is the version from which several members can leave at once
// (KIP-345).
const leaveManySince = 3

// leave serves LeaveGroup (GroupMetadataManager.classicGroupLeave).
func (c *Coordinator) leave(r *coordinator.Request, q *kmsg.LeaveGroupRequest) {
	members := q.Members
	if q.Version < leaveManySince {
		members = []kmsg.LeaveGroupRequestMember{{MemberID: q.MemberID}}
	}
	resp := kmsg.NewPtrLeaveGroupResponse()
	if q.Group == "" {
		resp.ErrorCode = int16(kafka.ErrInvalidGroupID)
		c.reply(r.Token, resp)
		return
	}
	var m *classic
	if g := c.group(q.Group); g != nil && g.foreign == nil {
		m = c.classicOf(g)
	}
	left := false
	for _, q := range members {
		p := kmsg.NewLeaveGroupResponseMember()
		p.MemberID, p.InstanceID = q.MemberID, q.InstanceID
		code := kafka.ErrUnknownMemberID
		if m != nil {
			code = c.leaveOne(m, q.MemberID, q.InstanceID)
		}
		p.ErrorCode = int16(code)
		left = left || code == 0
		resp.Members = append(resp.Members, p)
	}
	if q.Version < leaveManySince {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	if left {
		c.leftGroup(m)
	}
	c.reply(r.Token, resp)
}

// leaveOne removes a member. A tool names a static member by its instance id
// alone.
func (c *Coordinator) leaveOne(m *classic, id string, instanceID *string) kafka.ErrorCode {
	var n *member
	switch {
	case id == "" && instanceID != nil:
		n = m.static[*instanceID]
	case m.joining[id] != nil:
		c.removeJoining(m, id)
		return 0
	default:
		var code kafka.ErrorCode
		if n, code = m.check(id, instanceID); code != 0 {
			return code
		}
	}
	if n == nil {
		return kafka.ErrUnknownMemberID
	}
	c.answerJoin(n, func(w *waiter) { c.refuseJoin(w, "", kafka.ErrUnknownMemberID) })
	c.answerSync(n, func(w *waiter) { c.refuseSync(w, kafka.ErrUnknownMemberID) })
	c.remove(n)
	return 0
}

// leftGroup lets the others go on. Unlike when a session ends, the first
// rebalance of a group goes on waiting.
func (c *Coordinator) leftGroup(m *classic) {
	switch m.state {
	case stable, completingRebalance:
		c.prepareRebalance(m)
	case preparingRebalance:
		c.maybeCompleteJoin(m)
	}
}
