//go:build !mutant_truncate_to_hw

package raft

const mutantTruncateToHw = false
