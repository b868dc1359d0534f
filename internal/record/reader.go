package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrCorrupt says that bytes are not what the schema says. It is wrapped with
// the record's name and what was wrong.
var ErrCorrupt = errors.New("record is corrupt")

// reader takes values off buf. After the first error it gives zeros.
type reader struct {
	buf []byte
	err error
	// int32Room and uuidRoom are pointers to slices of which lists of their
	// element type are carved; nil makes each list.
	int32Room, uuidRoom any
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
	r.buf = nil
}

// take gives the next n bytes, or nil and an error. The result aliases buf.
func (r *reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.buf) {
		r.fail("%d bytes claimed, %d left", n, len(r.buf))
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) bool() bool { return r.int8() != 0 }

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) int16() int16 { return int16(r.uint16()) }

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) float64() float64 { return math.Float64frombits(uint64(r.int64())) }

func (r *reader) uuid() (u [16]byte) {
	copy(u[:], r.take(16))
	return u
}

// uvarint reads Kafka's unsigned varint: at most five bytes, 32 bits.
func (r *reader) uvarint() uint32 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.buf)
	if n <= 0 || n > 5 || v > math.MaxUint32 {
		r.fail("unsigned varint")
		return 0
	}
	r.buf = r.buf[n:]
	return uint32(v)
}

// length reads a length or count: −1 is null.
func (r *reader) length(flexible bool) int {
	if flexible {
		return int(r.uvarint()) - 1
	}
	return int(r.int32())
}

// arrayLen reads an element count and checks it against the bytes left, at
// elemSize or more each. −1 means null, or an empty array that cannot be null.
func (r *reader) arrayLen(elemSize int, nullable, flexible bool) int {
	n := r.length(flexible)
	switch {
	case r.err != nil:
		return -1
	case n < 0 && nullable && n == -1:
		return -1
	case n < 0:
		r.fail("array length %d", n)
		return -1
	case n > len(r.buf)/elemSize:
		r.fail("%d elements claimed, %d bytes left", n, len(r.buf))
		return -1
	case n == 0 && !nullable:
		return -1
	}
	return n
}

func (r *reader) stringLen(flexible bool) int {
	if flexible {
		return int(r.uvarint()) - 1
	}
	return int(r.int16())
}

func (r *reader) string(flexible bool) string {
	n := r.stringLen(flexible)
	if n < 0 {
		r.fail("null in a string that cannot be null")
		return ""
	}
	return string(r.take(n))
}

func (r *reader) nullString(flexible bool) *string {
	n := r.stringLen(flexible)
	if n == -1 || r.err != nil {
		return nil
	}
	s := string(r.take(n))
	return &s
}

func (r *reader) bytes(nullable, flexible bool) []byte {
	n := r.length(flexible)
	switch {
	case n == -1 && nullable, r.err != nil:
		return nil
	case n == 0 && nullable:
		return []byte{}
	}
	return bytes.Clone(r.take(n))
}

func readInt16s[T ~int16](r *reader, nullable, flexible bool) []T {
	n := r.arrayLen(2, nullable, flexible)
	if n < 0 {
		return nil
	}
	s := make([]T, n)
	for i := range s {
		s[i] = T(r.int16())
	}
	return s
}

func readInt32s[T ~int32](r *reader, nullable, flexible bool) []T {
	n := r.arrayLen(4, nullable, flexible)
	if n < 0 {
		return nil
	}
	s := carve[T](r.int32Room, n)
	for i := range s {
		s[i] = T(r.int32())
	}
	return s
}

func readUUIDs[T ~[16]byte](r *reader, nullable, flexible bool) []T {
	n := r.arrayLen(16, nullable, flexible)
	if n < 0 {
		return nil
	}
	s := carve[T](r.uuidRoom, n)
	for i := range s {
		s[i] = T(r.uuid())
	}
	return s
}

func readStrings(r *reader, nullable, flexible bool) []string {
	n := r.arrayLen(1, nullable, flexible)
	if n < 0 {
		return nil
	}
	s := make([]string, n)
	for i := range s {
		s[i] = r.string(flexible)
	}
	return s
}

// tag reads the head of a tagged field and gives a reader of its value.
func (r *reader) tag() (tag uint32, body *reader) {
	tag = r.uvarint()
	return tag, &reader{buf: r.take(int(r.uvarint()))}
}

// endTag checks that the value was read whole.
func (r *reader) endTag(body *reader) {
	if r.err == nil && body.err != nil {
		r.err, r.buf = body.err, nil
	}
	if len(body.buf) > 0 {
		r.fail("%d bytes too many in a tagged field", len(body.buf))
	}
}

func (r *reader) badTag(tag uint32, version int16) {
	r.fail("tag %d in version %d, which does not have it", tag, version)
}

func (r *reader) keepTag(kept []TaggedField, tag uint32, body *reader) []TaggedField {
	if r.err != nil {
		return kept
	}
	if len(kept) > 0 && kept[len(kept)-1].Tag >= tag {
		r.fail("tag %d after tag %d", tag, kept[len(kept)-1].Tag)
		return kept
	}
	return append(kept, TaggedField{Tag: tag, Data: bytes.Clone(body.buf)})
}

// allTags reads tagged fields of which none is known.
func (r *reader) allTags() (kept []TaggedField) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag, body := r.tag()
		kept = r.keepTag(kept, tag, body)
	}
	return kept
}
