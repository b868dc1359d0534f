//go:build !mutant_keep_refused

package statemachine

const mutantKeepRefused = false
