//go:build !mutant_two_of_one

package group

const mutantTwoOfOne = false
