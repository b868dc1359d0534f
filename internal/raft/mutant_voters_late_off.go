//go:build !mutant_voters_late

package raft

const mutantVotersLate = false
