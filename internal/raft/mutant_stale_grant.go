//go:build mutant_stale_grant

package raft

// mutantStaleGrant is a planted bug: the core counts vote answers of an older candidacy (HC-010).
const mutantStaleGrant = true
