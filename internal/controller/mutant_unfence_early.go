//go:build mutant_unfence_early

package controller

// mutantUnfenceEarly is a planted bug: a broker is unfenced before it has caught up with its registration (Trap 3).
const mutantUnfenceEarly = true
