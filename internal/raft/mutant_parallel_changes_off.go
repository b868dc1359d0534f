//go:build !mutant_parallel_changes

package raft

const mutantParallelChanges = false
