//go:build !mutant_count_observers

package raft

const mutantCountObservers = false
