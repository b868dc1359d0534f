package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"moldau/internal/kafka"
)

// ErrMalformed says that a frame is not what its header promises.
var ErrMalformed = errors.New("malformed request")

// Reader takes a frame apart. The first error sticks, and every later read
// gives zero values; look at Err once, at the end.
type Reader struct {
	src []byte
	err error
}

// NewReader reads src, which it never copies.
func NewReader(src []byte) Reader { return Reader{src: src} }

// Err is the first error, wrapping ErrMalformed.
func (r *Reader) Err() error { return r.err }

// Rest gives the bytes not read yet.
func (r *Reader) Rest() []byte { return r.src }

func (r *Reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s with %d bytes left", ErrMalformed, what, len(r.src))
	}
	r.src = nil
}

func (r *Reader) take(n int, what string) []byte {
	if n < 0 || n > len(r.src) {
		r.fail(what)
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

// Int8 reads one byte.
func (r *Reader) Int8() int8 {
	if b := r.take(1, "int8"); b != nil {
		return int8(b[0])
	}
	return 0
}

// Int16 reads two bytes.
func (r *Reader) Int16() int16 {
	if b := r.take(2, "int16"); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 reads four bytes.
func (r *Reader) Int32() int32 {
	if b := r.take(4, "int32"); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads eight bytes.
func (r *Reader) Int64() int64 {
	if b := r.take(8, "int64"); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// TopicID reads sixteen bytes.
func (r *Reader) TopicID() (id kafka.TopicID) {
	copy(id[:], r.take(16, "uuid"))
	return id
}

// Uvarint reads an unsigned varint of at most 32 bits.
func (r *Reader) Uvarint() uint32 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		r.fail("varint")
		return 0
	}
	r.src = r.src[n:]
	return uint32(v)
}

// length reads the length of a string, byte string or array in either
// encoding; −1 is null.
func (r *Reader) length(compact bool, size int) int {
	switch {
	case compact:
		return int(r.Uvarint()) - 1
	case size == 2:
		return int(r.Int16())
	}
	return int(r.Int32())
}

// NullableString reads a string; null and error give nil. The bytes are the
// frame's own.
func (r *Reader) NullableString(compact bool) []byte {
	n := r.length(compact, 2)
	if n == -1 && r.err == nil {
		return nil
	}
	return r.take(n, "string")
}

// String reads a string that must not be null.
func (r *Reader) String(compact bool) []byte {
	b := r.NullableString(compact)
	if b == nil && r.err == nil {
		r.fail("null string")
	}
	return b
}

// NullableBytes reads a byte string; null gives nil.
func (r *Reader) NullableBytes(compact bool) []byte {
	n := r.length(compact, 4)
	if n == -1 && r.err == nil {
		return nil
	}
	return r.take(n, "bytes")
}

// ArrayLen reads the length of an array whose elements take at least
// minElement bytes each; a length that cannot be is an error. Null counts as
// empty.
func (r *Reader) ArrayLen(compact bool, minElement int) int {
	n := r.length(compact, 4)
	if n == -1 && r.err == nil {
		return 0
	}
	if n < 0 || n > len(r.src)/minElement {
		r.fail(fmt.Sprintf("array of %d elements", n))
		return 0
	}
	return n
}

// Tags reads a section of tagged fields; f sees the ones it knows by number
// and may be nil.
func (r *Reader) Tags(f func(tag uint32, field *Reader)) {
	for n := r.Uvarint(); n > 0 && r.err == nil; n-- {
		tag := r.Uvarint()
		body := Reader{src: r.take(int(r.Uvarint()), "tagged field")}
		if r.err == nil && f != nil {
			f(tag, &body)
			if body.err != nil {
				r.err = body.err
			}
		}
	}
}

// SkipTags passes over tagged fields.
func (r *Reader) SkipTags() { r.Tags(nil) }

// emptyTags passes over a section of tagged fields if it is empty, and reports
// whether it was.
func (r *Reader) emptyTags() bool {
	if len(r.src) > 0 && r.src[0] == 0 {
		r.src = r.src[1:]
		return true
	}
	return false
}
