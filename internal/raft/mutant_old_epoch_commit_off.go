//go:build !mutant_old_epoch_commit

package raft

const mutantOldEpochCommit = false
