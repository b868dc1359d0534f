//go:build !mutant_stale_completion

package raft

const mutantStaleCompletion = false
