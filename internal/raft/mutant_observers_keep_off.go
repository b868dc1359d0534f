//go:build !mutant_observers_keep

package raft

const mutantObserversKeep = false
