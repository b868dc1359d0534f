package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"moldau/internal/kafka"
)

// Old is one entry of format v0 or v1, which logs from before Kafka 0.11 may hold:
// a message, or a compressed set of messages.
//
//	 0 offset      int64   of the message, or of the last one in a set
//	 8 length      int32
//	12 crc         uint32  CRC-32 of everything from 16 on
//	16 magic       int8    0 or 1
//	17 attributes  int8    codec(3) timestamp type(1)
//	18 timestamp   int64   v1 only
//	   key, value  int32 length, −1 is null, and bytes
type Old []byte

const (
	oldCRC        = 12
	oldAttributes = 17
	oldTimestamp  = 18
	oldBody       = 26 // of format v1
)

// NextOld splits the first entry of format v0 or v1 off buf.
func NextOld(buf []byte) (o Old, rest []byte, err error) {
	size, err := EntrySize(buf)
	if err != nil {
		return nil, nil, err
	}
	if size > len(buf) {
		return nil, nil, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, len(buf), size)
	}
	if m := buf[posMagic]; m > 1 {
		return nil, nil, fmt.Errorf("%w: want 0 or 1", ErrMagic)
	}
	return Old(buf[:size:size]), buf[size:], nil
}

// Offset is that of the message, or of the last one in the set.
func (o Old) Offset() kafka.Offset { return kafka.Offset(binary.BigEndian.Uint64(o)) }

// Valid checks the CRC.
func (o Old) Valid() bool {
	return crc32.ChecksumIEEE(o[posMagic:]) == binary.BigEndian.Uint32(o[oldCRC:])
}

// Message is one message of an old entry. Its bytes are the entry's, or the
// Workspace's that has decompressed it.
type Message struct {
	Offset     kafka.Offset
	Timestamp  kafka.WallMs // NoTimestamp in format v0, which has none
	Key, Value []byte       // nil is null
}

// message reads an entry that is not a set.
func (o Old) message() (m Message, err error) {
	m = Message{Offset: o.Offset(), Timestamp: kafka.NoTimestamp}
	rest := []byte(o[oldTimestamp:])
	if o[posMagic] == 1 {
		if len(o) < oldBody {
			return m, fmt.Errorf("%w: a message of %d bytes", ErrCorrupt, len(o))
		}
		m.Timestamp = kafka.WallMs(binary.BigEndian.Uint64(o[oldTimestamp:]))
		rest = o[oldBody:]
	}
	if m.Key, rest, err = oldBytes(rest); err != nil {
		return m, err
	}
	if m.Value, rest, err = oldBytes(rest); err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes after a message", ErrCorrupt, len(rest))
	}
	return m, err
}

// codec is how the entry's set is compressed; None: it is a message.
func (o Old) codec() Codec { return Codec(o[oldAttributes] & attrCodecMask) }

// logAppendTime tells whether the broker has set the timestamp; then that of a
// set is that of all its messages.
func (o Old) logAppendTime() bool { return o[posMagic] == 1 && o[oldAttributes]&attrLogAppendTime != 0 }

func oldBytes(b []byte) (field, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("%w: a length of %d bytes", ErrCorrupt, len(b))
	}
	n := int32(binary.BigEndian.Uint32(b))
	switch {
	case n == -1:
		return nil, b[4:], nil
	case n < 0 || int(n) > len(b)-4:
		return nil, nil, fmt.Errorf("%w: a field of %d bytes in %d", ErrCorrupt, n, len(b)-4)
	}
	return b[4 : 4+n : 4+n], b[4+n:], nil
}

// Each calls f with the messages in order. A set expands to limitBytes at most.
// Offsets in a set of format v1 count from its beginning (KIP-31).
func (o Old) Each(w *Workspace, limitBytes int64, f func(Message) error) error {
	outer, err := o.message()
	if err != nil {
		return err
	}
	if o.codec() == None {
		return f(outer)
	}
	packed := outer.Value
	if o[posMagic] == 0 && o.codec() == LZ4 {
		packed = mendedLZ4(packed)
	}
	set, err := w.DecompressAll(o.codec(), packed, limitBytes)
	if err != nil {
		return err
	}
	shift, err := o.shift(set)
	if err != nil {
		return err
	}
	for len(set) > 0 {
		var e Old
		if e, set, err = NextOld(set); err != nil {
			return err
		}
		m, err := e.message()
		if err != nil {
			return err
		}
		if m.Offset += shift; o.logAppendTime() {
			m.Timestamp = outer.Timestamp
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

// shift checks what a set is made of, and tells what to add to its offsets, which
// the last one says. No list of the messages: it would take more than they do.
func (o Old) shift(set []byte) (kafka.Offset, error) {
	var last Old
	for len(set) > 0 {
		var err error
		if last, set, err = NextOld(set); err != nil {
			return 0, err
		}
		if last.codec() != None {
			return 0, fmt.Errorf("%w: a compressed set in a compressed set", ErrCorrupt)
		}
	}
	switch {
	case last == nil:
		return 0, fmt.Errorf("%w: a set without messages", ErrCorrupt)
	case o[posMagic] == 1:
		return o.Offset() - last.Offset(), nil
	}
	return 0, nil
}
