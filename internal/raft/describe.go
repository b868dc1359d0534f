package raft

import (
	"slices"

	"moldau/internal/kafka"
)

// ReplicaInfo is a replica as the leader sees it, for DescribeQuorum.
type ReplicaInfo struct {
	Key          ReplicaKey
	EndOffset    kafka.Offset // NoOffset if not known
	LastFetchMs  kafka.WallMs // NoTimestamp if it never fetched
	LastCaughtMs kafka.WallMs
}

// Info describes the quorum. Voters and Observers carry positions only at the
// leader.
type Info struct {
	Role          Role
	Leader        kafka.NodeID
	Epoch         kafka.Epoch
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
	EndOffset     kafka.Offset
	Voters        []ReplicaInfo
	VoterSet      VoterSet
	Observers     []ReplicaInfo
	KRaftVersion  int16
}

// Describe gives a copy of what is known of the quorum at now.
func (c *Core) Describe(now kafka.Now) Info {
	info := Info{
		Role: c.role, Leader: c.election.Leader, Epoch: c.election.Epoch,
		HighWatermark: c.hw, LogStart: c.log.start.Offset, EndOffset: c.log.end, VoterSet: c.voters(), KRaftVersion: c.KRaftVersion(),
	}
	for _, v := range info.VoterSet.All() {
		r := ReplicaInfo{Key: v.Key, EndOffset: kafka.NoOffset, LastFetchMs: kafka.NoTimestamp, LastCaughtMs: kafka.NoTimestamp}
		if c.lead != nil && v.matches(c.opts.Self) {
			r = ReplicaInfo{Key: c.opts.Self, EndOffset: c.log.end, LastFetchMs: now.Wall, LastCaughtMs: now.Wall}
		} else if c.lead != nil {
			for key, p := range c.lead.replicas {
				if v.matches(key) {
					r = p.info()
				}
			}
		}
		info.Voters = append(info.Voters, r)
	}
	if c.lead == nil {
		return info
	}
	for key, p := range c.lead.replicas {
		if !info.VoterSet.Contains(key) && now.Mono.Sub(p.lastFetch.Mono) < replicaSession {
			info.Observers = append(info.Observers, p.info())
		}
	}
	slices.SortFunc(info.Observers, func(a, b ReplicaInfo) int { return int(a.Key.ID) - int(b.Key.ID) })
	return info
}

func (p *progress) info() ReplicaInfo {
	return ReplicaInfo{Key: p.key, EndOffset: p.end, LastFetchMs: p.lastFetch.Wall, LastCaughtMs: p.caughtUp}
}

// Role is what the replica does now.
func (c *Core) Role() Role { return c.role }

// Election is the state that quorum-state holds after the last Step's effects.
func (c *Core) Election() ElectionState { return c.election }

// EndOffset is where the next record goes.
func (c *Core) EndOffset() kafka.Offset { return c.log.end }

// FlushedOffset is the end of what is known to be on disk.
func (c *Core) FlushedOffset() kafka.Offset { return c.log.flushed }

// HighWatermark is the end of what is known to be committed, NoOffset while
// that is unknown (Trap 6).
func (c *Core) HighWatermark() kafka.Offset { return c.hw }

// EpochAt is the epoch of the record at offset o of the log.
func (c *Core) EpochAt(o kafka.Offset) kafka.Epoch { return c.log.epochBefore(o + 1) }

// KRaftVersion is the kraft.version in force.
func (c *Core) KRaftVersion() int16 { return c.history.kraftAt(c.log.end) }

// VotersAt gives the voter set and kraft.version that a snapshot ending at end
// must carry (HC-027).
func (c *Core) VotersAt(end kafka.Offset) (VoterSet, int16) {
	set, _ := c.history.votersAt(end - 1)
	return set, c.history.kraftAt(end - 1)
}
