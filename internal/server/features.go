package server

import (
	"moldau/internal/controller"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// Features are the feature levels that this binary supports: those of Apache
// Kafka 4.4, so that both can be nodes of one cluster.
func Features() []metadata.Feature {
	return []metadata.Feature{
		{Name: metadata.FeatureELR, Min: 0, Max: 1},
		{Name: metadata.FeatureGroup, Min: 0, Max: 1},
		{Name: metadata.FeatureKRaftVersion, Min: 0, Max: 1},
		{Name: metadata.FeatureMetadataVersion, Min: int16(metadata.MinVersion), Max: int16(metadata.LatestVersion)},
		{Name: metadata.FeatureShare, Min: 0, Max: 2},
		{Name: metadata.FeatureStreams, Min: 0, Max: 1},
		{Name: metadata.FeatureTransaction, Min: 0, Max: 2},
	}
}

// NewClusterFeatures are the levels of a cluster that is formatted with
// Kafka's newest release, in the order in which Kafka writes them.
func NewClusterFeatures() []controller.VersionedRecord {
	var out []controller.VersionedRecord
	for _, f := range []metadata.Feature{
		{Name: metadata.FeatureMetadataVersion, Max: int16(metadata.LatestVersion)},
		{Name: metadata.FeatureELR, Max: 1},
		{Name: metadata.FeatureGroup, Max: 1},
		{Name: metadata.FeatureShare, Max: 2},
		{Name: metadata.FeatureStreams, Max: 1},
		{Name: metadata.FeatureTransaction, Max: 2},
	} {
		out = append(out, controller.VersionedRecord{Message: &record.FeatureLevel{Name: f.Name, FeatureLevel: f.Max}})
	}
	return out
}
