//go:build mutant_keep_offset

package group

// mutantKeepOffset: an offset whose append failed stays.
const mutantKeepOffset = true
