//go:build mutant_skip_revert

package quorum

// mutantSkipRevert is a planted bug: what was pending survives the loss of leadership (HC-040).
const mutantSkipRevert = true
