//go:build mutant_any_generation

package group

// mutantAnyGeneration: SyncGroup takes the assignments of an old generation.
const mutantAnyGeneration = true
