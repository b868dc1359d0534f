//go:build !mutant_unfence_early

package controller

const mutantUnfenceEarly = false
