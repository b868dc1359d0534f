//go:build mutant_elr_stays

package metadata

// mutantElrStays is a planted bug: eligible leader replicas outlive their feature, in the log but not in snapshots.
const mutantElrStays = true
