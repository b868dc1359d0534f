//go:build mutant_forget_sync

package quorum

// mutantForgetSync is a planted bug: a start relies on names that a process has left which died before they were durable (HC-005).
const mutantForgetSync = true
