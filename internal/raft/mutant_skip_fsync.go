//go:build mutant_skip_fsync

package raft

// mutantSkipFsync is a planted bug: the core reveals and counts positions that are not on disk.
const mutantSkipFsync = true
