//go:build mutant_parallel_changes

package raft

// mutantParallelChanges is a planted bug: a change of the voter set begins before the one before it is committed (HC-025).
const mutantParallelChanges = true
