package sim

import (
	"moldau/internal/controller"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

const (
	clusterID   = "cluster"
	latestLevel = int16(metadata.LatestVersion)
)

// features are what every node supports.
func features() []metadata.Feature {
	return []metadata.Feature{
		{Name: metadata.FeatureMetadataVersion, Min: int16(metadata.MinVersion), Max: latestLevel},
		{Name: metadata.FeatureKRaftVersion, Max: 1}, {Name: metadata.FeatureELR, Max: 1}, {Name: metadata.FeatureGroup, Max: 1},
		{Name: metadata.FeatureTransaction, Max: 2}, {Name: metadata.FeatureShare, Max: 1},
	}
}

// bootstrapRecords set the levels at format.
func (w *World) bootstrapRecords() []controller.VersionedRecord {
	var out []controller.VersionedRecord
	add := func(name string, level int16) {
		m := record.NewFeatureLevel()
		m.Name, m.FeatureLevel = name, level
		out = append(out, controller.VersionedRecord{Message: m})
	}
	add(metadata.FeatureMetadataVersion, w.swarm.level)
	if w.swarm.elr {
		add(metadata.FeatureELR, 1)
	}
	return out
}

// rules allow every setting; those that the controller reads have defaults.
type rules struct{}

func (rules) CheckTopic(string, string) error                      { return nil }
func (rules) CheckTopicSet(map[string]string) error                { return nil }
func (rules) CheckBroker(string, string, bool) error               { return nil }
func (rules) CheckGroup(map[string]string) error                   { return nil }
func (rules) CheckClientMetrics(map[string]string) (bool, error)   { return false, nil }
func (rules) IsList(metadata.ResourceType, string) bool            { return false }
func (rules) Default(metadata.ResourceType, string) (string, bool) { return "", false }
func (rules) TopicDefaults() []controller.TopicDefault             { return nil }
