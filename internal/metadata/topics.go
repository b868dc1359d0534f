package metadata

import (
	"strings"

	"github.com/tidwall/btree"

	"moldau/internal/kafka"
)

// MaxPartitionID bounds the partition ids that a record may name, so that one
// bad record cannot ask for memory without end.
const MaxPartitionID kafka.PartitionID = 1<<20 - 1

// Topic slots are copied in chunks, chunks of slots in groups: few when one
// topic changes, and not all when each tenth does.
const (
	chunkSlots  = 8
	groupChunks = 64
	groupSlots  = chunkSlots * groupChunks
)

// topicSlot holds one topic, or nothing.
type topicSlot struct {
	id       kafka.TopicID
	name     string // "" in a free slot
	parts    []packed
	wide     []*Partition // partitions that do not fit into packed
	count    int32        // partitions present
	nextFree int32        // in a free slot: the next one, or noSlot
}

const noSlot int32 = -1

type (
	chunk      [chunkSlots]topicSlot
	chunkGroup [groupChunks]*chunk
)

// topics is the topic part of an image. Copying it copies no topic.
type topics struct {
	groups     []*chunkGroup
	used       int32 // slots ever used
	free       int32 // head of the list of free slots, or noSlot
	ids        topicIDs
	byName     *btree.Map[string, int32]
	lookalikes *btree.Map[string, struct{}] // see lookalike
	dirs       *dirTable
	partitions int // present, over all topics
}

func newTopics() topics {
	dirs := &dirTable{index: map[kafka.DirectoryID]uint16{}}
	for i, d := range []kafka.DirectoryID{kafka.DirectoryUnassigned, kafka.DirectoryLost, kafka.DirectoryMigrating} {
		dirs.list = append(dirs.list, d)
		dirs.index[d] = uint16(i)
	}
	return topics{
		free:       noSlot,
		byName:     &btree.Map[string, int32]{},
		lookalikes: &btree.Map[string, struct{}]{},
		dirs:       dirs,
	}
}

// fork gives a copy of a tree that can be changed. The original is only read,
// so that two deltas may fork it at the same time.
func fork[K cmpOrdered, V any](m *btree.Map[K, V]) *btree.Map[K, V] {
	c := *m
	return c.Copy()
}

// cmpOrdered are the keys that the trees here use.
type cmpOrdered interface {
	~int16 | ~int32 | ~uint64 | ~string
}

func (t *topics) fork() topics {
	c := *t
	c.byName, c.lookalikes = fork(t.byName), fork(t.lookalikes)
	return c
}

func (t *topics) slot(n int32) *topicSlot {
	return &t.groups[n/groupSlots][n/chunkSlots%groupChunks][n%chunkSlots]
}

// lookalike is the form in which two topic names collide in metrics, or "" if
// the name can collide with none (Kafka's Topic.unifyCollisionChars).
func lookalike(name string) string {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	return strings.ReplaceAll(name, ".", "_")
}

// lookalikeKey sorts names behind their lookalike form. '/' cannot stand in a
// topic name.
func lookalikeKey(form, name string) string { return form + "/" + name }

// packedAt gives a copy of a partition that is packed.
func (s *topicSlot) packedAt(id kafka.PartitionID) (packed, bool) {
	if id < 0 || int(id) >= len(s.parts) || !s.parts[id].present() || s.parts[id].wide() {
		return packed{}, false
	}
	return s.parts[id], true
}

// get spells out one partition of a slot.
func (s *topicSlot) get(id kafka.PartitionID, dirs *dirTable) (Partition, bool) {
	if id < 0 || int(id) >= len(s.parts) || !s.parts[id].present() {
		return Partition{}, false
	}
	q := &s.parts[id]
	if q.wide() {
		return *s.wide[q.nodes[0]], true
	}
	return q.unpack(id, dirs), true
}

// Topic is a topic in an image. The zero value is no topic; see Exists.
type Topic struct {
	slot *topicSlot
	dirs *dirTable
}

// Exists tells whether there is such a topic.
func (t Topic) Exists() bool { return t.slot != nil }

// ID is the topic's id, zero if it does not exist.
func (t Topic) ID() kafka.TopicID {
	if t.slot == nil {
		return kafka.TopicID{}
	}
	return t.slot.id
}

// Name is the topic's name, empty if it does not exist.
func (t Topic) Name() string {
	if t.slot == nil {
		return ""
	}
	return t.slot.name
}

// NumPartitions is the number of partitions; their ids are below it, except in
// an image between the records of one operation.
func (t Topic) NumPartitions() int {
	if t.slot == nil {
		return 0
	}
	return int(t.slot.count)
}

// Partition gives the state of one partition.
func (t Topic) Partition(id kafka.PartitionID) (Partition, bool) {
	if t.slot == nil {
		return Partition{}, false
	}
	return t.slot.get(id, t.dirs)
}

// Leader gives leader and leader epoch of a partition without allocating.
func (t Topic) Leader(id kafka.PartitionID) (kafka.NodeID, kafka.Epoch, bool) {
	if t.slot == nil || id < 0 || int(id) >= len(t.slot.parts) || !t.slot.parts[id].present() {
		return kafka.NoNode, kafka.NoEpoch, false
	}
	q := &t.slot.parts[id]
	return q.leader, q.leaderEpoch, true
}

// Each calls f with the partitions in order of id until it returns false.
func (t Topic) Each(f func(Partition) bool) {
	if t.slot == nil {
		return
	}
	for id := range t.slot.parts {
		if p, ok := t.slot.get(kafka.PartitionID(id), t.dirs); ok && !f(p) {
			return
		}
	}
}
