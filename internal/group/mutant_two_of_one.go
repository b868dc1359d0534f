//go:build mutant_two_of_one

package group

// mutantTwoOfOne: the predecessor of a static member stays in the group.
const mutantTwoOfOne = true
