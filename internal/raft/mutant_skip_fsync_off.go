//go:build !mutant_skip_fsync

package raft

const mutantSkipFsync = false
