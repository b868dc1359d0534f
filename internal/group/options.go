package group

import "moldau/internal/kafka"

// Options are the settings of a Coordinator; they do not change while it lives.
type Options struct {
	MinSessionMs            int32 // group.min.session.timeout.ms
	MaxSessionMs            int32 // group.max.session.timeout.ms
	MaxSize                 int32 // group.max.size
	InitialRebalanceDelayMs int32 // group.initial.rebalance.delay.ms
	NewMemberJoinTimeoutMs  int32 // how long a new member may wait for its first generation; Kafka: 5 minutes
	MaxMetadataSize         int32 // offset.metadata.max.bytes, in UTF-16 units as Kafka counts
	RetentionMs             int64 // offsets.retention.minutes
	RetentionCheckMs        int64 // offsets.retention.check.interval.ms
	// UUID draws the unique part of member ids.
	UUID func() kafka.UUID
}
