//go:build mutant_any_assigns

package group

// mutantAnyAssigns: SyncGroup takes the assignments of members that do not lead.
const mutantAnyAssigns = true
