//go:build !mutant_no_divergence

package raft

const mutantNoDivergence = false
