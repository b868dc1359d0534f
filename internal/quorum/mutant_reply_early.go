//go:build mutant_reply_early

package quorum

// mutantReplyEarly is a planted bug: replies do not wait for the commit (Trap 1).
const mutantReplyEarly = true
