package raft

import "testing"

// Each comment names the one-line change that makes the script fail.

// Fails if positionOnDisk always says true.
func TestHC001FetchAndCommitOnlyWhatIsOnDisk(t *testing.T) { runScript(t, "hc001.txt") }

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

// Fails if contact does not ask voters.Contains(key).
func TestHC022ObserversDoNotKeepALeader(t *testing.T) { runScript(t, "hc022.txt") }

// Fails if endBackoff ignores the place.
func TestHC023HandOver(t *testing.T) { runScript(t, "hc023.txt") }

// Fails if leaderChange does not look at the offset of the voter set.
func TestTrap5FirstLeaderWritesVoters(t *testing.T) { runScript(t, "trap5.txt") }

// Fails if New begins with hw = end.
func TestTrap6TailIsUncommittedUntilLearnt(t *testing.T) { runScript(t, "trap6.txt") }

// Fails if connectionLost leaves follow.fetched set.
func TestTrap16ConnectionLossMeetsPreVote(t *testing.T) { runScript(t, "trap16.txt") }
