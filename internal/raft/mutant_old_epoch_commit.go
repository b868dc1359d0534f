//go:build mutant_old_epoch_commit

package raft

// mutantOldEpochCommit is a planted bug: the core counts records of older epochs as committed (HC-003).
const mutantOldEpochCommit = true
