package raft

import (
	"fmt"
	"math"

	"moldau/internal/kafka"
)

const (
	// lastEpoch is the last one that anybody may lead.
	lastEpoch kafka.Epoch = math.MaxInt32 - 1
	// farEpoch is one that no quorum reaches by elections: one a second takes
	// 34 years.
	farEpoch kafka.Epoch = 1 << 30
	// nearEpoch is how far beyond its own a replica in such a quorum believes.
	nearEpoch kafka.Epoch = 1 << 16
)

// PlausibleEpoch tells whether a replica at epoch own may believe what it did
// not ask for, a request or a file, that says that there is an epoch. Epochs
// never fall and end at 2³¹−1: one frame of a stranger, or one damaged file,
// could otherwise leave a quorum without any epoch to elect a leader for.
func PlausibleEpoch(epoch, own kafka.Epoch) bool {
	return epoch <= farEpoch || epoch <= lastEpoch && epoch-own <= nearEpoch
}

// exhausted ends a replica that would have to leave the last epoch.
func (c *Core) exhausted() bool {
	if c.election.Epoch < lastEpoch {
		return false
	}
	c.fatal(fmt.Errorf("epoch %d is the last one: no leader can be elected any more", c.election.Epoch))
	return true
}
