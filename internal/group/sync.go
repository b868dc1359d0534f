package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

func (c *Coordinator) refuseSync(w *waiter, code kafka.ErrorCode) {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = int16(code)
	c.reply(w.token, resp)
}

// answerSync ends a SyncGroup that waits.
func (c *Coordinator) answerSync(n *member, answer func(*waiter)) {
	if w := n.sync; w != nil {
		n.sync = nil
		answer(w)
	}
}

// sync serves SyncGroup (GroupMetadataManager.classicGroupSync).
func (c *Coordinator) sync(r *coordinator.Request, q *kmsg.SyncGroupRequest) {
	w := &waiter{token: r.Token, version: q.Version}
	g := c.group(q.Group)
	switch {
	case q.Group == "":
		c.refuseSync(w, kafka.ErrInvalidGroupID)
		return
	case g == nil || g.foreign != nil:
		c.refuseSync(w, kafka.ErrUnknownMemberID)
		return
	}
	m := c.classicOf(g)
	n, code := m.checkSync(q)
	if code != 0 {
		c.refuseSync(w, code)
		return
	}
	m.synced(n)
	if m.unsynced == 0 {
		c.timers.cancel(&m.syncTimer)
	}
	if m.state == stable {
		c.assignmentFor(w, n)
		return
	}
	c.answerSync(n, func(old *waiter) { c.refuseSync(old, kafka.ErrRebalanceInProgress) })
	n.sync = w
	if m.leader == n.id || mutantAnyAssigns && len(q.GroupAssignment) > 0 {
		c.assign(m, q)
	}
}

func (m *classic) checkSync(q *kmsg.SyncGroupRequest) (*member, kafka.ErrorCode) {
	if m.state == empty {
		return nil, kafka.ErrUnknownMemberID
	}
	n, code := m.check(q.MemberID, q.InstanceID)
	switch {
	case code != 0:
		return nil, code
	case q.Generation != m.generation && !mutantAnyGeneration:
		return nil, kafka.ErrIllegalGeneration
	case differs(q.ProtocolType, text(m.protocolType)) || differs(q.Protocol, m.protocol):
		return nil, kafka.ErrInconsistentGroupProtocol
	case m.state == preparingRebalance:
		return nil, kafka.ErrRebalanceInProgress
	}
	return n, 0
}

// differs compares a protocol that a client names, if it does.
func differs(told, is *string) bool {
	return told != nil && is != nil && *told != *is
}

// assignmentFor answers a SyncGroup with the member's assignment.
func (c *Coordinator) assignmentFor(w *waiter, n *member) {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = text(n.in.protocolType), n.in.protocol, n.assignment
	c.reply(w.token, resp)
}

// assign takes the leader's assignments and writes the generation down. A
// member that the leader left out has an empty assignment (HC-098).
func (c *Coordinator) assign(m *classic, q *kmsg.SyncGroupRequest) {
	given := make(map[string][]byte, len(q.GroupAssignment))
	for _, a := range q.GroupAssignment {
		given[a.MemberID] = a.MemberAssignment
	}
	for _, n := range m.members {
		n.assignment = bytes.Clone(given[n.id])
	}
	generation := m.generation
	c.onRevert(func(code kafka.ErrorCode) {
		if m.generation == generation && (m.state == stable || m.state == completingRebalance) {
			c.dropAssignments(m, StorageError(code))
			c.prepareRebalance(m)
		}
	})
	c.writeGroup(m.g.id, m.record())
	m.moveTo(stable, c.now.Wall)
	for _, n := range m.members {
		c.answerSync(n, func(w *waiter) {
			c.assignmentFor(w, n)
			// The session may have ended while it waited.
			c.restartSession(n)
		})
	}
}

// dropAssignments takes the assignments back and fails those that wait for them.
func (c *Coordinator) dropAssignments(m *classic, code kafka.ErrorCode) {
	for _, n := range m.members {
		n.assignment = nil
		c.answerSync(n, func(w *waiter) {
			c.refuseSync(w, code)
			c.restartSession(n)
		})
	}
}

// heartbeat serves Heartbeat.
func (c *Coordinator) heartbeat(r *coordinator.Request, q *kmsg.HeartbeatRequest) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = int16(c.beat(q))
	c.reply(r.Token, resp)
}

func (c *Coordinator) beat(q *kmsg.HeartbeatRequest) kafka.ErrorCode {
	g := c.group(q.Group)
	switch {
	case q.Group == "":
		return kafka.ErrInvalidGroupID
	case g == nil || g.foreign != nil:
		return kafka.ErrUnknownMemberID
	}
	m := c.classicOf(g)
	n, code := m.check(q.MemberID, q.InstanceID)
	switch {
	case code != 0:
		return code
	case q.Generation != m.generation:
		return kafka.ErrIllegalGeneration
	}
	c.restartSession(n)
	if m.state == preparingRebalance {
		return kafka.ErrRebalanceInProgress
	}
	return 0
}
