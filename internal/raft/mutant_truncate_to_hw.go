//go:build mutant_truncate_to_hw

package raft

// mutantTruncateToHw is a planted bug: a follower that diverges cuts its log to the high watermark that it knows.
const mutantTruncateToHw = true
