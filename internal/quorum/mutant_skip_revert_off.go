//go:build !mutant_skip_revert

package quorum

const mutantSkipRevert = false
