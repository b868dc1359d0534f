//go:build !mutant_snapshot_epoch

package raft

const mutantSnapshotEpoch = false
