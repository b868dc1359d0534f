//go:build mutant_vote_twice

package raft

// mutantVoteTwice is a planted bug: the core forgets the vote it has given in an epoch (HC-005).
const mutantVoteTwice = true
