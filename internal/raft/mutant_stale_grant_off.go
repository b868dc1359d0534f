//go:build !mutant_stale_grant

package raft

const mutantStaleGrant = false
