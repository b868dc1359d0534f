package seglog

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"moldau/internal/kafka"
)

// Errors of a log. They are wrapped with file names and offsets.
var (
	// ErrOffsetOutOfRange: below the log start or beyond the end.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrOffline: an earlier failure left the log in a state that is not known.
	ErrOffline = errors.New("log is offline")
	// ErrOutOfOrder: a batch begins below the log's end, or ends before it begins.
	ErrOutOfOrder = errors.New("batch does not continue the log")
	// ErrClosed: the log has been closed.
	ErrClosed = errors.New("log is closed")
)

// CorruptError reports damage that recovery must not cut away: it lies below
// the recovery point, where everything was durable once.
type CorruptError struct {
	File     string
	Position int64        // byte at which the bad entry begins
	Offset   kafka.Offset // that the entry should have had, at least
	Reason   string
}

// Error names file, position and offset.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is corrupt at byte %d (offset %d): %s", e.File, e.Position, e.Offset, e.Reason)
}

// Config is the part of a topic's configuration that the log follows. A Config
// is immutable once given to a log; SetConfig replaces it.
type Config struct {
	SegmentBytes       int64 // segment.bytes
	SegmentMs          int64 // segment.ms
	SegmentJitterMs    int64 // segment.jitter.ms
	SegmentIndexBytes  int64 // segment.index.bytes: bounds .index and .timeindex
	IndexIntervalBytes int64 // index.interval.bytes
	RetentionMs        int64 // retention.ms; −1 is for ever
	RetentionBytes     int64 // retention.bytes; −1 is no bound
	// Settings of compaction; they count when the owner cleans the log.
	DeleteRetentionMs  int64   // delete.retention.ms: how long tombstones stay
	MinCompactionLagMs int64   // min.compaction.lag.ms
	MaxCompactionLagMs int64   // max.compaction.lag.ms
	MinCleanableRatio  float64 // min.cleanable.dirty.ratio

	FileDeleteDelayMs int64 // file.delete.delay.ms
}

// DefaultConfig has Kafka's defaults.
func DefaultConfig() *Config {
	return &Config{
		SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600 * 1000, SegmentIndexBytes: 10 << 20,
		IndexIntervalBytes: 4096, RetentionMs: 7 * 24 * 3600 * 1000, RetentionBytes: -1, FileDeleteDelayMs: 60_000,
		DeleteRetentionMs: 24 * 3600 * 1000, MaxCompactionLagMs: math.MaxInt64, MinCleanableRatio: 0.5,
	}
}

// maxSegmentBytes is what positions in an index can express.
const maxSegmentBytes = 1<<31 - 1

// Env is what the logs of a node share.
type Env struct {
	Files *Files
	// Jitter gives a random number in [0, n); n ≥ 1. Nil means no jitter.
	Jitter func(n int64) int64
	// ProducerExpirationMs is producer.id.expiration.ms, changeable at run time.
	ProducerExpirationMs atomic.Int64
}

// DefaultProducerExpirationMs is Kafka's producer.id.expiration.ms.
const DefaultProducerExpirationMs = 86_400_000

// NewEnv makes an Env with Kafka's default expiration.
func NewEnv(files *Files) *Env {
	e := &Env{Files: files}
	e.ProducerExpirationMs.Store(DefaultProducerExpirationMs)
	return e
}

// Options say how to open a log.
type Options struct {
	Env    *Env
	Dir    string // the partition's folder; made if missing
	Config *Config
	// Clean says that the log was closed cleanly, so that nothing is scanned.
	Clean bool
	// Intact says that no power loss can have taken anything of what was written
	// (logdir.Intact): a segment that ends before the next one begins has lost no
	// tail, but is what Kafka's cleaner left, or its follower.
	Intact bool
	// StartOffset is from log-start-offset-checkpoint, or 0.
	StartOffset kafka.Offset
	// RecoveryPoint is from recovery-point-offset-checkpoint, or 0.
	RecoveryPoint kafka.Offset
	// Committed is an offset below which everything was durable and committed
	// once, or 0: a log that ends before it lacks a file, or the end of one.
	Committed kafka.Offset
	// CleanedTo is from cleaner-offset-checkpoint, or 0.
	CleanedTo kafka.Offset
	Now       kafka.WallMs
}

// Report tells what Open had to do to the folder. The zero value is: nothing.
type Report struct {
	Cuts    []Cut    // torn tails that were cut off
	Removed []string // files that were dropped: leftovers, orphans, segments behind a cut
	Rebuilt []string // side files that were missing or bad and were rebuilt
	Scanned int64    // bytes read for recovery
	Holes   int      // between segments beyond the recovery point, which were taken for compaction's
}

// Cut is a tail that recovery cut off.
type Cut struct {
	File     string
	Position int64
	Bytes    int64
	Reason   string
}
