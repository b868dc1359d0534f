package kafka

import "unicode/utf8"

// JavaHash is java.lang.String.hashCode of s: over its UTF-16 units, in 32-bit
// arithmetic. Bytes that are not UTF-8 count as U+FFFD, as Java decodes them.
func JavaHash(s string) int32 {
	var h int32
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		i += n
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + int32(0xd800+r>>10)
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + int32(r)
	}
	return h
}

// CoordinatorPartition chooses the partition, of n, of an internal topic that
// keeps the state of the group or transactional id called key: Java's hash, its
// absolute value with the minimum taken as 0 (Kafka's Utils.abs), modulo n.
func CoordinatorPartition(key string, n int32) PartitionID {
	h := JavaHash(key)
	if h == -1<<31 {
		h = 0
	}
	if h < 0 {
		h = -h
	}
	return PartitionID(h % n)
}
