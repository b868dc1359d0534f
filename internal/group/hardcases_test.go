package group

import "testing"

// Scripts of hard cases, each with the change that makes it fail.

// Fails if replaceStatic leaves the old member, or answers nobody who waits.
func TestHC096ReturningStaticMember(t *testing.T) { runScript(t, "testdata/hc096.txt") }

// Fails if generationFor leaves static members out of what an old leader gets.
// Versions without the field are the codec's: it leaves it out.
func TestHC097OldLeaderStaticMember(t *testing.T) { runScript(t, "testdata/hc097.txt") }

// Fails if assign gives only to those that the leader named, if sync takes
// assignments of others, or if checkSync does not look at generation or protocol.
func TestHC098Assignments(t *testing.T) { runScript(t, "testdata/hc098.txt") }

// Fails if supports is content with a protocol that some member knows.
func TestHC099ChoosingTheProtocol(t *testing.T) { runScript(t, "testdata/hc099.txt") }

// Fails if retention looks at the commit of an empty group, at the time of a group
// that rebalances, or if an old client's own retention is not kept.
func TestHC100WhenOffsetsExpire(t *testing.T) { runScript(t, "testdata/hc100.txt") }

// Fails if checkCommit lets tools into groups with members, or members in before
// they have synced.
func TestHC101WhoMayCommit(t *testing.T) { runScript(t, "testdata/hc101.txt") }

// Fails if a refused partition of a commit is counted as open, or if an offset of a
// transaction wins over a later one.
func TestHC105OffsetsOfTransactions(t *testing.T) { runScript(t, "testdata/hc105.txt") }

// Fails if Revert leaves anything of what was emitted.
func TestTrap2RefusedAppends(t *testing.T) { runScript(t, "testdata/trap2.txt") }

// Fails if sessions, rebalances, or the times at which offsets are looked through
// take the wall clock.
func TestTrap15SetClocks(t *testing.T) { runScript(t, "testdata/trap15.txt") }
