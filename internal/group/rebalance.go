package group

import (
	"slices"

	"moldau/internal/kafka"
)

// rebalanceOrComplete begins a rebalance, or ends one that waited for this.
func (c *Coordinator) rebalanceOrComplete(m *classic) {
	if m.state == preparingRebalance {
		c.maybeCompleteJoin(m)
		return
	}
	c.prepareRebalance(m)
}

// prepareRebalance asks all members to join anew
// (GroupMetadataManager.prepareRebalance).
func (c *Coordinator) prepareRebalance(m *classic) {
	if m.state == completingRebalance {
		c.dropAssignments(m, kafka.ErrRebalanceInProgress)
	}
	c.cancelSync(m)
	if m.state == empty {
		// The first members of a group seldom come alone: wait for more.
		delay := c.opts.InitialRebalanceDelayMs
		m.newMember, m.initialLeft = false, max(m.rebalanceMs()-delay, 0)
		m.moveTo(preparingRebalance, c.now.Wall)
		c.timers.set(&m.joinTimer, c.now.Mono.Add(millis(delay)))
		return
	}
	m.moveTo(preparingRebalance, c.now.Wall)
	if m.allJoined() {
		c.completeJoin(m)
		return
	}
	c.timers.set(&m.joinTimer, c.now.Mono.Add(millis(m.rebalanceMs())))
}

// joinTimeIsUp ends waiting for members. The first rebalance of a group is put
// off again while new members come, up to the rebalance timeout.
func (c *Coordinator) joinTimeIsUp(m *classic) {
	if m.previous == empty && m.newMember && m.initialLeft > 0 {
		delay := min(c.opts.InitialRebalanceDelayMs, m.initialLeft)
		m.newMember, m.initialLeft = false, max(m.initialLeft-c.opts.InitialRebalanceDelayMs, 0)
		c.timers.set(&m.joinTimer, c.now.Mono.Add(millis(delay)))
		return
	}
	c.completeJoin(m)
}

// maybeCompleteJoin begins the generation if all are there. The first
// rebalance waits for its time.
func (c *Coordinator) maybeCompleteJoin(m *classic) {
	if m.state == preparingRebalance && m.previous != empty && m.allJoined() {
		c.completeJoin(m)
	}
}

// maybeCompleteWaiting begins the generation if only somebody was waited for
// who will not come.
func (c *Coordinator) maybeCompleteWaiting(m *classic) {
	if m.state == preparingRebalance && m.allJoined() {
		c.completeJoin(m)
	}
}

// minRepeatMs is how long to wait at least for static members of which none has
// come: their own time for a rebalance may be zero.
const minRepeatMs int32 = 1000

// completeJoin begins the next generation with those who wait
// (GroupMetadataManager.completeClassicGroupJoin). Static members stay even if
// they did not come, until their sessions end.
func (c *Coordinator) completeJoin(m *classic) {
	c.timers.cancel(&m.joinTimer)
	for _, n := range slices.Clone(m.members) {
		if n.join == nil && n.instanceID == nil {
			c.remove(n)
		}
	}
	if !m.electJoined() && len(m.members) > 0 {
		c.timers.set(&m.joinTimer, c.now.Mono.Add(millis(max(m.rebalanceMs(), minRepeatMs))))
		return
	}
	m.generation++
	m.unsynced = 0
	if len(m.members) == 0 {
		m.protocol, m.leader = nil, ""
		m.topics = m.subscriptions()
		m.moveTo(empty, c.now.Wall)
		// If this cannot be written the generation before comes back with the next
		// coordinator, and its members time out.
		c.writeGroup(m.g.id, m.record())
		return
	}
	chosen := m.selectProtocol()
	m.protocol = &chosen
	m.topics = m.subscriptions()
	m.moveTo(completingRebalance, c.now.Wall)
	for _, n := range m.members {
		c.answerJoin(n, func(w *waiter) { c.generationFor(w, n, false) })
		c.restartSession(n)
		n.isNew, n.unsynced = false, true
		m.unsynced++
	}
	c.timers.set(&m.syncTimer, c.now.Mono.Add(millis(m.rebalanceMs())))
}

// cancelSync ends waiting for SyncGroup.
func (c *Coordinator) cancelSync(m *classic) {
	for _, n := range m.members {
		m.synced(n)
	}
	c.timers.cancel(&m.syncTimer)
}

// syncTimeIsUp removes the members that joined and did not sync.
func (c *Coordinator) syncTimeIsUp(m *classic) {
	if m.state != completingRebalance && m.state != stable || m.unsynced == 0 {
		return
	}
	for _, n := range slices.Clone(m.members) {
		if n.unsynced {
			c.remove(n)
		}
	}
	c.prepareRebalance(m)
}

func (c *Coordinator) restartSession(n *member) {
	c.timers.set(&n.session, c.now.Mono.Add(millis(n.sessionMs)))
}

// sessionIsUp removes a member that has not been heard of for too long. The
// session of one that waits begins again with its answer.
func (c *Coordinator) sessionIsUp(n *member) {
	if !n.satisfied() {
		c.expel(n)
	}
}

// expel removes a member and lets the others go on.
func (c *Coordinator) expel(n *member) {
	m := n.in
	c.answerJoin(n, func(w *waiter) { c.refuseJoin(w, "", kafka.ErrUnknownMemberID) })
	c.answerSync(n, func(w *waiter) { c.refuseSync(w, kafka.ErrUnknownMemberID) })
	c.remove(n)
	c.afterRemoval(m)
}

// afterRemoval lets a group go on without somebody.
func (c *Coordinator) afterRemoval(m *classic) {
	switch m.state {
	case stable, completingRebalance:
		c.rebalanceOrComplete(m)
	default:
		c.maybeCompleteWaiting(m)
	}
}
