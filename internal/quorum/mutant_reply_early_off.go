//go:build !mutant_reply_early

package quorum

const mutantReplyEarly = false
