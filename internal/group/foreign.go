package group

import (
	"fmt"
	"maps"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// kind is the type of a group, as ListGroups names it.
type kind string

// The kinds of groups of Apache Kafka 4.4.
const (
	classicKind  kind = "classic"
	consumerKind kind = "consumer"
	shareKind    kind = "share"
	streamsKind  kind = "streams"
)

// foreign is a group of a kind that is kept and shown, but not served: a JVM
// that takes the partition over finds it as it was.
type foreign struct {
	kind    kind
	keys    map[string]record.Message // of its records that have a value, by their bytes
	epoch   int32
	target  int32 // epoch of the target assignment
	members map[string]*foreignMember
}

type foreignMember struct {
	known  bool  // has a record of its own
	epoch  int32 // of the current assignment
	topics []string
	regex  bool // subscribed by regular expression too
}

// foreignKey takes a key apart: the kind of group, its id, the member if there
// is one.
func foreignKey(key record.Message) (k kind, group, member string, ok bool) {
	switch m := key.(type) {
	case *record.ConsumerGroupMetadataKey:
		return consumerKind, m.GroupID, "", true
	case *record.ConsumerGroupPartitionMetadataKey:
		return consumerKind, m.GroupID, "", true
	case *record.ConsumerGroupMemberMetadataKey:
		return consumerKind, m.GroupID, m.MemberID, true
	case *record.ConsumerGroupTargetAssignmentMetadataKey:
		return consumerKind, m.GroupID, "", true
	case *record.ConsumerGroupTargetAssignmentMemberKey:
		return consumerKind, m.GroupID, m.MemberID, true
	case *record.ConsumerGroupCurrentMemberAssignmentKey:
		return consumerKind, m.GroupID, m.MemberID, true
	case *record.ConsumerGroupRegularExpressionKey:
		return consumerKind, m.GroupID, "", true
	case *record.ShareGroupMetadataKey:
		return shareKind, m.GroupID, "", true
	case *record.ShareGroupMemberMetadataKey:
		return shareKind, m.GroupID, m.MemberID, true
	case *record.ShareGroupTargetAssignmentMetadataKey:
		return shareKind, m.GroupID, "", true
	case *record.ShareGroupTargetAssignmentMemberKey:
		return shareKind, m.GroupID, m.MemberID, true
	case *record.ShareGroupCurrentMemberAssignmentKey:
		return shareKind, m.GroupID, m.MemberID, true
	case *record.ShareGroupStatePartitionMetadataKey:
		return shareKind, m.GroupID, "", true
	case *record.StreamsGroupMetadataKey:
		return streamsKind, m.GroupID, "", true
	case *record.StreamsGroupMemberMetadataKey:
		return streamsKind, m.GroupID, m.MemberID, true
	case *record.StreamsGroupTargetAssignmentMetadataKey:
		return streamsKind, m.GroupID, "", true
	case *record.StreamsGroupTargetAssignmentMemberKey:
		return streamsKind, m.GroupID, m.MemberID, true
	case *record.StreamsGroupCurrentMemberAssignmentKey:
		return streamsKind, m.GroupID, m.MemberID, true
	case *record.StreamsGroupTopologyKey:
		return streamsKind, m.GroupID, "", true
	}
	return "", "", "", false
}

// replayForeign keeps a record of another kind of group. Records may come in
// any order, and a tombstone may be the first (HC-102).
func (c *Coordinator) replayForeign(key, value record.Message) error {
	k, id, member, ok := foreignKey(key)
	if !ok {
		return fmt.Errorf("%w: %s in the log of groups", record.ErrUnsupported, key.Kind())
	}
	if g := c.groups[id]; value == nil && (g == nil || g.foreign == nil) {
		return nil
	}
	g := c.groupFor(id)
	was := g.foreign
	if c.active {
		g.foreign = was.clone() // it is rare, and can be taken back as a whole
		c.onRevert(func(kafka.ErrorCode) { g.foreign = was })
	}
	if g.foreign == nil || g.foreign.kind != k {
		g.foreign = &foreign{kind: k, keys: map[string]record.Message{}, members: map[string]*foreignMember{}}
	}
	g.foreign.replay(key, value, member)
	if len(g.foreign.keys) == 0 {
		g.foreign = nil
	}
	c.mayBeEmpty(g)
	return nil
}

func (f *foreign) clone() *foreign {
	if f == nil {
		return nil
	}
	n := *f
	n.keys, n.members = maps.Clone(f.keys), map[string]*foreignMember{}
	for id, m := range f.members {
		m := *m
		n.members[id] = &m
	}
	return &n
}

func (f *foreign) replay(key, value record.Message, member string) {
	bytes := string(record.AppendKey(nil, key))
	if value == nil {
		delete(f.keys, bytes)
	} else {
		f.keys[bytes] = key
	}
	switch v := value.(type) {
	case *record.ConsumerGroupMetadataValue:
		f.epoch = v.Epoch
	case *record.ShareGroupMetadataValue:
		f.epoch = v.Epoch
	case *record.StreamsGroupMetadataValue:
		f.epoch = v.Epoch
	case *record.ConsumerGroupTargetAssignmentMetadataValue:
		f.target = v.AssignmentEpoch
	case *record.ShareGroupTargetAssignmentMetadataValue:
		f.target = v.AssignmentEpoch
	case *record.StreamsGroupTargetAssignmentMetadataValue:
		f.target = v.AssignmentEpoch
	case *record.ConsumerGroupMemberMetadataValue:
		m := f.member(member)
		m.known, m.topics, m.regex = true, v.SubscribedTopicNames, v.SubscribedTopicRegex != nil && *v.SubscribedTopicRegex != ""
	case *record.ShareGroupMemberMetadataValue:
		m := f.member(member)
		m.known, m.topics = true, v.SubscribedTopicNames
	case *record.StreamsGroupMemberMetadataValue:
		m := f.member(member)
		m.known, m.regex = true, true // what it reads stands in its topology
	case *record.ConsumerGroupCurrentMemberAssignmentValue:
		f.member(member).epoch = v.MemberEpoch
	case *record.ShareGroupCurrentMemberAssignmentValue:
		f.member(member).epoch = v.MemberEpoch
	case *record.StreamsGroupCurrentMemberAssignmentValue:
		f.member(member).epoch = v.MemberEpoch
	case nil:
		f.forget(key, member)
	}
}

func (f *foreign) member(id string) *foreignMember {
	m := f.members[id]
	if m == nil {
		m = &foreignMember{epoch: -1}
		f.members[id] = m
	}
	return m
}

// forget takes in the tombstone of a member's record.
func (f *foreign) forget(key record.Message, member string) {
	m := f.members[member]
	if m == nil {
		return
	}
	switch key.(type) {
	case *record.ConsumerGroupMemberMetadataKey, *record.ShareGroupMemberMetadataKey, *record.StreamsGroupMemberMetadataKey:
		m.known = false
	case *record.ConsumerGroupCurrentMemberAssignmentKey, *record.ShareGroupCurrentMemberAssignmentKey, *record.StreamsGroupCurrentMemberAssignmentKey:
		m.epoch = -1
	}
	if !m.known && m.epoch == -1 {
		delete(f.members, member)
	}
}

func (f *foreign) isEmpty() bool {
	for _, m := range f.members {
		if m.known {
			return false
		}
	}
	return true
}

// state is what Kafka would call the group's state.
func (f *foreign) state() string {
	switch {
	case f.isEmpty():
		return "Empty"
	case f.kind == shareKind:
		return "Stable"
	case f.epoch > f.target:
		return "Assigning"
	}
	for _, m := range f.members {
		if m.known && m.epoch != f.target {
			return "Reconciling"
		}
	}
	return "Stable"
}

// protocol is the protocol type that ListGroups shows.
func (f *foreign) protocol() string {
	switch f.kind {
	case shareKind:
		return "share"
	case streamsKind:
		return "streams"
	}
	return consumerProtocol
}

// subscribed tells whether a member may read the topic.
func (f *foreign) subscribed(topic string) bool {
	for _, m := range f.members {
		if m.known && (m.regex || slices.Contains(m.topics, topic)) {
			return true
		}
	}
	return false
}

// commit checks who commits offsets to a group of another kind
// (ConsumerGroup.validateOffsetCommit): tools may while nobody is in it, a
// member in its epoch.
func (f *foreign) commit(member string, epoch int32) kafka.ErrorCode {
	if f.kind == shareKind {
		return kafka.ErrGroupIDNotFound
	}
	if epoch < 0 && f.isEmpty() {
		return 0
	}
	return f.check(member, epoch)
}

func (f *foreign) check(member string, epoch int32) kafka.ErrorCode {
	m := f.members[member]
	switch {
	case m == nil || !m.known:
		return kafka.ErrUnknownMemberID
	case m.epoch != epoch:
		return kafka.ErrStaleMemberEpoch
	}
	return 0
}

// bury writes tombstones for all records of the group: what depends on another
// record goes first.
func (c *Coordinator) bury(f *foreign) {
	list := slices.SortedFunc(maps.Keys(f.keys), func(a, b string) int {
		// Descending: members' assignments before members, the group last.
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	for _, k := range list {
		c.write(f.keys[k], nil, 0)
	}
}
