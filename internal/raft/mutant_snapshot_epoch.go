//go:build mutant_snapshot_epoch

package raft

// mutantSnapshotEpoch is a planted bug: a leader takes a position at its log start for its own whatever the epoch.
const mutantSnapshotEpoch = true
