package metadata

import (
	"encoding/binary"
	"slices"

	"moldau/internal/kafka"
)

// Sizes of topicIDs: how many ids a page holds on average before the number of
// pages doubles, and how many pages are copied together.
const (
	pageEntries = 16
	groupPages  = 64
)

// topicIDs finds the slot of a topic by its id: a hash table of small pages, in
// groups. Neither a page nor a group that images share is ever changed, only
// replaced. A lookup touches two places in memory that are not in the cache,
// where a tree touches a dozen.
type topicIDs struct {
	groups []*pageGroup // a power of two of them
	count  int
}

type pageGroup [groupPages][]idEntry

type idEntry struct {
	id   kafka.TopicID
	slot int32
}

// page finds group and page of an id. It mixes all bits: ids are random, but
// need not be.
func (t *topicIDs) page(id *kafka.TopicID) (group, page int) {
	h := binary.LittleEndian.Uint64(id[:8])*0x9e3779b97f4a7c15 ^ binary.LittleEndian.Uint64(id[8:])*0xc2b2ae3d27d4eb4f
	h ^= h >> 32
	h = h * 0x9e3779b97f4a7c15 >> 20
	return int(h / groupPages & uint64(len(t.groups)-1)), int(h % groupPages)
}

func (t *topicIDs) find(id kafka.TopicID) (int32, bool) {
	if t.count == 0 {
		return 0, false
	}
	g, p := t.page(&id)
	page := t.groups[g][p]
	for i := range page {
		if page[i].id == id {
			return page[i].slot, true
		}
	}
	return 0, false
}

// idWriter changes the table of one delta; own says what it may change in place.
type idWriter struct {
	*topicIDs
	own []bool // groups; nil before the first change
}

// at gives a page to replace.
func (w *idWriter) at(id *kafka.TopicID) *[]idEntry {
	if w.own == nil {
		w.groups, w.own = slices.Clone(w.groups), make([]bool, len(w.groups))
	}
	g, p := w.page(id)
	if !w.own[g] {
		c := *w.groups[g]
		w.groups[g], w.own[g] = &c, true
	}
	return &w.groups[g][p]
}

// add takes in an id that is not there.
func (w *idWriter) add(id kafka.TopicID, slot int32) {
	if w.count >= len(w.groups)*groupPages*pageEntries {
		w.grow()
	}
	p := w.at(&id)
	page := make([]idEntry, len(*p)+1) // no room to spare
	page[copy(page, *p)] = idEntry{id, slot}
	*p = page
	w.count++
}

// remove drops an id that is there.
func (w *idWriter) remove(id kafka.TopicID) {
	p := w.at(&id)
	*p = slices.DeleteFunc(slices.Clone(*p), func(e idEntry) bool { return e.id == id })
	w.count--
}

func (w *idWriter) grow() {
	old := w.groups
	w.groups = make([]*pageGroup, max(1, 2*len(old)))
	w.own = make([]bool, len(w.groups))
	for i := range w.groups {
		w.groups[i], w.own[i] = new(pageGroup), true
	}
	for _, g := range old {
		for _, page := range g {
			for _, e := range page {
				p := w.at(&e.id)
				*p = append(*p, e)
			}
		}
	}
}
