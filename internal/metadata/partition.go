package metadata

import (
	"fmt"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// LeaderRecoveryState says whether the leader was elected uncleanly and must
// recover first (KIP-704).
type LeaderRecoveryState int8

// The recovery states, with Kafka's numbers.
const (
	Recovered  LeaderRecoveryState = 0
	Recovering LeaderRecoveryState = 1
)

// NoLeaderChange in PartitionChange.Leader leaves leader and leader epoch alone.
const NoLeaderChange kafka.NodeID = -2

// noRecoveryChange in PartitionChange.LeaderRecoveryState leaves it alone.
const noRecoveryChange = -1

// Partition is the state of one partition, spelled out. Slices must not be
// changed: they may be shared with the image.
type Partition struct {
	ID             kafka.PartitionID
	Leader         kafka.NodeID // kafka.NoNode when there is none
	LeaderEpoch    kafka.Epoch
	PartitionEpoch int32 // rises by one with each change
	Recovery       LeaderRecoveryState
	Replicas       []kafka.NodeID // in order of preference
	ISR            []kafka.NodeID // in-sync replicas
	ELR            []kafka.NodeID // eligible leader replicas (KIP-966)
	LastKnownELR   []kafka.NodeID
	Adding         []kafka.NodeID // of a reassignment under way
	Removing       []kafka.NodeID
	Directories    []kafka.DirectoryID // one per replica
}

// Reassigning tells whether a reassignment is under way.
func (p *Partition) Reassigning() bool { return len(p.Adding)+len(p.Removing) > 0 }

// Preferred is the replica that should lead, or NoNode.
func (p *Partition) Preferred() kafka.NodeID {
	if len(p.Replicas) == 0 {
		return kafka.NoNode
	}
	return p.Replicas[0]
}

// Directory is the directory of a replica; false if the node is none.
func (p *Partition) Directory(node kafka.NodeID) (kafka.DirectoryID, bool) {
	if i := slices.Index(p.Replicas, node); i >= 0 && i < len(p.Directories) {
		return p.Directories[i], true
	}
	return kafka.DirectoryID{}, false
}

// partitionOf reads a PartitionRecord (PartitionRegistration).
func partitionOf(m *record.Partition) (Partition, error) {
	p := Partition{
		ID: m.PartitionID, Leader: m.Leader, LeaderEpoch: m.LeaderEpoch, PartitionEpoch: m.PartitionEpoch,
		Recovery: LeaderRecoveryState(m.LeaderRecoveryState), Replicas: m.Replicas, ISR: m.ISR,
		ELR: m.EligibleLeaderReplicas, LastKnownELR: m.LastKnownELR,
		Adding: m.AddingReplicas, Removing: m.RemovingReplicas, Directories: m.Directories,
	}
	return p, p.complete()
}

// complete fills in missing directories and checks what records may get wrong.
func (p *Partition) complete() error {
	if len(p.Directories) == 0 && len(p.Replicas) > 0 {
		// Written before directories were known (DirectoryId.MIGRATING).
		p.Directories = make([]kafka.DirectoryID, len(p.Replicas))
		for i := range p.Directories {
			p.Directories[i] = kafka.DirectoryMigrating
		}
	}
	if len(p.Directories) != len(p.Replicas) {
		return fmt.Errorf("%d directories for %d replicas", len(p.Directories), len(p.Replicas))
	}
	if p.Recovery != Recovered && p.Recovery != Recovering {
		return fmt.Errorf("leader recovery state %d", p.Recovery)
	}
	return nil
}

// merge applies a PartitionChangeRecord. A leader that is given, even the same
// one, raises the leader epoch; every change raises the partition epoch.
func (p Partition) merge(m *record.PartitionChange) (Partition, error) {
	set := func(to *[]kafka.NodeID, from []kafka.NodeID) {
		if from != nil {
			*to = from
		}
	}
	migrating := p.allMigrating()
	set(&p.Replicas, m.Replicas)
	set(&p.ISR, m.ISR)
	set(&p.Removing, m.RemovingReplicas)
	set(&p.Adding, m.AddingReplicas)
	set(&p.ELR, m.EligibleLeaderReplicas)
	set(&p.LastKnownELR, m.LastKnownELR)
	switch {
	case m.Directories != nil:
		p.Directories = m.Directories
	case migrating:
		p.Directories = nil
	}
	if m.Leader != NoLeaderChange {
		p.Leader = m.Leader
		p.LeaderEpoch++
	}
	p.PartitionEpoch++
	if m.LeaderRecoveryState != noRecoveryChange {
		p.Recovery = LeaderRecoveryState(m.LeaderRecoveryState)
	}
	return p, p.complete()
}

// normalize puts the sets into the order of the replicas, so that equal states
// look the same; members that are no replicas follow by id.
func (p *Partition) normalize() {
	for _, set := range []*[]kafka.NodeID{&p.ISR, &p.ELR, &p.LastKnownELR} {
		if len(*set) == 0 {
			*set = nil
			continue
		}
		rank := func(n kafka.NodeID) int {
			if i := slices.Index(p.Replicas, n); i >= 0 {
				return i
			}
			return len(p.Replicas) + int(n)
		}
		sorted := slices.Clone(*set)
		slices.SortStableFunc(sorted, func(a, b kafka.NodeID) int { return rank(a) - rank(b) })
		*set = sorted
	}
}

func (p *Partition) allMigrating() bool {
	for _, d := range p.Directories {
		if d != kafka.DirectoryMigrating {
			return false
		}
	}
	return true
}

// toRecord is the inverse of partitionOf at level v.
func (p *Partition) toRecord(topic kafka.TopicID, v Version, elr bool) (*record.Partition, error) {
	m := record.NewPartition()
	m.PartitionID, m.TopicID = p.ID, topic
	m.Replicas, m.ISR, m.AddingReplicas, m.RemovingReplicas = p.Replicas, p.ISR, p.Adding, p.Removing
	m.Leader, m.LeaderEpoch, m.PartitionEpoch = p.Leader, p.LeaderEpoch, p.PartitionEpoch
	m.LeaderRecoveryState = int8(p.Recovery)
	if elr && v.CanUseELR() {
		if len(p.ELR) > 0 {
			m.EligibleLeaderReplicas = p.ELR
		}
		if len(p.LastKnownELR) > 0 {
			m.LastKnownELR = p.LastKnownELR
		}
	}
	if v.CanAssignDirectories() {
		m.Directories = p.Directories
	} else if !p.allMigrating() {
		return nil, fmt.Errorf("%w: directories of %s-%d at %s", ErrUnwritable, topic, p.ID, v)
	}
	return m, nil
}
