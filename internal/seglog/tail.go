package seglog

import (
	"sync/atomic"

	"moldau/internal/kafka"
)

// tailBatches is how many of the newest batches a tailRing remembers.
const tailBatches = 32

// tailRing remembers where the newest batches of the active segment begin and
// end, so that a consumer right behind the producer is served without reading
// headers. One writer; readers check with seq that nothing changed meanwhile.
type tailRing struct {
	seg *segment
	seq atomic.Uint64 // odd while the writer is at it
	n   atomic.Uint64 // boundaries ever added
	// A boundary is the end of a batch: the offset after it, the position after
	// it. The next batch begins there.
	offsets, positions [tailBatches + 1]atomic.Int64
}

// tailFor gives the ring for the active segment, beginning at its current end.
func (l *Log) tailFor(s *segment) *tailRing {
	if t := l.tail.Load(); t != nil && t.seg == s {
		return t
	}
	t := &tailRing{seg: s}
	t.add(l.EndOffset(), s.size.Load())
	l.tail.Store(t)
	return t
}

func (t *tailRing) add(next kafka.Offset, pos int64) {
	t.seq.Add(1)
	n := t.n.Load()
	i := n % (tailBatches + 1)
	t.offsets[i].Store(int64(next))
	t.positions[i].Store(pos)
	t.n.Store(n + 1)
	t.seq.Add(1)
}

// find gives the bytes of whole batches from the one that contains from on, up
// to offset upper and limit bytes, but at least one batch if minOne. ok is false
// if the ring does not reach back to from.
func (t *tailRing) find(from, upper kafka.Offset, limit int64, minOne bool) (pos, size int64, ok bool) {
	seq := t.seq.Load()
	if seq%2 != 0 {
		return 0, 0, false
	}
	n := t.n.Load()
	oldest := uint64(0)
	if n > tailBatches+1 {
		oldest = n - tailBatches - 1
	}
	at := func(k uint64) (kafka.Offset, int64) {
		i := k % (tailBatches + 1)
		return kafka.Offset(t.offsets[i].Load()), t.positions[i].Load()
	}
	k := n
	for k > oldest { // from the newest boundary back to the last one ≤ from
		k--
		o, p := at(k)
		if o <= from {
			pos, ok = p, true
			break
		}
	}
	if !ok || k == n-1 {
		return 0, 0, false
	}
	for j := k + 1; j < n; j++ {
		o, p := at(j)
		if o > upper || p-pos > limit && !(minOne && j == k+1) {
			break
		}
		size = p - pos
	}
	return pos, size, t.seq.Load() == seq
}
