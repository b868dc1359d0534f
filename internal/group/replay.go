package group

import (
	"fmt"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// group is what the coordinator knows of one group id.
type group struct {
	id string

	// From the log, changed by replay only.
	saved   *record.GroupMetadataValue // of a classic group; nil: none was written
	simple  bool                       // made by a commit; goes with the group's tombstone
	foreign *foreign                   // of another kind of group
	offsets map[offsetKey]offset
	open    map[offsetKey]int // offsets of open transactions: how many transactions

	// classic is the membership of a classic group, built when it is needed.
	classic *classic
}

// offsetKey names what an offset was committed for.
type offsetKey struct {
	topic     string
	partition kafka.PartitionID
}

// pendingKey names an offset of an open transaction.
type pendingKey struct {
	group string
	offsetKey
}

// offset is a committed offset.
type offset struct {
	offset   kafka.Offset
	epoch    kafka.Epoch // NoEpoch: not told
	metadata string
	topicID  kafka.TopicID // zero: not told
	commitMs kafka.WallMs
	expireMs kafka.WallMs // NoTimestamp: by the group's rules
	at       kafka.Offset // of the record
}

// void tells whether the log has nothing of the group, and nobody is in it.
func (g *group) void() bool {
	return g.saved == nil && !g.simple && g.foreign == nil && len(g.offsets) == 0 && len(g.open) == 0 && (g.classic == nil || g.classic.idle())
}

// write emits a record; the shell replays it.
func (c *Coordinator) write(key, value record.Message, version int16) {
	c.out.Records = append(c.out.Records, coordinator.Record{Key: key, Value: value, Version: version})
}

// Replay implements coordinator.Core.
func (c *Coordinator) Replay(at kafka.Offset, producer kafka.ProducerID, key, value record.Message) error {
	c.tip = at + 1
	switch k := key.(type) {
	case *record.OffsetCommitKey:
		if value == nil {
			c.replayNoOffset(k.Group, offsetKey{c.name(k.Topic), k.Partition})
			return nil
		}
		v, ok := value.(*record.OffsetCommitValue)
		if !ok {
			return mismatch(key, value)
		}
		c.replayOffset(producer, k.Group, offsetKey{c.name(k.Topic), k.Partition}, offset{
			offset: v.Offset, epoch: v.LeaderEpoch, metadata: v.Metadata, topicID: v.TopicID,
			commitMs: v.CommitTimestamp, expireMs: v.ExpireTimestamp, at: at,
		})
	case *record.LegacyOffsetCommitKey:
		if value == nil {
			c.replayNoOffset(k.Group, offsetKey{c.name(k.Topic), k.Partition})
			return nil
		}
		v, ok := value.(*record.LegacyOffsetCommitValue)
		if !ok {
			return mismatch(key, value)
		}
		c.replayOffset(producer, k.Group, offsetKey{c.name(k.Topic), k.Partition}, offset{
			offset: v.Offset, epoch: kafka.NoEpoch, metadata: v.Metadata,
			commitMs: v.CommitTimestamp, expireMs: kafka.NoTimestamp, at: at,
		})
	case *record.GroupMetadataKey:
		v, ok := value.(*record.GroupMetadataValue)
		if value != nil && !ok {
			return mismatch(key, value)
		}
		c.replayGroup(k.Group, v)
	default:
		return c.replayForeign(key, value)
	}
	return nil
}

func mismatch(key, value record.Message) error {
	return fmt.Errorf("%w: a %s has a %s as its value", record.ErrCorrupt, key.Kind(), value.Kind())
}

func (c *Coordinator) replayGroup(id string, v *record.GroupMetadataValue) {
	g := c.groupFor(id)
	was, simple := g.saved, g.simple
	c.onRevert(func(kafka.ErrorCode) {
		g.saved, g.simple = was, simple
		c.mayBeEmpty(g)
	})
	g.saved, g.simple = v, simple && v != nil
	c.mayBeEmpty(g)
}

func (c *Coordinator) replayOffset(producer kafka.ProducerID, id string, k offsetKey, o offset) {
	g := c.groupFor(id)
	if g.void() {
		g.simple = true
		c.onRevert(func(kafka.ErrorCode) {
			g.simple = false
			c.mayBeEmpty(g)
		})
	}
	if producer != kafka.NoProducerID {
		c.replayPending(producer, g, k, o)
		return
	}
	if c.active { // loading, there is nothing to take back, and much to do
		was, had := g.offsets[k]
		c.onRevert(func(kafka.ErrorCode) {
			if !mutantKeepOffset {
				g.restore(k, was, had)
			}
		})
	}
	g.restore(k, o, true)
}

// restore sets or removes an offset.
func (g *group) restore(k offsetKey, o offset, present bool) {
	if !present {
		delete(g.offsets, k)
		return
	}
	if g.offsets == nil {
		g.offsets = map[offsetKey]offset{}
	}
	g.offsets[k] = o
}

func (c *Coordinator) replayPending(producer kafka.ProducerID, g *group, k offsetKey, o offset) {
	list := c.pending[producer]
	if list == nil {
		list = map[pendingKey]offset{}
		c.pending[producer] = list
	}
	pk := pendingKey{g.id, k}
	was, had := list[pk]
	list[pk] = o
	if !had {
		g.opened(k, 1)
	}
	c.onRevert(func(kafka.ErrorCode) {
		if had {
			list[pk] = was
			return
		}
		delete(list, pk)
		g.opened(k, -1)
	})
}

// opened counts the open transactions that have committed an offset.
func (g *group) opened(k offsetKey, n int) {
	if g.open == nil {
		g.open = map[offsetKey]int{}
	}
	if g.open[k] += n; g.open[k] <= 0 {
		delete(g.open, k)
	}
}

// replayNoOffset is a tombstone. It ends what open transactions have committed
// for the partition, too.
func (c *Coordinator) replayNoOffset(id string, k offsetKey) {
	g := c.groups[id]
	if g == nil {
		return // a tombstone may be all that compaction has left (HC-102)
	}
	if was, had := g.offsets[k]; had {
		c.onRevert(func(kafka.ErrorCode) { g.restore(k, was, true) })
		delete(g.offsets, k)
	}
	if g.open[k] > 0 {
		c.dropPending(g, k)
	}
	c.mayBeEmpty(g)
}

func (c *Coordinator) dropPending(g *group, k offsetKey) {
	pk := pendingKey{g.id, k}
	for _, list := range c.pending {
		if was, had := list[pk]; had {
			delete(list, pk)
			g.opened(k, -1)
			c.onRevert(func(kafka.ErrorCode) {
				list[pk] = was
				g.opened(k, 1)
			})
		}
	}
}

// EndTransaction implements coordinator.Core. Of a regular commit and one of a
// transaction, the one whose record is later counts.
func (c *Coordinator) EndTransaction(producer kafka.ProducerID, commit bool) {
	list := c.pending[producer]
	delete(c.pending, producer)
	for pk, o := range list {
		g := c.groups[pk.group]
		g.opened(pk.offsetKey, -1)
		if was, had := g.offsets[pk.offsetKey]; commit && (!had || was.at < o.at) {
			g.restore(pk.offsetKey, o, true)
		}
		c.mayBeEmpty(g)
	}
}

// mayBeEmpty has Appended look whether the group is gone.
func (c *Coordinator) mayBeEmpty(g *group) {
	switch {
	case !g.void():
	case c.active:
		c.empty = append(c.empty, g)
	case c.groups[g.id] == g:
		delete(c.groups, g.id)
	}
}
