package raft

import (
	"fmt"
	"strings"
	"testing"

	"moldau/internal/kafka"
)

// Each comment names the one-line change that makes the script fail.

// Fails if positionOnDisk always says true.
func TestHC001FetchAndCommitOnlyWhatIsOnDisk(t *testing.T) { runScript(t, "hc001.txt") }

// Fails if sendVotes does not ask positionOnDisk.
func TestHC001VotesAreAskedForWhatIsOnDisk(t *testing.T) { runScript(t, "hc001vote.txt") }

// Fails if advance compares with `majority < c.lead.start`.
func TestHC003OldEpochIsNotCommittedByCounting(t *testing.T) { runScript(t, "hc003.txt") }

// Fails if start drops the case of el.Leader == self.ID.
func TestHC004FormerLeaderNeedsNewEpoch(t *testing.T) { runScript(t, "hc004.txt") }

// Fails if becomeUnattached drops Voted within the same epoch.
func TestHC005OneVotePerEpoch(t *testing.T) { runScript(t, "hc005.txt") }

// Fails if start drops the case of an epoch below the log's.
func TestHC006MissingQuorumState(t *testing.T) { runScript(t, "hc006.txt") }

// Fails if expireLeader drops !c.onlyVoter().
func TestHC008QuorumOfOne(t *testing.T) { runScript(t, "hc008.txt") }

// Fails if handleVote resets c.timer after a granted pre-vote.
func TestHC009PreVoteLeavesTimersAlone(t *testing.T) { runScript(t, "hc009.txt") }

// Fails if becomeCandidate keeps the old nominee.
func TestHC010GrantsDieWithTheirCandidacy(t *testing.T) { runScript(t, "hc010.txt") }

// Fails if diverged does not compare with c.hw.
func TestHC012NoCutBelowHighWatermark(t *testing.T) { runScript(t, "hc012.txt") }

// Fails if handleResponse does not compare p.pending with r.ID.
func TestHC013StaleAnswersAreIgnored(t *testing.T) { runScript(t, "hc013.txt") }

// Fails if logView.truncate leaves flight alone.
func TestHC014StaleFlushCompletion(t *testing.T) { runScript(t, "hc014.txt") }

// Fails if enter does not tell Resigned.
func TestHC015LostLeadershipIsTold(t *testing.T) { runScript(t, "hc015.txt") }

// Fails if propose does not ask for c.lead.led.
func TestHC016LedOnlyAfterOwnEpochCommit(t *testing.T) { runScript(t, "hc016.txt") }

// Fails if answerParked does not look at the high watermark.
func TestHC017HighWatermarkWakesFetch(t *testing.T) { runScript(t, "hc017.txt") }

// Fails if handleVote asks whether the candidate is a voter.
func TestHC021UnknownCandidate(t *testing.T) { runScript(t, "hc021.txt") }

// Fails if contact counts who is no voter (mutant_observers_keep).
func TestHC022ObserversDoNotKeepALeader(t *testing.T) { runScript(t, "hc022.txt") }

// Fails if endBackoff ignores the place.
func TestHC023HandOver(t *testing.T) { runScript(t, "hc023.txt") }

// Fails if leaderChange does not look at the offset of the voter set.
func TestTrap5FirstLeaderWritesVoters(t *testing.T) { runScript(t, "trap5.txt") }

// Fails if New begins with hw = end.
func TestTrap6TailIsUncommittedUntilLearnt(t *testing.T) { runScript(t, "trap6.txt") }

// Fails if connectionLost leaves follow.fetched set.
func TestTrap16ConnectionLossMeetsPreVote(t *testing.T) { runScript(t, "trap16.txt") }

// Fails if votersAt ignores a set that is not committed.
func TestHC024VotersActWhenAppended(t *testing.T) { runScript(t, "hc024.txt") }

// Fails if changeable does not ask for c.lead.led.
func TestHC025NoChangeBeforeOwnEpochCommit(t *testing.T) { runScript(t, "hc025.txt") }

// Fails if changeable does not compare with c.hw.
func TestHC026OneChangeAtATime(t *testing.T) { runScript(t, "hc026.txt") }

// Fails if diverged does not truncate the history, or membership leaves timers alone.
func TestHC027VotersFallAndTimersFollow(t *testing.T) { runScript(t, "hc027.txt") }

// Fails if changeCommitted does not resign, or advance counts the leader anyway.
func TestHC028LeaderRemovesItself(t *testing.T) { runScript(t, "hc028.txt") }

// A leadership that begins and ends in one step was none: an application told of
// the end first and of the beginning afterwards would act for ever.
func TestHC028RemovedBeforeItLed(t *testing.T) { runScript(t, "hc028late.txt") }

// Fails if position or contact look at replicas that are no voters.
func TestHC029RemovedNodesDoNotCount(t *testing.T) { runScript(t, "hc029.txt") }

// Fails if Voter.matches compares the id alone, or wouldGrant does not ask whether
// any voters are known.
func TestHC031SameNodeOtherDisk(t *testing.T) { runScript(t, "hc031.txt") }

// Fails if snapshotResponse does not compare the position.
func TestHC037SnapshotDownload(t *testing.T) { runScript(t, "hc037.txt") }

// Fails if enter keeps the download.
func TestTrap7DownloadBelongsToOneLeader(t *testing.T) { runScript(t, "trap7.txt") }

// AddVoter and RemoveVoter: what is refused, and how a change ends.
func TestVoterChanges(t *testing.T) { runScript(t, "voters.txt") }

// UpdateVoter, both sides. Fails, among others, if tellLeader does not ask
// whether there is anything to tell (HC-018).
func TestUpdateVoter(t *testing.T) { runScript(t, "update.txt") }

// Fails if handleUpgrade does not ask for every voter's word (Trap 17).
func TestTrap17UpgradeOfKRaftVersion(t *testing.T) { runScript(t, "upgrade.txt") }

// Fails if wants drops the case of a former disk.
func TestAutoJoin(t *testing.T) { runScript(t, "join.txt") }

// Fails if a candidate that has lost waits for its whole timeout, or one that
// was refused forgets that the leader is gone.
func TestElectionsAreRetriedSoon(t *testing.T) { runScript(t, "retry.txt") }

// One frame of a stranger, or a damaged file, must not take a quorum to an
// epoch that has none after it. Fails if handleVote or checkLeaderRequest does
// not ask PlausibleEpoch, and panics if becomeCandidate does not ask exhausted.
func TestFarEpochsAreNotBelieved(t *testing.T) { runScript(t, "epochs.txt") }

// Fails if sendFetch takes a leader that hangs for a healthy one as soon as it
// has been asked again.
func TestHC011HangingLeader(t *testing.T) { runScript(t, "hc011hang.txt") }

// Whoever reaches the leader may fetch under thousands of ids: what voters have
// is still counted. Fails if touched does not let voters in.
func TestManyObserversDoNotKeepVotersOut(t *testing.T) {
	s := &script{t: t, sent: map[kafka.NodeID]uint64{}}
	for _, line := range []string{
		"new id=1 voters=1,2,3 log=0/1 end=5 state=1,-1,-1", "start", "flushed seq=1 to=5/1", "wait 4000",
		"voted from=2 epoch=1 yes", "voted from=2 epoch=2 yes", "flushed seq=2 to=6/2",
	} {
		s.run(line)
	}
	for id := range maxReplicas + 10 {
		s.run(fmt.Sprintf("fetch from=%d dir=%d epoch=2 at=6/2", 1000+id, 1000+id))
	}
	if out := s.run("fetch from=2 epoch=2 at=6/2"); !strings.Contains(out, "high watermark 6") || !strings.Contains(out, "led 2") {
		t.Errorf("the voter's fetch does not count:\n%s", out)
	}
}

// A handover does not depend on luck while records are written. Fails without
// askedToEnd, if handOver does not look at the offset, the time or the voters, or
// if successors does not put the next leader first.
func TestHandover(t *testing.T) { runScript(t, "handover.txt") }
