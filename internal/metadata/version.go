package metadata

import (
	"fmt"

	"moldau/internal/record"
)

// Version is a level of the feature metadata.version: it says which records
// and record versions may be written. Zero means that none is known yet.
type Version int16

// Levels at which something starts (Kafka's MetadataVersion).
const (
	MinVersion    Version = 7  // 3.3-IV3, the oldest that a KRaft log may have
	LatestVersion Version = 33 // 4.4-IV2, the newest that is safe in production
	maxVersion    Version = 34 // 4.5-IV0, known but not released

	versionMigration              Version = 8
	versionSCRAM                  Version = 11
	versionTransactions           Version = 13
	versionDelegationTokens       Version = 14
	versionControllerRegistration Version = 15
	versionDirectories            Version = 17
	versionELR                    Version = 23
	versionCordonedDirs           Version = 30
	versionUnregisterController   Version = 33
)

// Names of features.
const (
	FeatureMetadataVersion = "metadata.version"
	FeatureKRaftVersion    = "kraft.version"
	FeatureTransaction     = "transaction.version"
	FeatureGroup           = "group.version"
	FeatureELR             = "eligible.leader.replicas.version"
	FeatureShare           = "share.version"
	FeatureStreams         = "streams.version"
)

// versionNames are the names of the levels from MinVersion on.
func versionName(v Version) string {
	names := [...]string{"3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
		"3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2",
		"4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2", "4.5-IV0"}
	return names[v-MinVersion]
}

// String gives Kafka's name of the level, such as "4.4-IV2".
func (v Version) String() string {
	if !v.Known() {
		return fmt.Sprintf("metadata.version %d", int16(v))
	}
	return versionName(v)
}

// Known tells whether this binary understands the level.
func (v Version) Known() bool { return v >= MinVersion && v <= maxVersion }

// ParseVersion gives the level that Kafka calls by this name.
func ParseVersion(name string) (Version, bool) {
	for v := MinVersion; v <= maxVersion; v++ {
		if versionName(v) == name {
			return v, true
		}
	}
	return 0, false
}

// CanWriteTransactions: BeginTransaction and its kin may be written (KIP-868).
func (v Version) CanWriteTransactions() bool { return v >= versionTransactions }

// CanRegisterControllers: RegisterController may be written.
func (v Version) CanRegisterControllers() bool { return v >= versionControllerRegistration }

// CanUnregisterControllers: UnregisterController may be written.
func (v Version) CanUnregisterControllers() bool { return v >= versionUnregisterController }

// CanAssignDirectories: replicas carry directory ids (KIP-858).
func (v Version) CanAssignDirectories() bool { return v >= versionDirectories }

// CanUseELR: eligible leader replicas may be written (KIP-966), if the feature
// of that name is on too.
func (v Version) CanUseELR() bool { return v >= versionELR }

// CanUseSCRAM: SCRAM credentials may be written.
func (v Version) CanUseSCRAM() bool { return v >= versionSCRAM }

// CanUseDelegationTokens: delegation tokens may be written.
func (v Version) CanUseDelegationTokens() bool { return v >= versionDelegationTokens }

// CanCordonDirectories: registrations carry cordoned directories.
func (v Version) CanCordonDirectories() bool { return v >= versionCordonedDirs }

// RecordVersion is the version in which to write a record at this level.
func (v Version) RecordVersion(m record.Message) int16 {
	switch m := m.(type) {
	case *record.RegisterBroker:
		switch {
		case v >= versionCordonedDirs:
			return 4
		case v >= versionDirectories:
			return 3
		case v >= versionMigration:
			return 2
		}
		return 1
	case *record.Partition, *record.PartitionChange:
		return v.partitionVersion()
	case *record.BrokerRegistrationChange:
		// Kafka writes the lowest version that carries what is set.
		switch {
		case m.CordonedLogDirs != nil:
			return 3
		case len(m.LogDirs) > 0:
			return 2
		case m.InControlledShutdown != 0:
			return 1
		}
	}
	return 0
}

func (v Version) partitionVersion() int16 {
	switch {
	case v >= versionELR:
		return 2
	case v >= versionDirectories:
		return 1
	}
	return 0
}
