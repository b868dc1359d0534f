//go:build !mutant_elr_stays

package metadata

const mutantElrStays = false
