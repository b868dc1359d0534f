package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Topic holds the settings of one topic in force on this broker.
type Topic struct {
	Compact, Delete          bool // cleanup.policy
	CompressionType          string
	GzipLevel                int
	LZ4Level                 int
	ZstdLevel                int
	MaxMessageBytes          int
	MaxDecompressedBytes     int64
	LogAppendTime            bool
	TimestampBeforeMaxMs     int64
	TimestampAfterMaxMs      int64
	MinInSyncReplicas        int
	SegmentBytes             int64
	SegmentMs                int64
	SegmentJitterMs          int64
	SegmentIndexBytes        int
	IndexIntervalBytes       int
	RetentionMs              int64 // −1: no limit
	RetentionBytes           int64 // −1: no limit
	FlushMessages            int64
	FlushMs                  int64
	FileDeleteDelayMs        int64
	Preallocate              bool
	DeleteRetentionMs        int64
	MinCompactionLagMs       int64
	MaxCompactionLagMs       int64
	MinCleanableDirtyRatio   float64
	UncleanLeaderElection    bool
	LeaderThrottledReplicas  string
	FollowerThrottledReplica string
}

// ResolveTopic puts together the settings of a topic. Values that a log or a
// file holds are taken as they are if they parse; one that does not counts as
// unset, since it was checked when it was set.
func ResolveTopic(l Layers) Topic {
	text := func(name string) string { v, _ := l.TopicValue(name); return strings.TrimSpace(v) }
	long := func(name string) int64 {
		n, err := strconv.ParseInt(text(name), 10, 64)
		if err != nil {
			k, _ := TopicKey(name)
			n, _ = strconv.ParseInt(k.Default, 10, 64)
		}
		return n
	}
	flag := func(name string) bool { return strings.EqualFold(text(name), "true") }
	policy := SplitList(text("cleanup.policy"))
	ratio, err := strconv.ParseFloat(text("min.cleanable.dirty.ratio"), 64)
	if err != nil {
		ratio = 0.5
	}
	return Topic{
		Compact:                  slices.Contains(policy, "compact"),
		Delete:                   slices.Contains(policy, "delete"),
		CompressionType:          text("compression.type"),
		GzipLevel:                int(long("compression.gzip.level")),
		LZ4Level:                 int(long("compression.lz4.level")),
		ZstdLevel:                int(long("compression.zstd.level")),
		MaxMessageBytes:          int(long("max.message.bytes")),
		MaxDecompressedBytes:     long("max.decompressed.message.bytes"),
		LogAppendTime:            text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMs:     long("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs:      long("message.timestamp.after.max.ms"),
		MinInSyncReplicas:        int(long("min.insync.replicas")),
		SegmentBytes:             long("segment.bytes"),
		SegmentMs:                long("segment.ms"),
		SegmentJitterMs:          long("segment.jitter.ms"),
		SegmentIndexBytes:        int(long("segment.index.bytes")),
		IndexIntervalBytes:       int(long("index.interval.bytes")),
		RetentionMs:              long("retention.ms"),
		RetentionBytes:           long("retention.bytes"),
		FlushMessages:            long("flush.messages"),
		FlushMs:                  long("flush.ms"),
		FileDeleteDelayMs:        long("file.delete.delay.ms"),
		Preallocate:              flag("preallocate"),
		DeleteRetentionMs:        long("delete.retention.ms"),
		MinCompactionLagMs:       long("min.compaction.lag.ms"),
		MaxCompactionLagMs:       long("max.compaction.lag.ms"),
		MinCleanableDirtyRatio:   ratio,
		UncleanLeaderElection:    flag("unclean.leader.election.enable"),
		LeaderThrottledReplicas:  text("leader.replication.throttled.replicas"),
		FollowerThrottledReplica: text("follower.replication.throttled.replicas"),
	}
}

// CheckTopic checks one override of a topic: the name must be known
// ("Unknown topic config name: …") and the value acceptable.
func CheckTopic(name, value string) error {
	k, ok := TopicKey(name)
	if !ok {
		return fmt.Errorf("Unknown topic config name: %s", name)
	}
	return k.Check(value)
}

// CheckTopicTogether checks what single values cannot show: that the overrides
// of a topic do not contradict each other (LogConfig.validateValues).
func CheckTopicTogether(l Layers) error {
	t := ResolveTopic(l)
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		return fmt.Errorf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)",
			t.MinCompactionLagMs, t.MaxCompactionLagMs)
	}
	return nil
}
