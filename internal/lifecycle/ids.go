package lifecycle

import "moldau/internal/kafka"

// prefetchShare is the part of a block (in percent) after whose use the next
// one is asked for (RPCProducerIdManager.PID_PREFETCH_THRESHOLD).
const prefetchShare = 90

// IDBlocks hands out producer ids from blocks of the controller.
type IDBlocks struct {
	next, end kafka.ProducerID // rest of the current block
	size      int64
	after     kafka.ProducerID // rest of the block behind it
	afterEnd  kafka.ProducerID
	asked     bool
}

// Take gives the next id; ok is false if there is none at the moment. ask says
// that the caller must now ask the controller for a block.
func (b *IDBlocks) Take() (id kafka.ProducerID, ok, ask bool) {
	if b.next == b.end && b.after != b.afterEnd {
		b.next, b.end, b.size = b.after, b.afterEnd, int64(b.afterEnd-b.after)
		b.after, b.afterEnd = 0, 0
	}
	if b.next < b.end {
		id, ok = b.next, true
		b.next++
	}
	if low := int64(b.end-b.next)*100 <= b.size*(100-prefetchShare); low && b.after == b.afterEnd && !b.asked {
		b.asked, ask = true, true
	}
	return id, ok, ask
}

// Granted takes a block of n ids over.
func (b *IDBlocks) Granted(start kafka.ProducerID, n int32) {
	b.asked = false
	b.after, b.afterEnd = start, start+kafka.ProducerID(n)
}

// Refused says that there is no block at the moment; the next Take asks again.
func (b *IDBlocks) Refused() { b.asked = false }
