package replica

import (
	"slices"

	"moldau/internal/kafka"
)

// Role is what this broker is for the partition.
type Role uint8

// The roles. A partition that was just opened has none.
const (
	None Role = iota
	Leader
	Follower
)

// Assignment is what the metadata says about the partition.
type Assignment struct {
	Leader      kafka.NodeID
	LeaderEpoch kafka.Epoch
	Replicas    []kafka.NodeID
	ISR         []kafka.NodeID
	// MinInSync is min.insync.replicas of the topic.
	MinInSync int
}

// State is the replica on this broker.
type State struct {
	self   kafka.NodeID
	role   Role
	assign Assignment
	end    kafka.Offset // own log end
	hw     kafka.Offset
}

// New makes the state of a log that ends at end and whose high watermark was
// last known as hw.
func New(self kafka.NodeID, hw, end kafka.Offset) State {
	return State{
		self: self, hw: min(max(hw, 0), end), end: end,
		assign: Assignment{Leader: kafka.NoNode, LeaderEpoch: kafka.NoEpoch},
	}
}

// Assign takes in the metadata's newest word. It reports whether this broker
// now leads in an epoch in which it did not lead before.
func (s *State) Assign(a Assignment) (newLeadership bool) {
	was := s.role == Leader && s.assign.LeaderEpoch == a.LeaderEpoch
	s.assign = a
	switch {
	case a.Leader == s.self:
		s.role = Leader
		s.advance()
		return !was
	case slices.Contains(a.Replicas, s.self):
		s.role = Follower
	default:
		s.role = None
	}
	return false
}

// Appended says that the leader's log reaches to end at least, and that readers
// may see it. It reports whether the high watermark rose.
func (s *State) Appended(end kafka.Offset) bool {
	s.end = max(s.end, end)
	return s.advance()
}

// Truncated says that the log was cut at end.
func (s *State) Truncated(end kafka.Offset) {
	s.end, s.hw = end, min(s.hw, end)
}

// LogStart says that everything below start is gone; the high watermark is
// never below it.
func (s *State) LogStart(start kafka.Offset) { s.hw = max(s.hw, min(start, s.end)) }

// advance raises the high watermark to the end of the in-sync replica that has
// least. Others than the leader reveal their ends by fetching, which comes with
// replication; until one has, it counts as having nothing new. Below the minimum
// nothing is committed: who is eligible to lead must have all that is (HC-059).
func (s *State) advance() bool {
	if s.role != Leader || !s.EnoughInSync(s.assign.MinInSync) || slices.ContainsFunc(s.assign.ISR, func(id kafka.NodeID) bool { return id != s.self }) {
		return false
	}
	if s.end <= s.hw {
		return false
	}
	s.hw = s.end
	return true
}

// Role is what this broker is now.
func (s *State) Role() Role { return s.role }

// Assignment is the metadata's newest word. Its slices must not be changed.
func (s *State) Assignment() Assignment { return s.assign }

// HighWatermark is the offset below which records are committed.
func (s *State) HighWatermark() kafka.Offset { return s.hw }

// EnoughInSync tells whether a produce with acks=all may be taken: the in-sync
// set is at least min.insync.replicas, or all replicas if there are fewer
// (Partition.effectiveMinIsr).
func (s *State) EnoughInSync(minInSync int) bool {
	return len(s.assign.ISR) >= min(minInSync, len(s.assign.Replicas))
}
