package seglog

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"moldau/internal/kafka"
)

// keySlotBytes is what one key costs in a keyMap.
const keySlotBytes = 24

// keyMap remembers the last offset of every key of the dirty part of a log, by
// 128 bits of a hash of the key: an open-addressed table of bounded size, as
// Kafka's SkimpyOffsetMap. The hash is SHA-256, cut short: two keys with the same
// one lose a record, and for MD5, Kafka's choice, anybody can make such keys.
type keyMap struct {
	slots []keySlot
	n     int
	max   int
	// latest is the offset up to which the map speaks for the log.
	latest kafka.Offset
}

type keySlot struct {
	a, b uint64
	next kafka.Offset // the offset after the key's last one; 0: the slot is free
}

// newKeyMap makes a map for at most need keys in at most maxBytes. Its room for
// keys is 0 if maxBytes is too little for one.
func newKeyMap(maxBytes int64, loadFactor float64, need int64) *keyMap {
	if loadFactor <= 0 || loadFactor > 1 {
		loadFactor = 0.9
	}
	slots := min(maxBytes/keySlotBytes, int64(float64(need)/loadFactor)+2)
	if slots < 2 {
		return &keyMap{latest: kafka.NoOffset}
	}
	m := &keyMap{slots: make([]keySlot, slots), latest: kafka.NoOffset}
	m.max = min(int(float64(slots)*loadFactor), int(slots)-1)
	return m
}

func (m *keyMap) find(key []byte) *keySlot {
	sum := sha256.Sum256(key)
	a, b := binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
	i, _ := bits.Mul64(a, uint64(len(m.slots)))
	for {
		s := &m.slots[i]
		if s.next == 0 {
			s.a, s.b = a, b // taken only when next is set
			return s
		}
		if s.a == a && s.b == b {
			return s
		}
		if i++; i == uint64(len(m.slots)) {
			i = 0
		}
	}
}

// put notes a record; false if there is no room for its key. Offsets must rise.
func (m *keyMap) put(key []byte, o kafka.Offset) bool {
	if m.max == 0 {
		return false
	}
	s := m.find(key)
	if s.next == 0 {
		if m.n >= m.max {
			return false
		}
		m.n++
	}
	s.next = o + 1
	return true
}

// last is the key's last offset, or NoOffset.
func (m *keyMap) last(key []byte) kafka.Offset {
	if len(m.slots) == 0 {
		return kafka.NoOffset
	}
	return m.find(key).next - 1
}
