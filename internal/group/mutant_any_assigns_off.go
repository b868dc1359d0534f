//go:build !mutant_any_assigns

package group

const mutantAnyAssigns = false
