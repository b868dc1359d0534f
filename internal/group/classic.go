package group

import (
	"fmt"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// state is the state of a classic group, by the name that tools show.
type state string

// The states (ClassicGroupState).
const (
	empty               state = "Empty"
	preparingRebalance  state = "PreparingRebalance"
	completingRebalance state = "CompletingRebalance"
	stable              state = "Stable"
)

// dead is the state that DescribeGroups shows for a group that does not exist.
const dead = "Dead"

// consumerProtocol is the protocol type of consumers.
const consumerProtocol = "consumer"

// classic is the membership of a classic group (ClassicGroup). It is soft: from
// the log comes only what a new coordinator takes over.
type classic struct {
	g *group

	state    state
	previous state
	sinceMs  kafka.WallMs // in this state; NoTimestamp: not known

	protocolType string  // "": none yet
	protocol     *string // of the generation; nil: none
	generation   int32
	leader       string // "": none

	members     []*member // in the order in which they came
	byID        map[string]*member
	static      map[string]*member // by group.instance.id
	joining     map[string]*timer  // ids handed out and not yet used (KIP-394)
	awaiting    int                // members that wait for the generation
	supported   map[string]int     // protocol → how many members know it
	unsynced    int                // members that have not synced in this generation
	topics      map[string]bool    // subscribed; nil: not known
	joinTimer   timer              // ends PreparingRebalance
	syncTimer   timer              // ends waiting for SyncGroup
	newMember   bool               // came while the first rebalance waits
	initialLeft int32              // ms that the first rebalance may still be put off
}

// member is one member of a classic group.
type member struct {
	in         *classic
	id         string
	instanceID *string
	clientID   string
	host       string

	rebalanceMs int32
	sessionMs   int32
	protocols   []protocol
	assignment  []byte

	isNew    bool    // has not seen a generation yet: its session ends even while it waits
	join     *waiter // JoinGroup that waits
	sync     *waiter // SyncGroup that waits
	unsynced bool
	session  timer
}

// protocol is an assignor, and what the member says to it.
type protocol struct {
	name     string
	metadata []byte
}

// waiter is a request that is answered later.
type waiter struct {
	token   uint64
	version int16
}

func newClassic(g *group, nowMs kafka.WallMs) *classic {
	m := &classic{
		g: g, state: empty, sinceMs: nowMs,
		byID: map[string]*member{}, static: map[string]*member{}, joining: map[string]*timer{}, supported: map[string]int{},
	}
	m.joinTimer.fire = func(c *Coordinator) { c.joinTimeIsUp(m) }
	m.syncTimer.fire = func(c *Coordinator) { c.syncTimeIsUp(m) }
	return m
}

// classicOf gives the membership of a group, from the log if it is not there.
func (c *Coordinator) classicOf(g *group) *classic {
	if g.classic == nil {
		g.classic = newClassic(g, c.now.Wall)
		if g.saved != nil {
			g.classic.load(g.saved)
		}
	}
	return g.classic
}

// seen gives the membership of a group to be looked at only. That of a group in
// which nobody is may be made for the moment.
func (g *group) seen() *classic {
	if g.classic != nil {
		return g.classic
	}
	m := &classic{g: g, state: empty, sinceMs: kafka.NoTimestamp}
	if g.saved != nil {
		m.sinceMs, m.generation, m.protocolType = g.saved.CurrentStateTimestamp, g.saved.Generation, g.saved.ProtocolType
	}
	m.topics = m.subscriptions()
	return m
}

// load takes over the generation that the log holds
// (GroupMetadataManager.replay).
func (m *classic) load(v *record.GroupMetadataValue) {
	m.sinceMs, m.generation, m.protocolType, m.protocol = v.CurrentStateTimestamp, v.Generation, v.ProtocolType, v.Protocol
	if v.Leader != nil {
		m.leader = *v.Leader
	}
	chosen := ""
	if v.Protocol != nil {
		chosen = *v.Protocol
	}
	for i := range v.Members {
		r := &v.Members[i]
		n := &member{
			id: r.MemberID, instanceID: r.GroupInstanceID, clientID: r.ClientID, host: r.ClientHost,
			rebalanceMs: r.RebalanceTimeout, sessionMs: r.SessionTimeout,
			protocols: []protocol{{name: chosen, metadata: r.Subscription}}, assignment: r.Assignment,
		}
		if n.rebalanceMs == -1 {
			n.rebalanceMs = n.sessionMs
		}
		m.add(n, nil)
	}
	if len(m.members) > 0 {
		m.state = stable
	}
	m.topics = m.subscriptions()
}

// idle tells whether nobody is in the group or about to be.
func (m *classic) idle() bool { return m.state == empty && len(m.members) == 0 && len(m.joining) == 0 }

func (m *classic) moveTo(s state, nowMs kafka.WallMs) {
	valid := map[state][]state{
		empty:               {preparingRebalance},
		preparingRebalance:  {stable, completingRebalance, empty},
		completingRebalance: {preparingRebalance},
		stable:              {completingRebalance},
	}
	if !slices.Contains(valid[s], m.state) {
		panic(fmt.Sprintf("group %q goes from %s to %s", m.g.id, m.state, s))
	}
	m.previous, m.state, m.sinceMs = m.state, s, nowMs
}

// supports tells whether a member with these protocols can be in the group.
func (m *classic) supports(protocolType string, list []protocol) bool {
	if m.state == empty {
		return protocolType != "" && len(list) > 0
	}
	return m.protocolType == protocolType && slices.ContainsFunc(list, func(p protocol) bool {
		return m.supported[p.name] == len(m.members)
	})
}

func (m *classic) add(n *member, w *waiter) {
	n.in = m
	n.session.fire = func(c *Coordinator) { c.sessionIsUp(n) }
	if n.instanceID != nil {
		m.static[*n.instanceID] = n
	}
	if m.leader == "" {
		m.leader = n.id
	}
	m.members = append(m.members, n)
	m.byID[n.id] = n
	m.count(n, 1)
	m.await(n, w)
}

// await sets or clears the JoinGroup that waits.
func (m *classic) await(n *member, w *waiter) {
	switch {
	case w != nil && n.join == nil:
		m.awaiting++
	case w == nil && n.join != nil:
		m.awaiting--
	}
	n.join = w
}

// count adds n's protocols to those that members support, or takes them away.
func (m *classic) count(n *member, by int) {
	for _, p := range n.protocols {
		if m.supported[p.name] += by; m.supported[p.name] == 0 {
			delete(m.supported, p.name)
		}
	}
}

// remove takes a member out; the caller has answered what it waits for.
func (c *Coordinator) remove(n *member) {
	m := n.in
	c.timers.cancel(&n.session)
	m.count(n, -1)
	m.await(n, nil)
	m.synced(n)
	m.members = slices.DeleteFunc(m.members, func(x *member) bool { return x == n })
	delete(m.byID, n.id)
	if n.instanceID != nil {
		delete(m.static, *n.instanceID)
	}
	if m.leader == n.id {
		m.leader = ""
		if len(m.members) > 0 {
			m.leader = m.members[0].id
		}
	}
}

// removeJoining forgets an id that was handed out.
func (c *Coordinator) removeJoining(m *classic, id string) {
	if t := m.joining[id]; t != nil {
		c.timers.cancel(t)
		delete(m.joining, id)
	}
}

// synced counts a member as having sent SyncGroup.
func (m *classic) synced(n *member) {
	if n.unsynced {
		n.unsynced = false
		m.unsynced--
	}
}

func (m *classic) allJoined() bool { return m.awaiting == len(m.members) && len(m.joining) == 0 }

// rebalanceMs is how long a rebalance may take: the longest that a member asks for.
func (m *classic) rebalanceMs() int32 {
	longest := int32(0)
	for _, n := range m.members {
		longest = max(longest, n.rebalanceMs)
	}
	return longest
}

// electJoined makes sure that the leader is among those that wait for the
// generation; it reports false if nobody waits.
func (m *classic) electJoined() bool {
	if m.leader == "" {
		return false
	}
	if l := m.byID[m.leader]; l != nil && l.join != nil {
		return true
	}
	for _, n := range m.members {
		if n.join != nil {
			m.leader = n.id
			return true
		}
	}
	return false
}

// selectProtocol lets each member vote for the first of its protocols that all
// know. Most votes win; of equal ones, the one that was voted for first (HC-099).
func (m *classic) selectProtocol() string {
	votes := map[string]int{}
	var order []string
	for _, n := range m.members {
		for _, p := range n.protocols {
			if m.supported[p.name] == len(m.members) {
				if votes[p.name]++; votes[p.name] == 1 {
					order = append(order, p.name)
				}
				break
			}
		}
	}
	best := ""
	for _, name := range order {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// metadata is what the member says to the chosen protocol.
func (n *member) metadata(name *string) []byte {
	if name == nil {
		return nil
	}
	for _, p := range n.protocols {
		if p.name == *name {
			return p.metadata
		}
	}
	return nil
}

func (n *member) matches(list []protocol) bool {
	return slices.EqualFunc(n.protocols, list, func(a, b protocol) bool {
		return a.name == b.name && string(a.metadata) == string(b.metadata)
	})
}

// satisfied: a member that waits for an answer needs no heartbeats, unless it is
// new: its client may be gone without a trace.
func (n *member) satisfied() bool { return !n.isNew && (n.join != nil || n.sync != nil) }

// check finds the member that a request speaks for
// (ClassicGroup.validateMember).
func (m *classic) check(id string, instanceID *string) (*member, kafka.ErrorCode) {
	if instanceID != nil {
		switch n := m.static[*instanceID]; {
		case n == nil:
			return nil, kafka.ErrUnknownMemberID
		case n.id != id:
			return nil, kafka.ErrFencedInstanceID
		}
	}
	if n := m.byID[id]; n != nil {
		return n, 0
	}
	return nil, kafka.ErrUnknownMemberID
}

// record is the generation as the log keeps it.
func (m *classic) record() *record.GroupMetadataValue {
	v := record.NewGroupMetadataValue()
	v.ProtocolType, v.Generation, v.Protocol, v.CurrentStateTimestamp = m.protocolType, m.generation, m.protocol, m.sinceMs
	if m.leader != "" {
		leader := m.leader
		v.Leader = &leader
	}
	for _, n := range m.members {
		v.Members = append(v.Members, record.MemberMetadata{
			MemberID: n.id, GroupInstanceID: n.instanceID, ClientID: n.clientID, ClientHost: n.host,
			RebalanceTimeout: n.rebalanceMs, SessionTimeout: n.sessionMs,
			Subscription: n.metadata(m.protocol), Assignment: n.assignment,
		})
	}
	return v
}

// groupMetadataVersion is the version that Kafka 4.4 writes.
const groupMetadataVersion = 3

func (c *Coordinator) writeGroup(id string, v *record.GroupMetadataValue) {
	c.write(&record.GroupMetadataKey{Group: id}, v, groupMetadataVersion)
}
