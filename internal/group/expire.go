package group

import (
	"maps"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// Offsets that nobody needs are deleted a few at a time, so that the tombstones
// of one step fit into a batch and requests need not wait.
const (
	tombstoneBytesPerStep = 256 << 10
	groupsPerStep         = 10_000
	// choresRetryMs is how long to wait after tombstones could not be written.
	choresRetryMs int32 = 10_000
)

// expiry is a walk over all groups that looks for offsets to be deleted by age.
type expiry struct {
	next kafka.Mono // when the next walk begins
	left []string   // groups that this walk has not come to yet
}

// deletedTopic are partitions whose offsets have to go, with the groups not
// looked at yet.
type deletedTopic struct {
	partitions map[offsetKey]bool
	left       []string
}

// planChores sets the timer for what has to be deleted next.
func (c *Coordinator) planChores() {
	at := c.expiry.next
	if len(c.expiry.left) > 0 || len(c.deleted) > 0 {
		at = c.now.Mono
	}
	c.timers.set(&c.chores, max(at, c.choresNotBefore))
}

func (c *Coordinator) doChores() {
	c.tombstoneBytes = 0
	switch {
	case len(c.deleted) > 0:
		was := c.deleted[0]
		c.onRevert(func(kafka.ErrorCode) {
			// Nobody else will look for these.
			c.deleted = append(c.deleted, was)
			c.choresNotBefore = c.now.Mono.Add(millis(choresRetryMs))
			c.planChores()
		})
		c.deleteSome(&c.deleted[0])
		if len(c.deleted[0].left) == 0 {
			c.deleted = slices.Delete(c.deleted, 0, 1)
		}
	default:
		if len(c.expiry.left) == 0 && c.now.Mono >= c.expiry.next {
			c.expiry.left = slices.Sorted(maps.Keys(c.groups))
			c.expiry.next = c.now.Mono.Add(millis(c.opts.RetentionCheckMs))
		}
		c.expireSome()
	}
	c.planChores()
}

// partitionsDeleted begins to delete the offsets of partitions that are gone.
func (c *Coordinator) partitionsDeleted(e PartitionsDeleted) {
	d := deletedTopic{partitions: map[offsetKey]bool{}, left: slices.Sorted(maps.Keys(c.groups))}
	for _, p := range e.Partitions {
		d.partitions[offsetKey{p.Topic, p.Partition}] = true
	}
	if len(d.left) > 0 && len(d.partitions) > 0 {
		c.deleted = append(c.deleted, d)
	}
	c.planChores()
}

// deleteSome goes on with the groups of a deleted topic.
func (c *Coordinator) deleteSome(d *deletedTopic) {
	for n := 0; len(d.left) > 0 && n < groupsPerStep; n++ {
		g := c.groups[d.left[0]]
		for _, k := range c.offsetsOf(g) {
			if !d.partitions[k] {
				continue
			}
			if !c.roomForTombstone(g.id, k) {
				return
			}
			c.writeNoOffset(g.id, k)
		}
		d.left = d.left[1:]
	}
}

// offsetsOf lists the partitions that a group has offsets for, those of open
// transactions included.
func (c *Coordinator) offsetsOf(g *group) []offsetKey {
	if g == nil {
		return nil
	}
	keys := g.sortedKeys()
	if len(g.open) == 0 {
		return keys
	}
	for k := range g.open {
		if _, ok := g.offsets[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, offsetKey.compare)
	return keys
}

// expireSome goes on with the walk over the groups.
func (c *Coordinator) expireSome() {
	left := c.expiry.left
	n := 0
	for ; len(left) > 0 && n < groupsPerStep; n++ {
		// Groups of other kinds are left to those who serve them.
		if g := c.group(left[0]); g != nil && g.foreign == nil && !c.expire(g) {
			break // more of this group in the next step
		}
		left = left[1:]
	}
	if c.expiry.left = left; len(left) == 0 {
		c.expiry.left = nil
	}
}

// expire deletes a group's offsets that are too old, and the group itself if
// nothing is left of it (OffsetMetadataManager.cleanupExpiredOffsets). It reports
// false if there is more to delete than one step can hold.
func (c *Coordinator) expire(g *group) (done bool) {
	m := g.seen()
	since, may := m.retention()
	all := may
	for _, k := range g.sortedKeys() {
		o := g.offsets[k]
		if !may || m.subscribed(k.topic) || g.open[k] > 0 || !o.expired(c.now.Wall, since, c.opts.RetentionMs) {
			all = false
			continue
		}
		if !c.roomForTombstone(g.id, k) {
			return false
		}
		c.writeNoOffset(g.id, k)
	}
	if len(g.offsets) == 0 {
		all = true
	}
	if all && len(g.open) == 0 && m.state == empty {
		if !c.roomForTombstone(g.id, offsetKey{}) {
			return false
		}
		c.forget(g)
	}
	return true
}

// roomForTombstone counts one tombstone more, if the step has room for it.
func (c *Coordinator) roomForTombstone(group string, k offsetKey) bool {
	const perRecord = 32 // what a record takes beside the names
	if c.tombstoneBytes >= tombstoneBytesPerStep {
		return false
	}
	c.tombstoneBytes += perRecord + len(group) + len(k.topic)
	return true
}

// retention tells whether offsets may be deleted by age, and from when the age of
// all of them counts: NoTimestamp if from the commit of each (HC-100, KIP-211).
func (m *classic) retention() (since kafka.WallMs, may bool) {
	switch {
	case m.protocolType == "":
		return kafka.NoTimestamp, true // nobody joins it
	case m.state == empty:
		return m.sinceMs, true
	case m.state == stable && m.protocolType == consumerProtocol && m.topics != nil:
		return kafka.NoTimestamp, true
	}
	return kafka.NoTimestamp, false
}

func (o *offset) expired(now, since kafka.WallMs, retentionMs int64) bool {
	if o.expireMs != kafka.NoTimestamp {
		return now >= o.expireMs
	}
	if since == kafka.NoTimestamp {
		since = o.commitMs
	}
	return int64(now-since) >= retentionMs
}

// forget writes the tombstone of a group in which nobody is.
func (c *Coordinator) forget(g *group) {
	c.write(&record.GroupMetadataKey{Group: g.id}, nil, 0)
	if m := g.classic; m != nil {
		c.stop(m)
		g.classic = nil
		c.onRevert(func(kafka.ErrorCode) { g.classic = newClassicAfter(m, g, c.now.Wall) })
	}
}

// newClassicAfter gives back a group that could not be deleted: empty, in the
// generation in which it was. Ids that were handed out are forgotten.
func newClassicAfter(m *classic, g *group, nowMs kafka.WallMs) *classic {
	n := newClassic(g, nowMs)
	n.generation, n.protocolType, n.sinceMs, n.topics = m.generation, m.protocolType, m.sinceMs, m.topics
	return n
}
