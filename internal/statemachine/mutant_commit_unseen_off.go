//go:build !mutant_commit_unseen

package statemachine

const mutantCommitUnseen = false
