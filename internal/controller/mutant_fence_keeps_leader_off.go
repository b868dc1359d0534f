//go:build !mutant_fence_keeps_leader

package controller

const mutantFenceKeepsLeader = false
