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

// topicWork is a topic that a delta has touched.
type topicWork struct {
	slot     int32
	deleted  bool
	ownParts bool
	changed  map[kafka.PartitionID]struct{}
}

// writable gives a slot that the delta may change.
func (d *Delta) writable(slot int32) *topicSlot {
	t := &d.next.topics
	n := slot / chunkSlots
	if !d.ownSpine {
		t.chunks = slices.Clone(t.chunks)
		d.ownSpine = true
	}
	for int(n) >= len(t.chunks) {
		t.chunks = append(t.chunks, new(chunk))
		d.ownChunk[int32(len(t.chunks)-1)] = true
	}
	if !d.ownChunk[n] {
		c := *t.chunks[n]
		t.chunks[n] = &c
		d.ownChunk[n] = true
	}
	return t.slot(slot)
}

// work finds a topic that exists now: a removal earlier in this delta counts.
func (d *Delta) work(id kafka.TopicID) (*topicWork, error) {
	if w := d.topics[id]; w != nil {
		if w.deleted {
			return nil, fmt.Errorf("%w: %s was removed", errNoTopic, id)
		}
		return w, nil
	}
	slot, ok := d.next.topics.findID(id)
	if !ok {
		return nil, fmt.Errorf("%w: %s", errNoTopic, id)
	}
	w := &topicWork{slot: slot, changed: map[kafka.PartitionID]struct{}{}}
	d.topics[id] = w
	return w, nil
}

func (d *Delta) replayTopic(m *record.Topic) error {
	t := &d.next.topics
	if m.Name == "" || m.TopicID.IsZero() {
		return fmt.Errorf("topic %q with id %s", m.Name, m.TopicID)
	}
	if _, ok := t.byName.Get(m.Name); ok {
		return fmt.Errorf("topic %q exists", m.Name)
	}
	if _, ok := t.findID(m.TopicID); ok || d.topics[m.TopicID] != nil {
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
	t.byID.Set(idEntry{m.TopicID, slot})
	t.byName.Set(m.Name, slot)
	if form := lookalike(m.Name); form != "" {
		t.lookalikes.Set(lookalikeKey(form, m.Name), struct{}{})
	}
	d.topics[m.TopicID] = &topicWork{slot: slot, ownParts: true, changed: map[kafka.PartitionID]struct{}{}}
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
	t.byID.Delete(idEntry{id: m.TopicID})
	t.byName.Delete(name)
	if form := lookalike(name); form != "" {
		t.lookalikes.Delete(lookalikeKey(form, name))
	}
	t.partitions -= int(s.count)
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
	p, ok := d.next.topics.slot(w.slot).get(m.PartitionID, d.next.topics.dirs)
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

// setPartition stores a partition that is new or has changed.
func (d *Delta) setPartition(w *topicWork, p *Partition) {
	s := d.writable(w.slot)
	if !w.ownParts {
		s.parts, s.wide = slices.Clone(s.parts), slices.Clone(s.wide)
		w.ownParts = true
	}
	for int(p.ID) >= len(s.parts) {
		s.parts = append(s.parts, packed{})
	}
	w.changed[p.ID] = struct{}{}
	old := s.parts[p.ID]
	if !old.present() {
		s.count++
		d.next.topics.partitions++
	}
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

// applyTopics brings the broker index up to date and frees slots.
func (d *Delta) applyTopics() {
	x := indexer{index: d.next.index, owned: map[kafka.NodeID]*brokerParts{}}
	var oldBuf, newBuf []member
	for id, w := range d.topics {
		var before, after *topicSlot
		if slot, ok := d.base.topics.findID(id); ok {
			before = d.base.topics.slot(slot)
		}
		if !w.deleted {
			after = d.next.topics.slot(w.slot)
		}
		if w.deleted && before != nil {
			// All that the base had goes, also what did not change before.
			for pid := range before.parts {
				w.changed[kafka.PartitionID(pid)] = struct{}{}
			}
		}
		for pid := range w.changed {
			oldBuf, newBuf = before.membersOf(pid, oldBuf), after.membersOf(pid, newBuf)
			x.replace(partKey(w.slot, pid), oldBuf, newBuf)
		}
	}
	x.finish()
	slices.Sort(d.freed)
	for _, slot := range d.freed {
		d.writable(slot).nextFree = d.next.topics.free
		d.next.topics.free = slot
	}
}

// membersOf is members of a topic or partition that may not exist.
func (s *topicSlot) membersOf(id kafka.PartitionID, buf []member) []member {
	if s == nil || int(id) >= len(s.parts) || !s.parts[id].present() {
		return buf[:0]
	}
	return s.members(id, buf)
}
