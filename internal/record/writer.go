package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// TaggedField is a tagged field that this schema does not know. It is kept so
// that a record of a later Kafka survives decoding and encoding.
type TaggedField struct {
	Tag  uint32
	Data []byte
}

// writer appends to buf, or only counts bytes when counting is set.
type writer struct {
	buf      []byte
	n        int // bytes counted
	counting bool
}

func (w *writer) pos() int {
	if w.counting {
		return w.n
	}
	return len(w.buf)
}

// unsupported reports a field that the version cannot carry.
func (w *writer) unsupported(field string, version int16) {
	panic(fmt.Sprintf("record: %s is set but version %d does not have it", field, version))
}

func (w *writer) int8(v int8) {
	if w.counting {
		w.n++
		return
	}
	w.buf = append(w.buf, byte(v))
}

func (w *writer) bool(v bool) {
	if v {
		w.int8(1)
		return
	}
	w.int8(0)
}

func (w *writer) uint16(v uint16) {
	if w.counting {
		w.n += 2
		return
	}
	w.buf = binary.BigEndian.AppendUint16(w.buf, v)
}

func (w *writer) int16(v int16) { w.uint16(uint16(v)) }

func (w *writer) int32(v int32) {
	if w.counting {
		w.n += 4
		return
	}
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(v))
}

func (w *writer) int64(v int64) {
	if w.counting {
		w.n += 8
		return
	}
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(v))
}

func (w *writer) float64(v float64) { w.int64(int64(math.Float64bits(v))) }

func (w *writer) raw(b []byte) {
	if w.counting {
		w.n += len(b)
		return
	}
	w.buf = append(w.buf, b...)
}

func (w *writer) uuid(v [16]byte) { w.raw(v[:]) }

func (w *writer) uvarint(v uint64) {
	if w.counting {
		w.n += uvarintSize(v)
		return
	}
	w.buf = binary.AppendUvarint(w.buf, v)
}

func uvarintSize(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func (w *writer) string(s string, flexible bool) {
	if flexible {
		w.uvarint(uint64(len(s)) + 1)
	} else {
		if len(s) > math.MaxInt16 {
			panic(fmt.Sprintf("record: a string of %d bytes in a version that carries %d", len(s), math.MaxInt16))
		}
		w.int16(int16(len(s)))
	}
	if w.counting {
		w.n += len(s)
		return
	}
	w.buf = append(w.buf, s...)
}

func (w *writer) nullString(s *string, flexible bool) {
	switch {
	case s != nil:
		w.string(*s, flexible)
	case flexible:
		w.uvarint(0)
	default:
		w.int16(-1)
	}
}

func (w *writer) bytes(b []byte, nullable, flexible bool) {
	if w.arrayLen(len(b), nullable && b == nil, flexible) {
		w.raw(b)
	}
}

// arrayLen writes an element count (or null) and tells whether elements follow.
func (w *writer) arrayLen(n int, null, flexible bool) bool {
	switch {
	case flexible && null:
		w.uvarint(0)
	case flexible:
		w.uvarint(uint64(n) + 1)
	case null:
		w.int32(-1)
	default:
		w.int32(int32(n))
	}
	return !null
}

func writeInt16s[T ~int16](w *writer, s []T, nullable, flexible bool) {
	w.arrayLen(len(s), nullable && s == nil, flexible)
	for _, v := range s {
		w.int16(int16(v))
	}
}

func writeInt32s[T ~int32](w *writer, s []T, nullable, flexible bool) {
	w.arrayLen(len(s), nullable && s == nil, flexible)
	for _, v := range s {
		w.int32(int32(v))
	}
}

func writeUUIDs[T ~[16]byte](w *writer, s []T, nullable, flexible bool) {
	w.arrayLen(len(s), nullable && s == nil, flexible)
	for _, v := range s {
		w.uuid(v)
	}
}

func writeStrings(w *writer, s []string, nullable, flexible bool) {
	w.arrayLen(len(s), nullable && s == nil, flexible)
	for _, v := range s {
		w.string(v, flexible)
	}
}

// rawTags writes kept tagged fields.
func (w *writer) rawTags(tags []TaggedField) {
	for _, t := range tags {
		w.uvarint(uint64(t.Tag))
		w.uvarint(uint64(len(t.Data)))
		w.raw(t.Data)
	}
}

// startTag opens a tagged field, after the kept ones with smaller tags. Give
// its result to endTag after the value.
func (w *writer) startTag(kept *[]TaggedField, tag uint32) int {
	below := 0
	for below < len(*kept) && (*kept)[below].Tag < tag {
		below++
	}
	w.rawTags((*kept)[:below])
	*kept = (*kept)[below:]
	w.uvarint(uint64(tag))
	return w.pos()
}

// endTag puts the size of the value in front of it.
func (w *writer) endTag(mark int) {
	size := w.pos() - mark
	if w.counting {
		w.n += uvarintSize(uint64(size))
		return
	}
	w.uvarint(uint64(size)) // makes room; then value and size change places
	width := len(w.buf) - mark - size
	copy(w.buf[mark+width:], w.buf[mark:mark+size])
	binary.PutUvarint(w.buf[mark:], uint64(size))
}

// presence writes whether a tagged struct is not null.
func (w *writer) presence(present bool) bool {
	if present {
		w.uvarint(1)
		return true
	}
	w.uvarint(0)
	return false
}
