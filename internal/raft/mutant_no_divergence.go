//go:build mutant_no_divergence

package raft

// mutantNoDivergence is a planted bug: the core ignores the diverging epoch in a fetch answer.
const mutantNoDivergence = true
