package batch

import (
	"encoding/binary"
	"math/bits"
)

// An LZ4 frame begins with its magic number and a descriptor: flags, block size,
// then the content's size if the flags say so, and one byte of checksum.
const (
	lz4Magic           = 0x184d2204
	lz4Flags           = 4
	lz4Descriptor      = 2 // bytes of flags and block size
	lz4ContentSizeFlag = 0x08
)

// mendedLZ4 is frame with the right checksum in its header. Clients from before
// Kafka 0.10 took it over the magic number too, and theirs are the sets of format
// v0; Kafka does not look at it there (Lz4BlockInputStream).
func mendedLZ4(frame []byte) []byte {
	end := lz4Flags + lz4Descriptor
	if len(frame) > end && frame[lz4Flags]&lz4ContentSizeFlag != 0 {
		end += 8
	}
	if len(frame) <= end || binary.LittleEndian.Uint32(frame) != lz4Magic {
		return frame
	}
	sum := byte(shortXXH32(frame[lz4Flags:end]) >> 8)
	if frame[end] == sum {
		return frame
	}
	frame = append([]byte(nil), frame...)
	frame[end] = sum
	return frame
}

// shortXXH32 is xxHash's 32-bit sum, with seed 0, of less than 16 bytes.
func shortXXH32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h := p5 + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
