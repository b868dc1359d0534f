package partition

import (
	"moldau/internal/batch"
	"moldau/internal/config"
	"moldau/internal/seglog"
)

// Settings are the topic settings in the form in which a partition uses them.
// They are immutable.
type Settings struct {
	Rules         batch.Rules
	MinInSync     int
	SegmentBytes  int64
	FlushMessages int64
	FlushMs       int64
	Compact       bool
	CompactOnly   bool // only compaction may remove records
	Log           *seglog.Config
}

// SettingsOf derives the settings of a partition from those of its topic.
func SettingsOf(t config.Topic) *Settings {
	s := &Settings{
		Rules: batch.Rules{
			MaxBatchBytes: t.MaxMessageBytes, MaxRecordBytes: t.MaxDecompressedBytes,
			Compacted: t.Compact, LogAppendTime: t.LogAppendTime,
			BeforeMaxMs: t.TimestampBeforeMaxMs, AfterMaxMs: t.TimestampAfterMaxMs,
		},
		MinInSync: t.MinInSyncReplicas, SegmentBytes: t.SegmentBytes,
		FlushMessages: t.FlushMessages, FlushMs: t.FlushMs, Compact: t.Compact, CompactOnly: t.Compact && !t.Delete,
		Log: &seglog.Config{
			SegmentBytes: t.SegmentBytes, SegmentMs: t.SegmentMs, SegmentJitterMs: t.SegmentJitterMs,
			SegmentIndexBytes: int64(t.SegmentIndexBytes), IndexIntervalBytes: int64(t.IndexIntervalBytes),
			RetentionMs: t.RetentionMs, RetentionBytes: t.RetentionBytes, FileDeleteDelayMs: t.FileDeleteDelayMs,
			DeleteRetentionMs: t.DeleteRetentionMs, MinCompactionLagMs: t.MinCompactionLagMs, MaxCompactionLagMs: t.MaxCompactionLagMs,
			MinCleanableRatio: t.MinCleanableDirtyRatio,
		},
	}
	if t.Compact && t.MaxCompactionLagMs > 0 {
		// What lies in the active segment is not compacted (LogConfig.maxSegmentMs).
		s.Log.SegmentMs = min(s.Log.SegmentMs, t.MaxCompactionLagMs)
	}
	if !t.Delete {
		s.Log.RetentionMs, s.Log.RetentionBytes = -1, -1
	}
	switch t.CompressionType {
	case "uncompressed":
		s.Rules.Recompress, s.Rules.Codec = true, batch.None
	case "gzip":
		s.Rules.Recompress, s.Rules.Codec, s.Rules.Level = true, batch.Gzip, t.GzipLevel
	case "snappy":
		s.Rules.Recompress, s.Rules.Codec = true, batch.Snappy
	case "lz4":
		s.Rules.Recompress, s.Rules.Codec, s.Rules.Level = true, batch.LZ4, t.LZ4Level
	case "zstd":
		s.Rules.Recompress, s.Rules.Codec, s.Rules.Level = true, batch.Zstd, t.ZstdLevel
	}
	return s
}
