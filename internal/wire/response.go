package wire

import (
	"encoding/binary"
	"math"

	"moldau/internal/kafka"
)

// FileRange is a stretch of a file that goes out as it is. The network calls
// Release once, when it is sent or given up.
type FileRange interface {
	// Len is the length in bytes.
	Len() int
	// ReadAt reads from the stretch; off counts from its start.
	ReadAt(p []byte, off int64) (int, error)
	// Descriptor gives the file and the stretch's position in it for sendfile;
	// ok is false if there is no descriptor.
	Descriptor() (fd uintptr, position int64, ok bool)
	Release()
}

// Chunk is a part of a response: a file range that follows Before bytes of the
// response's buffer.
type Chunk struct {
	Before int
	File   FileRange
}

// Response is an answer under construction and on its way: one buffer, with
// file ranges between its parts. The buffer begins with the frame's length.
type Response struct {
	Buf    []byte
	Chunks []Chunk
	size   int // bytes of file ranges
}

// Start begins a response with room for its length, the correlation id and, in
// flexible versions, an empty section of tags. It reuses the memory of resp.
func (resp *Response) Start(correlationID int32, flexible bool) {
	resp.Buf = append(resp.Buf[:0], 0, 0, 0, 0)
	resp.Chunks, resp.size = resp.Chunks[:0], 0
	resp.Int32(correlationID)
	if flexible {
		resp.Buf = append(resp.Buf, 0)
	}
}

// Finish writes the length. It reports false if the response is longer than a
// frame can be.
func (resp *Response) Finish() bool {
	n := resp.Size() - 4
	if n > math.MaxInt32 {
		return false
	}
	binary.BigEndian.PutUint32(resp.Buf, uint32(n))
	return true
}

// Size is the length of the response in bytes, length field included.
func (resp *Response) Size() int { return len(resp.Buf) + resp.size }

// Release gives back the file ranges of a response that is not sent.
func (resp *Response) Release() {
	for _, c := range resp.Chunks {
		c.File.Release()
	}
	clear(resp.Chunks)
	resp.Chunks = resp.Chunks[:0]
}

// File appends a file range.
func (resp *Response) File(f FileRange) {
	resp.Chunks = append(resp.Chunks, Chunk{Before: len(resp.Buf), File: f})
	resp.size += f.Len()
}

// OnSent has f called once, when the response is sent or given up. f may run
// under locks of the connection and must not block.
func (resp *Response) OnSent(f func()) { resp.File(notice(f)) }

// notice is a file range of no bytes.
type notice func()

func (notice) Len() int                           { return 0 }
func (notice) ReadAt([]byte, int64) (int, error)  { return 0, nil }
func (notice) Descriptor() (uintptr, int64, bool) { return 0, 0, false }
func (f notice) Release()                         { f() }

// Int8 appends one byte.
func (resp *Response) Int8(v int8) { resp.Buf = append(resp.Buf, byte(v)) }

// Int16 appends two bytes.
func (resp *Response) Int16(v int16) { resp.Buf = binary.BigEndian.AppendUint16(resp.Buf, uint16(v)) }

// Int32 appends four bytes.
func (resp *Response) Int32(v int32) { resp.Buf = binary.BigEndian.AppendUint32(resp.Buf, uint32(v)) }

// Int64 appends eight bytes.
func (resp *Response) Int64(v int64) { resp.Buf = binary.BigEndian.AppendUint64(resp.Buf, uint64(v)) }

// Uvarint appends an unsigned varint.
func (resp *Response) Uvarint(v uint32) { resp.Buf = binary.AppendUvarint(resp.Buf, uint64(v)) }

// TopicID appends sixteen bytes.
func (resp *Response) TopicID(id kafka.TopicID) { resp.Buf = append(resp.Buf, id[:]...) }

// String appends a string.
func (resp *Response) String(s string, compact bool) {
	if compact {
		resp.Uvarint(uint32(len(s)) + 1)
	} else {
		resp.Int16(int16(len(s)))
	}
	resp.Buf = append(resp.Buf, s...)
}

// NullableString appends a string, "" as null.
func (resp *Response) NullableString(s string, compact bool) {
	switch {
	case s != "":
		resp.String(s, compact)
	case compact:
		resp.Buf = append(resp.Buf, 0)
	default:
		resp.Int16(-1)
	}
}

// ArrayLen appends the length of an array.
func (resp *Response) ArrayLen(n int, compact bool) {
	if compact {
		resp.Uvarint(uint32(n) + 1)
	} else {
		resp.Int32(int32(n))
	}
}

// BytesLen appends the length of a byte string that follows.
func (resp *Response) BytesLen(n int, compact bool) { resp.ArrayLen(n, compact) }

// NoTags appends an empty section of tagged fields in flexible versions.
func (resp *Response) NoTags(flexible bool) {
	if flexible {
		resp.Buf = append(resp.Buf, 0)
	}
}
