package raft

import (
	"fmt"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// ReplicaKey identifies a replica: node and the disk that holds its log
// (KIP-853). A zero Dir is an unknown directory, as in quorums of
// kraft.version 0.
type ReplicaKey struct {
	ID  kafka.NodeID
	Dir kafka.DirectoryID
}

// NoReplica stands for "nobody", e.g. no vote given.
var NoReplica = ReplicaKey{ID: kafka.NoNode}

// String gives "1" or "1@directory".
func (k ReplicaKey) String() string {
	if k.Dir == (kafka.DirectoryID{}) {
		return fmt.Sprint(k.ID)
	}
	return fmt.Sprintf("%d@%s", k.ID, k.Dir)
}

// Voter is one member of a voter set.
type Voter struct {
	Key       ReplicaKey
	Endpoints []kafka.Endpoint // controller listeners, the default one first
	// MinKRaft and MaxKRaft bound the kraft.version that the node supports.
	MinKRaft, MaxKRaft int16
}

// equal compares what a VotersRecord holds: of endpoints neither the security
// protocol nor, to Kafka, the order.
func (v Voter) equal(o Voter) bool {
	if v.Key != o.Key || v.MinKRaft != o.MinKRaft || v.MaxKRaft != o.MaxKRaft || len(v.Endpoints) != len(o.Endpoints) {
		return false
	}
	return !slices.ContainsFunc(v.Endpoints, func(a kafka.Endpoint) bool {
		return !slices.ContainsFunc(o.Endpoints, func(b kafka.Endpoint) bool {
			return a.Name == b.Name && a.Host == b.Host && a.Port == b.Port
		})
	})
}

// matches tells whether key is this voter. A voter without directory id is
// matched by its node id alone (VoterSet.VoterNode.isVoter).
func (v Voter) matches(key ReplicaKey) bool {
	return v.Key.ID == key.ID && (v.Key.Dir == (kafka.DirectoryID{}) || v.Key.Dir == key.Dir)
}

// VoterSet is an immutable set of voters, ordered by node id. The zero value is
// the empty set: nobody can be elected.
type VoterSet struct{ voters []Voter }

// NewVoterSet makes a set. It reports an error for two voters of one node id.
func NewVoterSet(voters ...Voter) (VoterSet, error) {
	s := slices.Clone(voters)
	slices.SortFunc(s, func(a, b Voter) int { return int(a.Key.ID) - int(b.Key.ID) })
	for i := 1; i < len(s); i++ {
		if s[i].Key.ID == s[i-1].Key.ID {
			return VoterSet{}, fmt.Errorf("voter set names node %d twice", s[i].Key.ID)
		}
	}
	return VoterSet{s}, nil
}

// Len is the number of voters.
func (s VoterSet) Len() int { return len(s.voters) }

// Majority is the number of voters that decides.
func (s VoterSet) Majority() int { return len(s.voters)/2 + 1 }

// All gives the voters in the order of their ids; the slice must not be changed.
func (s VoterSet) All() []Voter { return s.voters }

// Find gives the voter with the node id.
func (s VoterSet) Find(id kafka.NodeID) (Voter, bool) {
	for _, v := range s.voters {
		if v.Key.ID == id {
			return v, true
		}
	}
	return Voter{}, false
}

// Contains tells whether the replica, node and directory, is a voter.
func (s VoterSet) Contains(key ReplicaKey) bool {
	v, ok := s.Find(key.ID)
	return ok && v.matches(key)
}

// with gives the set in which v replaces the voter of the same node id.
func (s VoterSet) with(v Voter) VoterSet {
	c := slices.Clone(s.voters)
	for i := range c {
		if c[i].Key.ID == v.Key.ID {
			c[i] = v
		}
	}
	return VoterSet{c}
}

// without gives the set that lacks the voter with exactly this key. It reports
// false if there is none, or nobody would be left (VoterSet.removeVoter).
func (s VoterSet) without(key ReplicaKey) (VoterSet, bool) {
	i := slices.IndexFunc(s.voters, func(v Voter) bool { return v.Key == key })
	if i < 0 || len(s.voters) == 1 {
		return s, false
	}
	return VoterSet{slices.Delete(slices.Clone(s.voters), i, i+1)}, true
}

// equal compares all that is known of all members.
func (s VoterSet) equal(o VoterSet) bool { return slices.EqualFunc(s.voters, o.voters, Voter.equal) }

// String lists the members, e.g. "{1, 2@dir}".
func (s VoterSet) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range s.voters {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(v.Key.String())
	}
	b.WriteByte('}')
	return b.String()
}

// Control is a control record that the core follows: a VotersRecord or a
// KRaftVersionRecord. Offset is that of the record; −1 for what is known only
// from the 0-0 checkpoint or the configuration (Trap 5), and the last offset
// that a snapshot contains for what came from that snapshot.
type Control struct {
	Offset kafka.Offset
	Voters *VoterSet // nil: a KRaftVersionRecord
	KRaft  int16     // kraft.version, if Voters is nil
}

// history remembers voter sets and kraft versions by offset, so that they act
// when appended and fall with the log when it is cut (HC-024, HC-027).
type history struct{ entries []Control }

func (h *history) add(c ...Control) { h.entries = append(h.entries, c...) }

// truncate forgets records at and beyond offset to.
func (h *history) truncate(to kafka.Offset) {
	for len(h.entries) > 0 && h.entries[len(h.entries)-1].Offset >= max(to, 0) {
		h.entries = h.entries[:len(h.entries)-1]
	}
}

// reset forgets the log's records for those of a snapshot. What the
// configuration says stays, since snapshots of kraft.version 0 hold no voters.
func (h *history) reset(snapshot []Control) {
	h.truncate(0)
	h.add(snapshot...)
}

// compact forgets records whose effect a snapshot that ends at end contains
// and that a later one, also contained, has replaced.
func (h *history) compact(end kafka.Offset) {
	keep := h.entries[:0]
	for i, c := range h.entries {
		replaced := slices.ContainsFunc(h.entries[i+1:], func(l Control) bool {
			return l.Offset < end && (l.Voters == nil) == (c.Voters == nil)
		})
		if !replaced {
			keep = append(keep, c)
		}
	}
	h.entries = keep
}

// votersAt gives the voter set in force for records up to offset at, and the
// offset of its record.
func (h *history) votersAt(at kafka.Offset) (VoterSet, kafka.Offset) {
	for i := len(h.entries) - 1; i >= 0; i-- {
		if c := h.entries[i]; c.Voters != nil && c.Offset <= at {
			return *c.Voters, c.Offset
		}
	}
	return VoterSet{}, kafka.NoOffset
}

// kraftAt gives the kraft.version in force for records up to offset at.
func (h *history) kraftAt(at kafka.Offset) int16 {
	for i := len(h.entries) - 1; i >= 0; i-- {
		if c := h.entries[i]; c.Voters == nil && c.Offset <= at {
			return c.KRaft
		}
	}
	return 0
}
