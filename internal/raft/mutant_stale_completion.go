//go:build mutant_stale_completion

package raft

// mutantStaleCompletion is a planted bug: the core believes a flush that a cut has overtaken (HC-014).
const mutantStaleCompletion = true
