//go:build !mutant_trim_unordered

package quorum

const mutantTrimUnordered = false
