//go:build mutant_observers_keep

package raft

// mutantObserversKeep is a planted bug: observers that fetch keep a leader in office that its voters do not hear (HC-022).
const mutantObserversKeep = true
