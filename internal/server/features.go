package server

import (
	"strconv"

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

// FeatureOf gives name and level of a record that sets a feature, or "".
func FeatureOf(r controller.VersionedRecord) (name, level string) {
	if f, ok := r.Message.(*record.FeatureLevel); ok {
		return f.Name, strconv.Itoa(int(f.FeatureLevel))
	}
	return "", ""
}

// VersionName gives Kafka's name of the metadata.version that a record sets, or "".
func VersionName(r controller.VersionedRecord) string {
	if f, ok := r.Message.(*record.FeatureLevel); ok && f.Name == metadata.FeatureMetadataVersion {
		return metadata.Version(f.FeatureLevel).String()
	}
	return ""
}
