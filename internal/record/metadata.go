package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrUnsupported says that a record's type or version is not known here: a
// later Kafka wrote it.
var ErrUnsupported = errors.New("unknown record type or version")

// MetadataType is the type of a record of __cluster_metadata.
type MetadataType int16

// metadataFrame is the only version of the frame around a metadata record.
const metadataFrame = 1

// AppendMetadata appends the value of a metadata log record: frame version,
// type and version as unsigned varints, then the body (MetadataRecordSerde).
// It panics if m is not a metadata record, as Append does.
func AppendMetadata(buf []byte, m Message, version int16) []byte {
	t, ok := TypeOf(m)
	if !ok {
		panic("record: " + m.Kind() + " does not belong into the metadata log")
	}
	buf = binary.AppendUvarint(buf, metadataFrame)
	buf = binary.AppendUvarint(buf, uint64(t))
	buf = binary.AppendUvarint(buf, uint64(version))
	return Append(buf, m, version)
}

// MetadataSize is the length of what AppendMetadata appends, in bytes.
func MetadataSize(m Message, version int16) int {
	t, _ := TypeOf(m)
	return 1 + uvarintSize(uint64(t)) + uvarintSize(uint64(version)) + Size(m, version)
}

// DecodeMetadata reads the value of a metadata log record. Errors wrap
// ErrCorrupt or ErrUnsupported.
func DecodeMetadata(value []byte) (m Message, version int16, err error) {
	return decodeMetadata(value, nil)
}

func decodeMetadata(value []byte, room *Room) (m Message, version int16, err error) {
	r := reader{buf: value}
	frame, t, v := r.uvarint(), r.uvarint(), r.uvarint()
	switch {
	case r.err != nil:
		return nil, 0, fmt.Errorf("metadata record: %w", r.err)
	case frame != metadataFrame:
		return nil, 0, fmt.Errorf("metadata record: %w: frame version %d", ErrUnsupported, frame)
	case t > 1<<15-1 || v > 1<<15-1:
		return nil, 0, fmt.Errorf("metadata record: %w: type %d version %d", ErrCorrupt, t, v)
	}
	if m = room.metadata(MetadataType(t)); m == nil {
		return nil, 0, fmt.Errorf("metadata record: %w: type %d", ErrUnsupported, t)
	}
	rest, err := decode(r.buf, m, int16(v), room)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%s version %d: %w: %d bytes too many", m.Kind(), v, ErrCorrupt, len(rest))
	}
	if err != nil {
		return nil, 0, err
	}
	return m, int16(v), nil
}

// NewMetadata gives an empty record of a type, or nil if the type is unknown.
func NewMetadata(t MetadataType) Message { return newMetadata(t) }
