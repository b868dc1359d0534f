package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"moldau/internal/record"
)

// Kept shows what the log must be able to give back, for checks: two coordinators
// of the same log show the same.
func (c *Coordinator) Kept() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		g := *c.groups[id]
		g.classic, g.simple = nil, false // after compaction, an empty group is no group
		if g.void() {
			continue
		}
		fmt.Fprintf(&b, "%s:", id)
		if g.saved != nil {
			fmt.Fprintf(&b, " group=%x", record.AppendValue(nil, g.saved, groupMetadataVersion))
		}
		for _, k := range g.sortedKeys() {
			fmt.Fprintf(&b, " %s/%d=%+v", k.topic, k.partition, g.offsets[k])
		}
		for _, k := range slices.SortedFunc(maps.Keys(g.open), offsetKey.compare) {
			fmt.Fprintf(&b, " open %s/%d=%d", k.topic, k.partition, g.open[k])
		}
		if f := g.foreign; f != nil {
			fmt.Fprintf(&b, " %s epoch=%d target=%d keys=%d members=%d", f.kind, f.epoch, f.target, len(f.keys), len(f.members))
		}
		b.WriteString("\n")
	}
	return b.String()
}
