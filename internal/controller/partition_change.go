package controller

import (
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// election says who may become leader.
type election int8

const (
	electOnline    election = iota // keep the leader if it can lead
	electPreferred                 // the first replica if it can lead
	electUnclean                   // anybody alive if nobody in sync is
)

// partitionChange works out the record that leads from a partition to wanted
// sets, with the election that this asks for (PartitionChangeBuilder, KIP-966).
type partitionChange struct {
	topic      kafka.TopicID
	before     metadata.Partition
	acceptable func(kafka.NodeID) bool // may this broker lead?
	version    metadata.Version
	useELR     bool
	minISR     int
	election   election
	lostData   kafka.NodeID // restarted uncleanly: not eligible any more
	defaultDir func(kafka.NodeID) kafka.DirectoryID

	// What is wanted; the maker of the change sets these.
	isr, replicas, adding, removing, elr []kafka.NodeID
	recovery                             metadata.LeaderRecoveryState
	assigned                             kafka.NodeID // whose replica is in directory
	directory                            kafka.DirectoryID
}

// levelISRShrinkBump is the first level at which a smaller ISR alone does not
// raise the leader epoch (3.6-IV0).
const levelISRShrinkBump metadata.Version = 12

// build gives the record, or nil if nothing changes.
func (c *partitionChange) build() *record.PartitionChange {
	m := record.NewPartitionChange()
	m.TopicID, m.PartitionID = c.topic, c.before.ID
	c.completeReassignment()
	c.populateELR()
	c.elect(m)
	if m.Leader == metadata.NoLeaderChange && !containsAll(c.replicas, c.before.Replicas) {
		m.Leader = c.before.Leader // replicas went: raise the leader epoch
	}
	if m.ISR != nil || !c.useELR {
		c.elr = nil
	}
	if !slices.Equal(c.elr, c.before.ELR) {
		m.EligibleLeaderReplicas = orEmpty(c.elr)
	}
	if m.ISR == nil && (len(c.isr) > 0 || c.useELR) && !slices.Equal(c.isr, c.before.ISR) {
		m.ISR = orEmpty(c.isr)
	}
	if c.version < levelISRShrinkBump && m.Leader == metadata.NoLeaderChange && m.ISR != nil && !containsAll(m.ISR, c.before.ISR) {
		m.Leader = c.before.Leader // KAFKA-15021
	}
	c.lastKnownLeader(m)
	c.assignment(m)
	if c.recovery != c.before.Recovery {
		m.LeaderRecoveryState = int8(c.recovery)
	}
	if isNoOp(m) {
		return nil
	}
	return m
}

func isNoOp(m *record.PartitionChange) bool {
	return m.ISR == nil && m.EligibleLeaderReplicas == nil && m.LastKnownELR == nil && m.Leader == metadata.NoLeaderChange &&
		m.Replicas == nil && m.RemovingReplicas == nil && m.AddingReplicas == nil && m.LeaderRecoveryState == -1 && m.Directories == nil
}

// completeReassignment ends a reassignment when all its new replicas are in sync.
func (c *partitionChange) completeReassignment() {
	if len(c.adding)+len(c.removing) == 0 {
		return
	}
	leaving := func(n kafka.NodeID) bool { return slices.Contains(c.removing, n) }
	isr := slices.DeleteFunc(slices.Clone(c.isr), leaving)
	replicas := slices.DeleteFunc(slices.Clone(c.replicas), leaving)
	if len(isr) == 0 || len(replicas) == 0 || !containsAll(isr, replicas) {
		return
	}
	c.isr, c.replicas, c.adding, c.removing = isr, replicas, nil, nil
}

// populateELR: who leaves an ISR below the minimum stays eligible, except after
// an unclean restart.
func (c *partitionChange) populateELR() {
	if !c.useELR {
		return
	}
	if len(c.isr) >= c.minISR {
		c.elr = nil
		return
	}
	var elr []kafka.NodeID
	for _, n := range append(slices.Clone(c.before.Replicas), append(slices.Clone(c.elr), c.before.ISR...)...) {
		candidate := slices.Contains(c.elr, n) || slices.Contains(c.before.ISR, n)
		if candidate && !slices.Contains(c.isr, n) && n != c.lostData && !slices.Contains(elr, n) {
			elr = append(elr, n)
		}
	}
	c.elr = elr
}

// canLead: in sync, or eligible when nobody is in sync; and alive.
func (c *partitionChange) canLead(n kafka.NodeID) bool {
	in := slices.Contains(c.isr, n) || len(c.isr) == 0 && slices.Contains(c.elr, n)
	return in && c.acceptable(n)
}

// choose gives the leader to be, and whether data may be lost by that.
func (c *partitionChange) choose() (leader kafka.NodeID, unclean bool) {
	if c.election == electPreferred && len(c.replicas) > 0 && c.canLead(c.replicas[0]) {
		return c.replicas[0], false
	}
	if c.canLead(c.before.Leader) {
		return c.before.Leader, false
	}
	if i := slices.IndexFunc(c.replicas, c.canLead); i >= 0 {
		return c.replicas[i], false
	}
	if c.useELR && len(c.isr)+len(c.elr) == 0 && len(c.before.LastKnownELR) == 1 && c.acceptable(c.before.LastKnownELR[0]) {
		return c.before.LastKnownELR[0], true
	}
	if c.election == electUnclean {
		if i := slices.IndexFunc(c.replicas, c.acceptable); i >= 0 {
			return c.replicas[i], true
		}
	}
	return kafka.NoNode, false
}

func (c *partitionChange) elect(m *record.PartitionChange) {
	leader, unclean := c.choose()
	if leader == c.before.Leader {
		return
	}
	if slices.Contains(c.elr, leader) {
		c.isr = []kafka.NodeID{leader}
		c.elr = without(c.elr, leader)
	}
	m.Leader = leader
	if unclean {
		m.ISR = []kafka.NodeID{leader}
		if c.before.Recovery != metadata.Recovering {
			m.LeaderRecoveryState = int8(metadata.Recovering)
		}
	}
}

// lastKnownLeader remembers who led last while nobody does.
func (c *partitionChange) lastKnownLeader(m *record.PartitionChange) {
	switch {
	case !c.useELR:
	case m.Leader == kafka.NoNode && len(c.before.LastKnownELR) == 0:
		m.LastKnownELR = []kafka.NodeID{c.before.Leader}
	case m.Leader >= 0 && len(c.before.LastKnownELR) > 0:
		m.LastKnownELR = []kafka.NodeID{}
	}
}

func (c *partitionChange) assignment(m *record.PartitionChange) {
	if len(c.replicas) > 0 && !slices.Equal(c.replicas, c.before.Replicas) {
		m.Replicas = c.replicas
	}
	if c.version.CanAssignDirectories() && len(c.replicas) > 0 {
		dirs := make([]kafka.DirectoryID, len(c.replicas))
		for i, n := range c.replicas {
			dir, ok := c.before.Directory(n)
			if n == c.assigned {
				dir = c.directory
			} else if !ok {
				dir = c.defaultDir(n)
			}
			dirs[i] = dir
		}
		if !slices.Equal(dirs, c.before.Directories) {
			m.Directories = dirs
		}
	}
	if !slices.Equal(c.removing, c.before.Removing) {
		m.RemovingReplicas = orEmpty(c.removing)
	}
	if !slices.Equal(c.adding, c.before.Adding) {
		m.AddingReplicas = orEmpty(c.adding)
	}
}

// orEmpty makes a list that is written even when it is empty.
func orEmpty(list []kafka.NodeID) []kafka.NodeID {
	if list == nil {
		return []kafka.NodeID{}
	}
	return list
}

func containsAll(list, all []kafka.NodeID) bool {
	for _, n := range all {
		if !slices.Contains(list, n) {
			return false
		}
	}
	return true
}
