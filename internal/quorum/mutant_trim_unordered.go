//go:build mutant_trim_unordered

package quorum

// mutantTrimUnordered is a planted bug: the deletion of an old segment may be undone by a power loss while that of a newer one is not.
const mutantTrimUnordered = true
