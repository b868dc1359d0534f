package metadata

import (
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// The eligible sets end with the feature, since a snapshot of that time cannot
// carry them: later, when it is on again, a node that has followed the log must
// know the same as one that began with the snapshot. The partition epoch stays,
// as it does for a JVM that loads the snapshot. Found by the simulator. Fails if
// replayFeature does not clear them.
func TestELREndsWithItsFeature(t *testing.T) {
	topic := kafka.TopicID{1}
	level := func(name string, l int16) record.Message { return &record.FeatureLevel{Name: name, FeatureLevel: l} }
	part := record.NewPartition()
	part.TopicID, part.PartitionID, part.Leader, part.Replicas, part.ISR = topic, 0, 1, []kafka.NodeID{1, 2}, []kafka.NodeID{1}
	part.EligibleLeaderReplicas = []kafka.NodeID{2}
	d := NewDelta(Empty())
	for _, m := range []record.Message{
		level(FeatureMetadataVersion, int16(LatestVersion)), level(FeatureELR, 1), &record.Topic{Name: "t", TopicID: topic}, part, level(FeatureELR, 0),
	} {
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
	}
	img := d.Apply(Provenance{EndOffset: 5})
	again := NewDelta(Empty())
	if err := img.WriteSnapshot(func(m record.Message, _ int16) error { return again.Replay(m) }); err != nil {
		t.Fatal(err)
	}
	if again.Apply(img.Provenance()).Hash() != img.Hash() {
		t.Error("the snapshot has another state")
	}
	if p, _ := img.TopicByName("t").Partition(0); len(p.ELR) > 0 || p.PartitionEpoch != part.PartitionEpoch {
		t.Errorf("%+v", p)
	}
}
