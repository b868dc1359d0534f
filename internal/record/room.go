package record

import (
	"moldau/internal/kafka"
)

// Room is memory for decoding many records, of which PartitionRecords are the
// most: they and their lists are carved from larger pieces. A record that is
// kept keeps its pieces alive, so it is for records that are read and let go.
// The zero value is ready. Not safe for concurrent use.
type Room struct {
	partitions []Partition
	nodes      []kafka.NodeID
	dirs       []kafka.DirectoryID
}

// Sizes of the pieces.
const (
	roomPartitions = 64
	roomElements   = 1024
	// roomLongest is the longest list that is carved.
	roomLongest = 16
)

// DecodeMetadata is DecodeMetadata with memory of the Room.
func (m *Room) DecodeMetadata(value []byte) (Message, int16, error) {
	return decodeMetadata(value, m)
}

// metadata gives an empty record of the type, nil if it is unknown.
func (m *Room) metadata(t MetadataType) Message {
	if m == nil || t != partitionType {
		return newMetadata(t)
	}
	if len(m.partitions) == 0 {
		m.partitions = make([]Partition, roomPartitions)
	}
	p := &m.partitions[0]
	m.partitions = m.partitions[1:]
	return p
}

// partitionType is that of PartitionRecord.
const partitionType MetadataType = 3

// carve gives a list of n elements, of room if it is of that type.
func carve[T any](room any, n int) []T {
	p, ok := room.(*[]T)
	if !ok || n > roomLongest {
		return make([]T, n)
	}
	if len(*p) < n {
		*p = make([]T, roomElements)
	}
	s := (*p)[:n:n]
	*p = (*p)[n:]
	return s
}
