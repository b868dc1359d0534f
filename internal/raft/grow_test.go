package raft

import "testing"

// A leader that was alone has no fetches to show when a second voter comes.
// Fails if appendVoters does not begin check-quorum anew: the leader would
// resign at once, before the new voter can fetch its record.
func TestQuorumOfOneGrows(t *testing.T) { runScript(t, "grow.txt") }
