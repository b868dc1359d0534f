package metadata

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

var errNoTopic = errors.New("no such topic")

// topicWork is a topic that a delta has touched. A slot belongs to one topic
// throughout a delta: one that is freed is used again in a later delta only.
type topicWork struct {
	id       kafka.TopicID
	slot     int32
	existed  bool // in the base, in the same slot
	deleted  bool
	ownParts bool
	changed  partitionSet
}

// writable gives a slot that the delta may change.
func (d *Delta) writable(slot int32) *topicSlot {
	t := &d.next.topics
	g, n := slot/groupSlots, slot/chunkSlots%groupChunks
	if d.ownGroup == nil {
		t.groups = slices.Clone(t.groups)
		d.ownGroup = make([]*[groupChunks]bool, len(t.groups), len(t.groups)+1)
	}
	for int(g) >= len(t.groups) {
		t.groups, d.ownGroup = append(t.groups, new(chunkGroup)), append(d.ownGroup, new([groupChunks]bool))
	}
	if d.ownGroup[g] == nil {
		c := *t.groups[g]
		t.groups[g], d.ownGroup[g] = &c, new([groupChunks]bool)
	}
	if !d.ownGroup[g][n] {
		c := new(chunk)
		if old := t.groups[g][n]; old != nil {
			*c = *old
		}
		t.groups[g][n], d.ownGroup[g][n] = c, true
	}
	return &t.groups[g][n][slot%chunkSlots]
}

// work finds a topic that exists now: a removal earlier in this delta counts.
func (d *Delta) work(id kafka.TopicID) (*topicWork, error) {
	if d.last != nil && d.last.id == id && !d.last.deleted {
		return d.last, nil
	}
	slot, ok := d.next.topics.ids.find(id)
	if !ok {
		if _, had := d.base.topics.ids.find(id); had {
			return nil, fmt.Errorf("%w: %s was removed", errNoTopic, id)
		}
		return nil, fmt.Errorf("%w: %s", errNoTopic, id)
	}
	w := d.topics[slot]
	if w == nil {
		w = d.touch(topicWork{id: id, slot: slot, existed: true})
	}
	d.last = w
	return w, nil
}

// touch remembers a topic. They are made many at a time: the outage of a broker
// touches thousands.
func (d *Delta) touch(w topicWork) *topicWork {
	if len(d.slab) == cap(d.slab) {
		d.slab = make([]topicWork, 0, min(max(4, 2*cap(d.slab)), 1024))
	}
	d.slab = append(d.slab, w)
	t := &d.slab[len(d.slab)-1]
	d.topics[w.slot] = t
	return t
}

func (d *Delta) replayTopic(m *record.Topic) error {
	t := &d.next.topics
	if m.Name == "" || m.TopicID.IsZero() {
		return fmt.Errorf("topic %q with id %s", m.Name, m.TopicID)
	}
	if _, ok := t.byName.Get(m.Name); ok {
		return fmt.Errorf("topic %q exists", m.Name)
	}
	_, exists := t.ids.find(m.TopicID)
	if _, had := d.base.topics.ids.find(m.TopicID); exists || had || d.removed[m.TopicID] {
		return fmt.Errorf("topic id %s is in use or was removed just now", m.TopicID)
	}
	slot := t.free
	if slot == noSlot {
		slot = t.used
		t.used++
	}
	s := d.writable(slot)
	if slot == t.free {
		t.free = s.nextFree
	}
	*s = topicSlot{id: m.TopicID, name: m.Name}
	d.ids.add(m.TopicID, slot)
	t.byName.Set(m.Name, slot)
	if form := lookalike(m.Name); form != "" {
		t.lookalikes.Set(lookalikeKey(form, m.Name), struct{}{})
	}
	d.last = d.touch(topicWork{id: m.TopicID, slot: slot, ownParts: true})
	return nil
}

func (d *Delta) replayRemoveTopic(m *record.RemoveTopic) error {
	w, err := d.work(m.TopicID)
	if err != nil {
		return err
	}
	t := &d.next.topics
	s := d.writable(w.slot)
	name := s.name
	d.ids.remove(m.TopicID)
	if d.removed == nil {
		d.removed = map[kafka.TopicID]bool{}
	}
	d.removed[m.TopicID] = true
	t.byName.Delete(name)
	if form := lookalike(name); form != "" {
		t.lookalikes.Delete(lookalikeKey(form, name))
	}
	t.partitions -= int(s.count)
	for pid := range s.parts {
		d.index.old = s.membersOf(kafka.PartitionID(pid), d.index.old)
		d.index.replace(partKey(w.slot, kafka.PartitionID(pid)), d.index.old, nil)
		w.changed.add(kafka.PartitionID(pid))
	}
	*s = topicSlot{nextFree: noSlot}
	d.freed = append(d.freed, w.slot)
	w.deleted = true
	d.removeConfigs(Resource{TopicResource, name})
	return nil
}

func (d *Delta) replayPartition(m *record.Partition) error {
	w, err := d.work(m.TopicID)
	if err != nil {
		return err
	}
	if m.PartitionID < 0 || m.PartitionID > MaxPartitionID {
		return fmt.Errorf("partition %d of topic %s is out of range", m.PartitionID, m.TopicID)
	}
	p, err := partitionOf(m)
	if err != nil {
		return fmt.Errorf("%s-%d: %w", m.TopicID, m.PartitionID, err)
	}
	d.setPartition(w, &p)
	return nil
}

func (d *Delta) replayPartitionChange(m *record.PartitionChange) error {
	w, err := d.work(m.TopicID)
	if err != nil {
		return err
	}
	s := d.next.topics.slot(w.slot)
	if q, ok := s.packedAt(m.PartitionID); ok && q.patch(m) {
		s = d.ownParts(w)
		old := &s.parts[m.PartitionID]
		d.index.patched(partKey(w.slot, m.PartitionID), old, &q)
		*old = q
		w.changed.add(m.PartitionID)
		return nil
	}
	p, ok := s.get(m.PartitionID, d.next.topics.dirs)
	if !ok {
		return fmt.Errorf("topic %s has no partition %d", m.TopicID, m.PartitionID)
	}
	if p, err = p.merge(m); err != nil {
		return fmt.Errorf("%s-%d: %w", m.TopicID, m.PartitionID, err)
	}
	d.setPartition(w, &p)
	return nil
}

// replayClearELR empties the eligible sets of one topic, or of all.
func (d *Delta) replayClearELR(m *record.ClearELR) error {
	t := &d.next.topics
	if m.TopicName != "" {
		slot, ok := t.byName.Get(m.TopicName)
		if !ok {
			return fmt.Errorf("%w: %q", errNoTopic, m.TopicName)
		}
		return d.clearELR(slot, 1)
	}
	return d.clearAllELR(1)
}

// clearAllELR empties the eligible sets of all topics and raises the epochs of
// the partitions that had some.
func (d *Delta) clearAllELR(epochs int32) error {
	var slots []int32
	d.next.topics.byName.Scan(func(_ string, slot int32) bool { slots = append(slots, slot); return true })
	for _, slot := range slots {
		if err := d.clearELR(slot, epochs); err != nil {
			return err
		}
	}
	return nil
}

func (d *Delta) clearELR(slot int32, epochs int32) error {
	s := d.next.topics.slot(slot)
	id := s.id
	for pid := range s.parts {
		p, ok := d.next.topics.slot(slot).get(kafka.PartitionID(pid), d.next.topics.dirs)
		if !ok || len(p.ELR)+len(p.LastKnownELR) == 0 {
			continue
		}
		w, err := d.work(id)
		if err != nil {
			return err
		}
		p.ELR, p.LastKnownELR = nil, nil
		p.PartitionEpoch += epochs
		d.setPartition(w, &p)
	}
	return nil
}

// intern numbers a directory id.
func (d *Delta) intern(dir kafka.DirectoryID) (uint16, bool) {
	t := d.next.topics.dirs
	if i, ok := t.index[dir]; ok {
		return i, true
	}
	if len(t.list) > math.MaxUint16 {
		return 0, false
	}
	if !d.ownDirs {
		t = t.clone()
		d.next.topics.dirs = t
		d.ownDirs = true
	}
	i := uint16(len(t.list))
	t.list = append(t.list, dir)
	t.index[dir] = i
	return i, true
}

// ownParts gives the topic's slot, with partitions that the delta may change.
func (d *Delta) ownParts(w *topicWork) *topicSlot {
	s := d.writable(w.slot)
	if !w.ownParts {
		s.parts, s.wide = slices.Clone(s.parts), slices.Clone(s.wide)
		w.ownParts = true
	}
	return s
}

// setPartition stores a partition that is new or has changed.
func (d *Delta) setPartition(w *topicWork, p *Partition) {
	s := d.ownParts(w)
	for int(p.ID) >= len(s.parts) {
		s.parts = append(s.parts, packed{})
	}
	w.changed.add(p.ID)
	old := s.parts[p.ID]
	if !old.present() {
		s.count++
		d.next.topics.partitions++
	}
	before := s.membersOf(p.ID, d.index.old)
	d.index.old = before
	defer func() {
		d.index.new = s.members(p.ID, d.index.new)
		d.index.replace(partKey(w.slot, p.ID), before, d.index.new)
	}()
	if q, ok := pack(p, d.intern); ok {
		if old.wide() {
			s.dropWide(int(old.nodes[0]))
		}
		s.parts[p.ID] = q
		return
	}
	p.normalize()
	at := int32(-1)
	if old.wide() {
		at = int32(old.nodes[0])
	} else if at = int32(slices.Index(s.wide, nil)); at < 0 {
		at = int32(len(s.wide))
		s.wide = append(s.wide, nil)
	}
	kept := *p
	s.wide[at] = &kept
	q := packed{flags: flagWide}
	q.nodes[0] = kafka.NodeID(at)
	q.setHead(p)
	s.parts[p.ID] = q
}

func (s *topicSlot) dropWide(at int) {
	s.wide[at] = nil
	for _, p := range s.wide {
		if p != nil {
			return
		}
	}
	s.wide = nil
}

// applyTopics frees the slots of deleted topics.
func (d *Delta) applyTopics() {
	d.index.finish()
	slices.Sort(d.freed)
	for _, slot := range d.freed {
		d.writable(slot).nextFree = d.next.topics.free
		d.next.topics.free = slot
	}
}
