//go:build mutant_commit_unseen

package statemachine

// mutantCommitUnseen: replies go out before what they rest on is committed.
const mutantCommitUnseen = true
