package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the type of a control record, in its key.
type ControlType int16

// The control records of Kafka (ControlRecordType).
const (
	ControlAbort          ControlType = 0
	ControlCommit         ControlType = 1
	ControlLeaderChange   ControlType = 2
	ControlSnapshotHeader ControlType = 3
	ControlSnapshotFooter ControlType = 4
	ControlKRaftVersion   ControlType = 5
	ControlVoters         ControlType = 6
)

// String gives Kafka's name of the type.
func (t ControlType) String() string {
	switch t {
	case ControlAbort:
		return "ABORT"
	case ControlCommit:
		return "COMMIT"
	case ControlLeaderChange:
		return "LEADER_CHANGE"
	case ControlSnapshotHeader:
		return "SNAPSHOT_HEADER"
	case ControlSnapshotFooter:
		return "SNAPSHOT_FOOTER"
	case ControlKRaftVersion:
		return "KRAFT_VERSION"
	case ControlVoters:
		return "KRAFT_VOTERS"
	}
	return fmt.Sprintf("CONTROL_%d", int16(t))
}

// controlMessage gives an empty struct for the value of a control record, or
// nil if the type is unknown.
func controlMessage(t ControlType) Message {
	switch t {
	case ControlAbort, ControlCommit:
		return NewEndTxnMarker()
	case ControlLeaderChange:
		return NewLeaderChange()
	case ControlSnapshotHeader:
		return NewSnapshotHeader()
	case ControlSnapshotFooter:
		return NewSnapshotFooter()
	case ControlKRaftVersion:
		return NewKRaftVersion()
	case ControlVoters:
		return NewVoters()
	}
	return nil
}

// ControlKey gives the key of a control record: version 0 and the type.
func ControlKey(t ControlType) []byte {
	return binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(t))
}

// DecodeControlKey reads the type out of a control record's key.
func DecodeControlKey(key []byte) (ControlType, error) {
	version, rest, err := leadingInt16(key)
	if err == nil && version < 0 {
		err = fmt.Errorf("%w: version %d", ErrCorrupt, version)
	}
	if err != nil {
		return 0, fmt.Errorf("control record key: %w", err)
	}
	t, _, err := leadingInt16(rest)
	if err != nil {
		return 0, fmt.Errorf("control record key: %w", err)
	}
	return ControlType(t), nil
}

// AppendControl appends the value of a control record to buf. It sets the
// record's own Version field, where it has one, to version.
func AppendControl(buf []byte, m Message, version int16) []byte {
	switch c := m.(type) {
	case *EndTxnMarker:
		return AppendVersioned(buf, m, version)
	case *LeaderChange:
		c.Version = version
	case *SnapshotHeader:
		c.Version = version
	case *SnapshotFooter:
		c.Version = version
	case *KRaftVersion:
		c.Version = version
	case *Voters:
		c.Version = version
	default:
		panic("record: " + m.Kind() + " is not a control record")
	}
	return Append(buf, m, version)
}

// DecodeControl reads a control record. A type that is not known gives
// ErrUnsupported; readers of data logs skip such records.
func DecodeControl(key, value []byte) (t ControlType, m Message, version int16, err error) {
	t, err = DecodeControlKey(key)
	if err != nil {
		return 0, nil, 0, err
	}
	if m = controlMessage(t); m == nil {
		return t, nil, 0, fmt.Errorf("control record: %w: type %d", ErrUnsupported, t)
	}
	// The value begins with its version; only in EndTxnMarker is that a prefix
	// rather than the schema's first field.
	version, rest, err := leadingInt16(value)
	if err != nil {
		return t, nil, 0, fmt.Errorf("%s: %w", m.Kind(), err)
	}
	if _, marker := m.(*EndTxnMarker); !marker {
		rest = value
	}
	if _, err := Decode(rest, m, version); err != nil {
		return t, nil, 0, err
	}
	return t, m, version, nil
}
