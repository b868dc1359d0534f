package record

import "fmt"

// CoordinatorLog says which internal topic a key or value belongs to; ids are
// counted separately in each.
type CoordinatorLog int8

// The logs of the coordinators.
const (
	GroupLog       CoordinatorLog = iota // __consumer_offsets
	TransactionLog                       // __transaction_state
	ShareLog                             // __share_group_state
)

// AppendKey appends a coordinator record's key: its id, then the body. It
// panics if m is not a key.
func AppendKey(buf []byte, m Message) []byte {
	id, ok := keyID(m)
	if !ok {
		panic("record: " + m.Kind() + " is not a coordinator key")
	}
	return Append(append(buf, byte(id>>8), byte(id)), m, 0)
}

// DecodeKey reads a coordinator record's key. The id, which stands in the first
// two bytes, names the kind of record. An unknown id gives ErrUnsupported;
// Kafka skips such records with a warning.
func DecodeKey(log CoordinatorLog, key []byte) (id int16, m Message, err error) {
	id, rest, err := leadingInt16(key)
	if err != nil {
		return 0, nil, fmt.Errorf("coordinator key: %w", err)
	}
	switch log {
	case GroupLog:
		m = groupKey(id)
	case TransactionLog:
		m = transactionKey(id)
	case ShareLog:
		m = shareKey(id)
	}
	if m == nil {
		return id, nil, fmt.Errorf("coordinator key: %w: id %d", ErrUnsupported, id)
	}
	if _, err := Decode(rest, m, 0); err != nil {
		return id, nil, err
	}
	return id, m, nil
}

// AppendValue appends a coordinator record's value: its version, then the body.
func AppendValue(buf []byte, m Message, version int16) []byte {
	return AppendVersioned(buf, m, version)
}

// DecodeValue reads the value that goes with a key of this id. The value must
// not be null: that is a tombstone, which has no body.
func DecodeValue(log CoordinatorLog, id int16, value []byte) (m Message, version int16, err error) {
	switch log {
	case GroupLog:
		m = groupValue(id)
	case TransactionLog:
		m = transactionValue(id)
	case ShareLog:
		m = shareValue(id)
	}
	if m == nil {
		return nil, 0, fmt.Errorf("coordinator value: %w: id %d", ErrUnsupported, id)
	}
	version, err = DecodeVersioned(value, m)
	if err != nil {
		return nil, 0, err
	}
	return m, version, nil
}
