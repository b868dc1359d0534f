package wire

const (
	keyFindCoordinator      = 10
	keyJoinGroup            = 11
	keySyncGroup            = 14
	keyDescribeTransactions = 65

	// decodeFactor is what kmsg may allocate per byte of a frame at most. Our own
	// decoding of a Fetch, with its answer, stays below it too.
	decodeFactor = 24
	// What one protocol takes beside its bytes, in the request and in the tables of
	// its group, and one assignment until it has found its member.
	protocolBytes   = 576
	assignmentBytes = 256
	// nameBytes is what the answer about one coordinator or transaction takes, by
	// whose name, of one byte or more, a request asks for it.
	nameBytes = 1024
)

// DecodeBytes estimates what a request takes in memory while it is served, its
// frame included. Produce is decoded in place. JoinGroup and SyncGroup carry few
// and large byte strings: with a factor for all, a large group could not be
// served. Of a JoinGroup's bytes there is one copy, the member's; of a SyncGroup's
// there are two more, in the record and in its batch. A Fetch takes some 700 bytes
// for each partition of 16 to 33, until it waits and gives its frame back.
func DecodeBytes(frame []byte) int64 {
	size := int64(len(frame))
	switch PeekKey(frame) {
	case KeyProduce:
		return size
	case keyJoinGroup:
		if n, ok := groupBlobs(frame); ok {
			return 2*size + protocolBytes*int64(n)
		}
	case keySyncGroup:
		if n, ok := groupBlobs(frame); ok {
			return 4*size + assignmentBytes*int64(n)
		}
	case keyFindCoordinator, keyDescribeTransactions:
		return decodeFactor*size + nameBytes*int64(names(frame))
	}
	return decodeFactor * size
}

// names counts the keys of a FindCoordinator or the ids of a DescribeTransactions; 0
// if the frame is not one, or asks for one coordinator only.
func names(frame []byte) int {
	r := NewReader(frame)
	key, version := r.Int16(), r.Int16()
	if key == keyFindCoordinator && version < 4 {
		return 0
	}
	r.Int32() // correlation id
	r.NullableString(false)
	r.SkipTags()
	if key == keyFindCoordinator {
		r.Int8() // kind
	}
	return r.ArrayLen(true, 1)
}

// groupBlobs counts a JoinGroup's protocols or a SyncGroup's assignments; ok is
// false if the frame has anything that takes memory beside them, or is not one.
func groupBlobs(frame []byte) (n int, ok bool) {
	r := NewReader(frame)
	key, version := r.Int16(), r.Int16()
	flexible := key == keyJoinGroup && version >= 6 || key == keySyncGroup && version >= 4
	tagged := func() bool { return flexible && !r.emptyTags() }
	r.Int32() // correlation id
	r.NullableString(false)
	if tagged() {
		return 0, false
	}
	r.String(flexible) // group
	r.Int32()          // session timeout; generation
	if key == keyJoinGroup && version >= 1 {
		r.Int32() // rebalance timeout
	}
	r.String(flexible) // member
	if key == keyJoinGroup {
		if version >= 5 {
			r.NullableString(flexible) // instance
		}
		r.String(flexible) // protocol type
	} else {
		if version >= 3 {
			r.NullableString(flexible) // instance
		}
		if version >= 5 {
			r.NullableString(flexible) // protocol type
			r.NullableString(flexible) // protocol
		}
	}
	n = r.ArrayLen(flexible, 3)
	for range n {
		r.String(flexible)
		r.NullableBytes(flexible)
		if r.Err() != nil || tagged() {
			return 0, false
		}
	}
	if key == keyJoinGroup && version >= 8 {
		r.NullableString(flexible) // reason
	}
	return n, !tagged() && r.Err() == nil && len(r.Rest()) == 0
}
