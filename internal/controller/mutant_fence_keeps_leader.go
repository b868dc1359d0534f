//go:build mutant_fence_keeps_leader

package controller

// mutantFenceKeepsLeader is a planted bug: a broker that is fenced goes on leading (HC-043).
const mutantFenceKeepsLeader = true
