//go:build mutant_voters_late

package raft

// mutantVotersLate is a planted bug: a change of the voter set acts only when it is committed (HC-024).
const mutantVotersLate = true
