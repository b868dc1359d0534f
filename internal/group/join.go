package group

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// joiner is a JoinGroup request, as the core needs it. It shares no memory with
// the request.
type joiner struct {
	waiter
	group        string
	memberID     string
	instanceID   *string
	clientID     string
	host         string
	sessionMs    int32
	rebalanceMs  int32
	protocolType string
	protocols    []protocol
}

func newJoiner(r *coordinator.Request, q *kmsg.JoinGroupRequest) *joiner {
	j := &joiner{
		waiter: waiter{token: r.Token, version: q.Version},
		group:  q.Group, memberID: q.MemberID, instanceID: q.InstanceID, clientID: r.ClientID, host: r.Host,
		sessionMs: q.SessionTimeoutMillis, rebalanceMs: q.RebalanceTimeoutMillis, protocolType: q.ProtocolType,
	}
	if q.Version == 0 {
		j.rebalanceMs = j.sessionMs
	}
	seen := make(map[string]bool, len(q.Protocols))
	for _, p := range q.Protocols {
		if !seen[p.Name] {
			seen[p.Name] = true
			j.protocols = append(j.protocols, protocol{p.Name, bytes.Clone(p.Metadata)})
		}
	}
	return j
}

// Versions of JoinGroup with other rules.
const (
	memberIDRequiredSince = 4 // KIP-394
	skipAssignmentSince   = 9 // KIP-814
)

// maxText is the longest string, in bytes, for which the log and all versions of
// answers have room. What the client chose of a member id may be as long already.
const maxText = math.MaxInt16

// fits tells whether the group's records can hold the member.
func (j *joiner) fits() bool {
	longest := max(len(j.clientID), len(j.host), len(j.protocolType), len(j.memberID))
	if j.instanceID != nil {
		longest = max(longest, len(*j.instanceID))
	}
	for _, p := range j.protocols {
		longest = max(longest, len(p.name))
	}
	return longest <= maxText
}

// refuseJoin answers a JoinGroup with an error.
func (c *Coordinator) refuseJoin(w *waiter, member string, code kafka.ErrorCode) {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.MemberID, resp.ErrorCode = -1, member, int16(code)
	c.reply(w.token, resp)
}

// join serves JoinGroup (GroupMetadataManager.classicGroupJoin).
func (c *Coordinator) join(r *coordinator.Request, q *kmsg.JoinGroupRequest) {
	j := newJoiner(r, q)
	switch {
	case j.group == "" || len(j.group) > maxText:
		c.refuseJoin(&j.waiter, j.memberID, kafka.ErrInvalidGroupID)
		return
	case j.sessionMs < c.opts.MinSessionMs || j.sessionMs > c.opts.MaxSessionMs:
		c.refuseJoin(&j.waiter, j.memberID, kafka.ErrInvalidSessionTimeout)
		return
	case !j.fits():
		c.refuseJoin(&j.waiter, "", kafka.ErrInvalidRequest)
		return
	}
	g := c.group(j.group)
	if g != nil && g.foreign != nil {
		if g.foreign.kind == shareKind || !g.foreign.isEmpty() {
			c.refuseJoin(&j.waiter, "", kafka.ErrInconsistentGroupProtocol)
			return
		}
		c.bury(g.foreign) // an empty group of a newer protocol becomes a classic one
		g = nil
	}
	if g == nil {
		if j.memberID != "" {
			c.out.Records = c.out.Records[:0]
			c.refuseJoin(&j.waiter, j.memberID, kafka.ErrUnknownMemberID)
			return
		}
		g = c.createGroup(j.group)
	}
	c.joinClassic(c.classicOf(g), j)
}

// createGroup makes an empty classic group and writes it down, so that it is
// there for whoever takes over.
func (c *Coordinator) createGroup(id string) *group {
	g := c.groupFor(id)
	m := c.classicOf(g)
	c.onRevert(func(code kafka.ErrorCode) {
		for _, n := range slices.Clone(m.members) {
			c.answerJoin(n, func(w *waiter) { c.refuseJoin(w, "", StorageError(code)) })
		}
		c.stop(m)
		g.classic = nil
		c.mayBeEmpty(g)
	})
	v := record.NewGroupMetadataValue()
	v.CurrentStateTimestamp = m.sinceMs
	c.writeGroup(id, v)
	return g
}

// stop ends all timers of a membership that is given up.
func (c *Coordinator) stop(m *classic) {
	c.timers.cancel(&m.joinTimer)
	c.timers.cancel(&m.syncTimer)
	for _, t := range m.joining {
		c.timers.cancel(t)
	}
	for _, n := range m.members {
		c.timers.cancel(&n.session)
	}
}

func (c *Coordinator) joinClassic(m *classic, j *joiner) {
	switch {
	case !c.accepts(m, j.memberID):
		if n := m.byID[j.memberID]; n != nil {
			c.answerJoin(n, func(w *waiter) { c.refuseJoin(w, "", kafka.ErrUnknownMemberID) })
			c.answerSync(n, func(w *waiter) { c.refuseSync(w, kafka.ErrUnknownMemberID) })
			c.remove(n)
		}
		c.removeJoining(m, j.memberID)
		c.refuseJoin(&j.waiter, "", kafka.ErrGroupMaxSizeReached)
	case !m.supports(j.protocolType, j.protocols):
		c.refuseJoin(&j.waiter, j.memberID, kafka.ErrInconsistentGroupProtocol)
	case j.memberID == "":
		c.joinNew(m, j)
	case m.joining[j.memberID] != nil:
		c.joinPromised(m, j)
	default:
		c.rejoin(m, j)
	}
}

// accepts tells whether the group's size lets a member in
// (GroupMetadataManager.acceptJoiningMember).
func (c *Coordinator) accepts(m *classic, id string) bool {
	n := m.byID[id]
	switch m.state {
	case empty:
		return true
	case preparingRebalance:
		// Those who wait count, not the members: the last ones to come back are
		// those that are left out after the limit was lowered.
		return n != nil && n.join != nil || m.awaiting < int(c.opts.MaxSize)
	}
	return n != nil || len(m.members) < int(c.opts.MaxSize)
}

// joinNew lets somebody in who has no member id yet.
func (c *Coordinator) joinNew(m *classic, j *joiner) {
	name := j.clientID
	if j.instanceID != nil {
		name = *j.instanceID
	}
	id := name + "-" + uuidText(c.opts.UUID())
	if len(id) > maxText {
		c.refuseJoin(&j.waiter, "", kafka.ErrInvalidRequest)
		return
	}
	if j.instanceID != nil {
		if old := m.static[*j.instanceID]; old != nil && !mutantTwoOfOne {
			c.replaceStatic(m, j, old, id)
			return
		}
		c.addMember(m, j, id)
		return
	}
	if j.version < memberIDRequiredSince {
		c.addMember(m, j, id)
		return
	}
	t := &timer{fire: func(c *Coordinator) {
		delete(m.joining, id)
		c.maybeCompleteWaiting(m)
	}}
	m.joining[id] = t
	c.timers.set(t, c.now.Mono.Add(millis(j.sessionMs)))
	c.refuseJoin(&j.waiter, id, kafka.ErrMemberIDRequired)
}

// joinPromised lets somebody in who comes with the id that was handed out.
func (c *Coordinator) joinPromised(m *classic, j *joiner) {
	if j.instanceID != nil {
		// Kafka gives up here: ids are never handed out to static members.
		c.refuseJoin(&j.waiter, j.memberID, kafka.ErrUnknownMemberID)
		return
	}
	c.removeJoining(m, j.memberID)
	c.addMember(m, j, j.memberID)
}

func (c *Coordinator) addMember(m *classic, j *joiner, id string) {
	n := &member{
		id: id, instanceID: j.instanceID, clientID: j.clientID, host: j.host,
		rebalanceMs: j.rebalanceMs, sessionMs: j.sessionMs, protocols: j.protocols, isNew: true,
	}
	if m.state == preparingRebalance && m.previous == empty {
		m.newMember = true
	}
	if len(m.members) == 0 {
		m.protocolType = j.protocolType
	}
	m.add(n, &j.waiter)
	// A new member cannot send heartbeats: it does not know its id. If its client
	// goes away, nothing tells.
	c.timers.set(&n.session, c.now.Mono.Add(millis(c.opts.NewMemberJoinTimeoutMs)))
	c.rebalanceOrComplete(m)
}

// rejoin serves a member that is known.
func (c *Coordinator) rejoin(m *classic, j *joiner) {
	n, code := m.check(j.memberID, j.instanceID)
	if code != 0 {
		c.refuseJoin(&j.waiter, j.memberID, code)
		return
	}
	same := n.matches(j.protocols)
	switch m.state {
	case preparingRebalance:
		c.updateMember(n, j)
		c.rebalanceOrComplete(m)
	case completingRebalance:
		if same { // it may have missed the answer
			c.generationFor(&j.waiter, n, false)
			return
		}
		c.updateMember(n, j)
		c.rebalanceOrComplete(m)
	case stable:
		// The leader may see changes that its own metadata does not show.
		if m.leader != n.id && same {
			c.tellFollower(&j.waiter, n)
			return
		}
		c.updateMember(n, j)
		c.rebalanceOrComplete(m)
	default:
		c.refuseJoin(&j.waiter, j.memberID, kafka.ErrUnknownMemberID)
	}
}

// updateMember takes in what a member says now, and has it wait for the next
// generation.
func (c *Coordinator) updateMember(n *member, j *joiner) {
	c.change(n, j.protocols, j.rebalanceMs, j.sessionMs)
	if n.join != nil {
		// The client has given this request up and sent another.
		c.refuseJoin(n.join, n.id, kafka.ErrRebalanceInProgress)
	}
	n.in.await(n, &j.waiter)
}

func (c *Coordinator) change(n *member, list []protocol, rebalanceMs, sessionMs int32) {
	n.in.count(n, -1)
	n.protocols, n.rebalanceMs, n.sessionMs = list, rebalanceMs, sessionMs
	n.in.count(n, 1)
}

// generationFor answers a JoinGroup with the generation as it is.
func (c *Coordinator) generationFor(w *waiter, n *member, skip bool) {
	m := n.in
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.MemberID, resp.LeaderID = m.generation, n.id, m.leader
	resp.Protocol, resp.ProtocolType, resp.SkipAssignment = m.protocol, text(m.protocolType), skip
	if m.leader == n.id {
		for _, x := range m.members {
			r := kmsg.NewJoinGroupResponseMember()
			r.MemberID, r.InstanceID, r.ProtocolMetadata = x.id, x.instanceID, x.metadata(m.protocol)
			resp.Members = append(resp.Members, r)
		}
	}
	c.reply(w.token, resp)
}

// tellFollower answers with the generation, and without members.
func (c *Coordinator) tellFollower(w *waiter, n *member) {
	m := n.in
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.MemberID, resp.LeaderID = m.generation, n.id, m.leader
	resp.Protocol, resp.ProtocolType = m.protocol, text(m.protocolType)
	c.reply(w.token, resp)
}

// answerJoin ends a JoinGroup that waits.
func (c *Coordinator) answerJoin(n *member, answer func(*waiter)) {
	if w := n.join; w != nil {
		n.in.await(n, nil)
		answer(w)
	}
}

// replaceStatic gives the place of a static member to its next incarnation, in
// every state at once (HC-096, KIP-345).
func (c *Coordinator) replaceStatic(m *classic, j *joiner, n *member, id string) {
	leader := m.leader
	was := *n
	c.answerJoin(n, func(w *waiter) { c.refuseJoin(w, n.id, kafka.ErrFencedInstanceID) })
	c.answerSync(n, func(w *waiter) { c.refuseSync(w, kafka.ErrFencedInstanceID) })
	c.rename(n, id)
	c.change(n, j.protocols, j.rebalanceMs, j.sessionMs)
	n.isNew = false // whoever waits now keeps its session by that, as in Kafka
	c.restartSession(n)
	m.await(n, &j.waiter)
	switch {
	case m.state == stable && m.protocol != nil && *m.protocol == m.selectProtocol():
		c.keepGeneration(m, n, &was, leader)
	case m.state == stable:
		c.rebalanceOrComplete(m)
	case m.state == completingRebalance:
		// The leader may be assigning to the old id.
		c.prepareRebalance(m)
	default:
		c.maybeCompleteJoin(m)
	}
}

func (c *Coordinator) rename(n *member, id string) {
	m := n.in
	delete(m.byID, n.id)
	if m.leader == n.id {
		m.leader = id
	}
	n.id = id
	m.byID[id] = n
}

// keepGeneration writes down that a static member has another id, without a
// rebalance, and gives it the generation.
func (c *Coordinator) keepGeneration(m *classic, n, was *member, leader string) {
	c.onRevert(func(kafka.ErrorCode) {
		if m.byID[n.id] != n {
			return // gone in the meantime
		}
		c.rename(n, was.id)
		c.change(n, was.protocols, was.rebalanceMs, was.sessionMs)
		c.restartSession(n)
	})
	c.writeGroup(m.g.id, m.record())
	c.answerJoin(n, func(w *waiter) {
		if w.version >= skipAssignmentSince {
			c.generationFor(w, n, m.leader == n.id)
			return
		}
		// Older clients take whoever is named leader at its word, and would assign:
		// they are told the id that the leader had.
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.Generation, resp.MemberID, resp.LeaderID = m.generation, n.id, leader
		resp.Protocol, resp.ProtocolType = m.protocol, text(m.protocolType)
		c.reply(w.token, resp)
	})
}

// text gives a nullable string; empty is null.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// uuidText is the usual form of a UUID.
func uuidText(u kafka.UUID) string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// StorageError is the code for a client whose request could not be written: the
// log's own codes mean something else to clients of a coordinator
// (GroupMetadataManager.appendGroupMetadataErrorToResponseError).
func StorageError(code kafka.ErrorCode) kafka.ErrorCode {
	switch code {
	case kafka.ErrUnknownTopicOrPartition, kafka.ErrNotEnoughReplicas, kafka.ErrRequestTimedOut:
		return kafka.ErrCoordinatorNotAvailable
	case kafka.ErrNotLeaderForPartition, kafka.ErrKafkaStorageError:
		return kafka.ErrNotCoordinator
	case kafka.ErrMessageTooLarge, kafka.ErrRecordListTooLarge, kafka.ErrInvalidFetchSize:
		return kafka.ErrUnknownServerError
	}
	return code
}
