package record

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// Message is one record of any log: a pointer to a generated struct. A struct
// made by its New function, or by a decoder, carries the schema's defaults.
type Message interface {
	// Kind is the schema's name, such as "RegisterBrokerRecord".
	Kind() string
	// Versions gives the lowest and highest version of the schema.
	Versions() (lo, hi int16)

	setDefaults()
	write(w *writer, version int16)
	read(r *reader, version int16)
}

func checkVersion(m Message, version int16) {
	if lo, hi := m.Versions(); version < lo || version > hi {
		panic(fmt.Sprintf("record: %s has versions %d to %d, not %d", m.Kind(), lo, hi, version))
	}
}

// Size is the exact length of the encoded body in bytes.
func Size(m Message, version int16) int {
	checkVersion(m, version)
	w := writer{counting: true}
	m.write(&w, version)
	return w.n
}

// Append appends the encoded body, without any frame, to buf. It panics if the
// version is not one of the schema's, or cannot carry a field that is set.
func Append(buf []byte, m Message, version int16) []byte {
	checkVersion(m, version)
	w := writer{buf: buf}
	m.write(&w, version)
	return w.buf
}

// Decode reads a body without any frame into m, all of whose fields it sets,
// and gives the bytes after it. Errors wrap ErrCorrupt or ErrUnsupported.
func Decode(buf []byte, m Message, version int16) (rest []byte, err error) {
	return decode(buf, m, version, nil)
}

func decode(buf []byte, m Message, version int16, room *Room) (rest []byte, err error) {
	if lo, hi := m.Versions(); version < lo || version > hi {
		return nil, fmt.Errorf("%s: %w: version %d, known are %d to %d", m.Kind(), ErrUnsupported, version, lo, hi)
	}
	r := reader{buf: buf}
	if room != nil {
		r.int32Room, r.uuidRoom = &room.nodes, &room.dirs
	}
	m.setDefaults()
	m.read(&r, version)
	if r.err != nil {
		return nil, fmt.Errorf("%s version %d: %w", m.Kind(), version, r.err)
	}
	return r.buf, nil
}

// AppendVersioned appends the version as two bytes, then the body: the form of
// coordinator keys and values, EndTxnMarker, AbortedTxn and the blobs of the
// consumer protocol.
func AppendVersioned(buf []byte, m Message, version int16) []byte {
	return Append(binary.BigEndian.AppendUint16(buf, uint16(version)), m, version)
}

// DecodeVersioned reads what AppendVersioned wrote into m. Bytes after the
// body are ignored, as Kafka does.
func DecodeVersioned(buf []byte, m Message) (version int16, err error) {
	version, buf, err = leadingInt16(buf)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.Kind(), err)
	}
	_, err = Decode(buf, m, version)
	return version, err
}

func leadingInt16(buf []byte) (v int16, rest []byte, err error) {
	if len(buf) < 2 {
		return 0, nil, fmt.Errorf("%w: %d bytes, want a version of 2", ErrCorrupt, len(buf))
	}
	return int16(binary.BigEndian.Uint16(buf)), buf[2:], nil
}

// Defaults gives a fresh record of the kind of m, with the schema's defaults.
func Defaults(m Message) Message {
	d := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
	d.setDefaults()
	return d
}
