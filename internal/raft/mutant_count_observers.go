//go:build mutant_count_observers

package raft

// mutantCountObservers is a planted bug: what observers have counts for the high watermark.
const mutantCountObservers = true
