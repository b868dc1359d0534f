//go:build !mutant_forget_sync

package quorum

const mutantForgetSync = false
