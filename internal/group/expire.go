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
	minTombstoneBytes     = 1 << 10
	groupsPerStep         = 2_000
	// choresRetryMs is how long to wait after tombstones could not be written.
	choresRetryMs int32 = 10_000
)

// expiry is a walk over all groups that looks for offsets to be deleted by age.
type expiry struct {
	next kafka.Mono // when the next walk begins
	left []string   // groups that this walk has not come to yet
}

// deletions are partitions whose offsets have to go, each with the offset of the
// log at which it was deleted: what is committed later is for a new topic of the
// same name.
type deletions map[offsetKey]kafka.Offset

func (d deletions) add(k offsetKey, below kafka.Offset) { d[k] = max(d[k], below) }

// deletionWalk is a walk over all groups that deletes such offsets.
type deletionWalk struct {
	of   deletions
	left []string // groups that it has not come to yet
}

// planChores sets the timer for what has to be deleted next.
func (c *Coordinator) planChores() {
	at := c.expiry.next
	if len(c.expiry.left) > 0 || c.deleting != nil || len(c.deleted) > 0 {
		at = c.now.Mono
	}
	c.timers.set(&c.chores, max(at, c.choresNotBefore))
}

func (c *Coordinator) doChores() {
	c.tombstoneBytes = 0
	c.onRevert(func(code kafka.ErrorCode) {
		if code == kafka.ErrRecordListTooLarge || code == kafka.ErrMessageTooLarge {
			c.tombstoneLimit = max(c.tombstoneLimit/2, minTombstoneBytes) // batches are small here
		}
	})
	if c.deleting == nil && len(c.deleted) > 0 {
		c.deleting, c.deleted = &deletionWalk{c.deleted, slices.Sorted(maps.Keys(c.groups))}, nil
	}
	switch {
	case c.deleting != nil:
		d, left := c.deleting, c.deleting.left
		c.onRevert(func(kafka.ErrorCode) {
			// Nobody else will look for these.
			if c.deleting != nil && c.deleting != d {
				c.deleteLater(c.deleting.of)
			}
			c.deleting, d.left = d, left
			c.choresNotBefore = c.now.Mono.Add(millis(choresRetryMs))
			c.planChores()
		})
		if c.deleteSome(d); len(d.left) == 0 {
			c.deleting = nil
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

// partitionsDeleted has the offsets of partitions that are gone deleted: with
// those of all other partitions that went since the walk under way began, so
// that many deletions do not need many walks.
func (c *Coordinator) partitionsDeleted(e PartitionsDeleted) {
	gone := deletions{}
	for _, p := range e.Partitions {
		gone.add(offsetKey{p.Topic, p.Partition}, c.tip)
	}
	if len(c.groups) > 0 {
		c.deleteLater(gone)
	}
	c.planChores()
}

func (c *Coordinator) deleteLater(gone deletions) {
	if c.deleted == nil {
		c.deleted = deletions{}
	}
	for k, below := range gone {
		c.deleted.add(k, below)
	}
}

// cutDeletions is called when the log ends at end again: what is written from
// there on is younger than any deletion.
func (c *Coordinator) cutDeletions(end kafka.Offset) {
	cut := func(d deletions) {
		for k, below := range d {
			d[k] = min(below, end)
		}
	}
	if cut(c.deleted); c.deleting != nil {
		cut(c.deleting.of)
	}
}

// deleteSome goes on with the walk over the groups.
func (c *Coordinator) deleteSome(d *deletionWalk) {
	for n := 0; len(d.left) > 0 && n < groupsPerStep; n++ {
		g := c.groups[d.left[0]]
		for _, k := range g.within(d.of) {
			if !c.roomForTombstone(g.id, k) {
				return
			}
			c.writeNoOffset(g.id, k)
		}
		d.left = d.left[1:]
	}
}

// within lists the offsets of a group that have to go.
func (g *group) within(d deletions) (out []offsetKey) {
	if g == nil {
		return nil
	}
	gone := func(k offsetKey) bool {
		below, ok := d[k]
		o, has := g.offsets[k]
		return ok && (has && o.at < below || !has && g.open[k] > 0)
	}
	if len(d) < len(g.offsets)+len(g.open) {
		for k := range d {
			if gone(k) {
				out = append(out, k)
			}
		}
	} else {
		for k := range g.offsets {
			if gone(k) {
				out = append(out, k)
			}
		}
		for k := range g.open {
			if _, has := g.offsets[k]; !has && gone(k) {
				out = append(out, k)
			}
		}
	}
	slices.SortFunc(out, offsetKey.compare)
	return out
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
	if c.tombstoneBytes >= c.tombstoneLimit {
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
