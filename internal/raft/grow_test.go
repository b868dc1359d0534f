package raft

import (
	"strings"
	"testing"
)

// A leader that was alone has no fetches to show when a second voter comes.
// Fails if appendVoters does not begin check-quorum anew: the leader would
// resign at once, before the new voter can fetch its record.
func TestQuorumOfOneGrows(t *testing.T) { runScript(t, "grow.txt") }

// Under kraft.version 0 voters are known without directory; after the upgrade
// they are voters still, not observers beside themselves. Fails if appendVoters
// keeps their progress.
func TestUpgradeLeavesNoObservers(t *testing.T) {
	s := newScript(t)
	for line := range strings.Lines(`new id=1 voters=1,2 state=1,-1,-1 port=9
start
tick
voted from=2 epoch=1 yes
voted from=2 epoch=2 yes
flushed seq=1 to=1/2
fetch from=2 dir=102 epoch=2 at=1/2
update from=2 epoch=2 port=7
upgrade level=1`) {
		s.run(strings.TrimSpace(line))
	}
	info := s.core.Describe(s.now)
	if info.KRaftVersion != 1 || len(info.Voters) != 2 || len(info.Observers) != 0 {
		t.Errorf("kraft.version %d, voters %+v, observers %+v", info.KRaftVersion, info.Voters, info.Observers)
	}
}
