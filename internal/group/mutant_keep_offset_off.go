//go:build !mutant_keep_offset

package group

const mutantKeepOffset = false
