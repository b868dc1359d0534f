//go:build !mutant_any_generation

package group

const mutantAnyGeneration = false
