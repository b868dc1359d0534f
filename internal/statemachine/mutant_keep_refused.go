//go:build mutant_keep_refused

package statemachine

// mutantKeepRefused: a failed append is not taken back.
const mutantKeepRefused = true
