//go:build !mutant_vote_twice

package raft

const mutantVoteTwice = false
