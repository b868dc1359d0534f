package sim

import (
	"hash/fnv"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/record"
)

// image is the replicated state: levels by name, with a checksum that does not
// depend on the order.
type image struct {
	levels map[string]int16
	sum    uint64
}

func newImage() image { return image{levels: map[string]int16{}} }

func entrySum(name string, level int16) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	h.Write([]byte{byte(level >> 8), byte(level)})
	return h.Sum64()
}

func (i *image) set(m record.Message) {
	f, ok := m.(*record.FeatureLevel)
	if !ok {
		return
	}
	if old, ok := i.levels[f.Name]; ok {
		i.sum ^= entrySum(f.Name, old)
	}
	i.levels[f.Name] = f.FeatureLevel
	i.sum ^= entrySum(f.Name, f.FeatureLevel)
}

func (i *image) replay(b raft.Batch) error {
	bb := batch.Batch(b.Bytes)
	if bb.Control() {
		return nil
	}
	return bb.EachRecord(func(r *batch.Record) error {
		m, _, err := record.DecodeMetadata(r.Value)
		if err == nil {
			i.set(m)
		}
		return err
	})
}

// snapshot writes the node's state at its applied offset.
func (n *node) snapshot() error {
	id := kafka.OffsetAndEpoch{Offset: n.applied, Epoch: n.core.EpochAt(n.applied - 1)}
	voters, kraft := n.core.VotersAt(id.Offset)
	now := n.clock().Wall
	sw, err := n.store.NewSnapshot(id, now, now, kraft, voters)
	if err != nil || sw == nil {
		return err
	}
	for k := range keys {
		m := record.NewFeatureLevel()
		m.Name = keyName(k)
		level, ok := n.image.levels[m.Name]
		if !ok {
			continue
		}
		m.FeatureLevel = level
		if err := sw.Add(m, 0); err != nil {
			return err
		}
	}
	if err := sw.Freeze(); err != nil {
		return err
	}
	if err := n.store.Snapshotted(id); err != nil {
		return err
	}
	n.w.counts.Snapshots++
	return nil
}
