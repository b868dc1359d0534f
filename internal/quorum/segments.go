package quorum

import (
	"errors"
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/seglog"
	"moldau/internal/vfs"
)

// reserveBytes are thousands of metadata records, or an hour of an idle node.
const reserveBytes = 1 << 20

// maxOpenSegments bounds the descriptors that the metadata log keeps.
const maxOpenSegments = 16

// LogConfig are the settings of the metadata log's segments.
type LogConfig struct {
	SegmentBytes int64 // metadata.log.segment.bytes
	SegmentMs    int64 // metadata.log.segment.ms
}

// segments makes a seglog the Log of a Store. Unlike Kafka's KafkaMetadataLog
// it keeps a mark: what lies below was durable and committed once, and to cut
// the log there would take metadata away without a word. It never covers what
// is not committed, which an Apache Kafka that runs on this folder in between
// may rightly cut.
type segments struct {
	log  *seglog.Log
	mark *recoveryMark
	hw   kafka.Offset // below it nobody may cut
	wall func() kafka.WallMs
	jobs []seglog.RemovalJob
	fs   vfs.FS
	// trimmed: a segment has been deleted, perhaps not durably.
	trimmed bool
	// abandoned: the log is damaged and must not be touched.
	abandoned bool
}

// OpenSegments opens the segmented log in folder. wall is the wall clock for
// rolling and for deleting files; warn, which may be nil, hears of tails that
// were cut off. Join must follow.
func OpenSegments(fsys vfs.FS, folder string, cfg LogConfig, wall func() kafka.WallMs, warn func(string, error)) (Log, error) {
	c := seglog.DefaultConfig()
	c.SegmentBytes, c.SegmentMs = cfg.SegmentBytes, cfg.SegmentMs
	c.RetentionMs, c.RetentionBytes = -1, -1 // only what lies below a snapshot goes
	mark, err := openRecoveryMark(fsys, folder)
	if err != nil {
		return nil, err
	}
	l, report, err := seglog.Open(seglog.Options{
		Env: seglog.NewEnv(seglog.NewFiles(fsys, maxOpenSegments)), Dir: folder, Config: c, Now: wall(), RecoveryPoint: mark.offset,
	})
	if err != nil {
		return nil, errors.Join(err, mark.Close())
	}
	for _, cut := range report.Cuts {
		if warn != nil {
			warn("torn tail of the metadata log was cut off", fmt.Errorf("%s: %d bytes from byte %d on: %s", cut.File, cut.Bytes, cut.Position, cut.Reason))
		}
	}
	return &segments{fs: fsys, log: l, mark: mark, hw: mark.offset, wall: wall}, nil
}

// Join implements Log.
func (s *segments) Join(snapshot kafka.Offset) error {
	var err error
	if snapshot < s.mark.offset {
		err = s.reachesMark(s.log.EndOffset())
	}
	if err == nil {
		err = s.closeGap(snapshot)
	}
	if err == nil {
		return nil
	}
	s.log.Abandon() // what is there stays as evidence
	s.abandoned = true
	return err
}

// whole tells whether the segment at from reaches to the next one at to.
func (s *segments) whole(from, to kafka.Offset) (bool, error) {
	r, err := s.log.Read(to-1, to, 1, true)
	if err != nil {
		return false, err
	}
	defer r.Release()
	return r.Len > 0 && r.SegmentBase == from, nil
}

// reachesMark refuses a log that ends, whole, before what was durable once:
// somebody has deleted or cut a file, and committed metadata with it.
func (s *segments) reachesMark(end kafka.Offset) error {
	if end >= s.mark.offset {
		return nil
	}
	segs := s.log.Segments()
	last := segs[0]
	for _, g := range segs {
		if g.BaseOffset <= end {
			last = g
		}
	}
	return &seglog.CorruptError{
		File: fmt.Sprintf("%s/%020d.log", s.log.Dir(), last.BaseOffset), Position: last.SizeBytes, Offset: end,
		Reason: fmt.Sprintf("the log ends here, but was durable and committed up to offset %d; restore the file that is missing or cut short (or, if somebody has truncated this log on purpose, remove %s)", s.mark.offset, markFile),
	}
}

// closeGap cuts the log where one segment does not continue the other. Power
// loss can take the unflushed end of a segment, at a batch boundary, and leave
// the next segment's file. In other logs compaction makes gaps; here there are
// none.
func (s *segments) closeGap(snapshot kafka.Offset) error {
	segs := s.log.Segments()
	for i := 1; i < len(segs); i++ {
		base := segs[i].BaseOffset
		if whole, err := s.whole(segs[i-1].BaseOffset, base); err != nil || whole {
			if err != nil {
				return err
			}
			continue
		}
		end, err := s.contiguous(segs[i-1].BaseOffset, base)
		if err != nil {
			return err
		}
		if snapshot < s.mark.offset {
			if err := s.reachesMark(end); err != nil {
				return err
			}
		}
		return s.TruncateTo(end)
	}
	return nil
}

// contiguous gives where the batches from one offset on cease to follow each other.
func (s *segments) contiguous(from, to kafka.Offset) (kafka.Offset, error) {
	for from < to {
		buf, err := s.Read(from, readChunkBytes)
		if err != nil {
			return 0, err
		}
		list, err := parseBatches(buf)
		if err != nil {
			return 0, err
		}
		if len(list) == 0 {
			return from, nil
		}
		for _, b := range list {
			if b.Base != from {
				return from, nil
			}
			from = b.Last + 1
		}
	}
	return from, nil
}

func (s *segments) StartOffset() kafka.Offset { return s.log.StartOffset() }
func (s *segments) EndOffset() kafka.Offset   { return s.log.EndOffset() }
func (s *segments) SizeBytes() int64          { return s.log.SizeBytes() }

func (s *segments) Epochs() []kafka.OffsetAndEpoch {
	list := s.log.Epochs()
	epochs := make([]kafka.OffsetAndEpoch, len(list))
	for i, e := range list {
		epochs[i] = kafka.OffsetAndEpoch{Offset: e.Start, Epoch: e.Epoch}
	}
	return epochs
}

// Append keeps some room ahead: records of topics may fill the disk, and the
// metadata that would make room, a deletion or a shorter retention, must find
// some. Without any left to set aside it goes on as long as it can.
func (s *segments) Append(b batch.Batch) error {
	if err := s.log.Append(s.wall(), b); err != nil {
		return err
	}
	_ = s.log.Reserve(reserveBytes)
	return nil
}

func (s *segments) Read(from kafka.Offset, maxBytes int) ([]byte, error) {
	r, err := s.log.Read(from, s.log.EndOffset(), maxBytes, true)
	if err != nil || r.Len == 0 {
		return nil, err
	}
	defer r.Release()
	buf := make([]byte, r.Len)
	n, err := r.ReadAt(buf, 0)
	if n == len(buf) {
		err = nil
	}
	return buf, err
}

// PrepareFlush also deletes, away from the owner, files whose time has come.
func (s *segments) PrepareFlush() FlushJob {
	job, removals := s.log.PrepareFlush(), s.Removals()
	return FlushJob{
		Run: func() error {
			if err := job.Run(); err != nil || removals == nil {
				return err
			}
			return removals()
		},
		Done: func() error {
			if err := s.log.FlushDone(job); err != nil {
				return err
			}
			return s.raiseMark()
		},
	}
}

// Removals implements Log.
func (s *segments) Removals() func() error {
	var due []seglog.RemovalJob
	keep := s.jobs[:0]
	for _, j := range s.jobs {
		if j.DueMs <= s.wall() {
			due = append(due, j)
		} else {
			keep = append(keep, j)
		}
	}
	if s.jobs = keep; len(due) == 0 {
		return nil
	}
	return func() error {
		for _, j := range due {
			if err := j.Run(); err != nil {
				return fmt.Errorf("delete old segments: %w", err)
			}
		}
		return nil
	}
}

func (s *segments) raiseMark() error { return s.mark.raise(min(s.log.RecoveryPoint(), s.hw)) }

// Committed implements Log.
func (s *segments) Committed(highWatermark kafka.Offset) error {
	s.hw = highWatermark
	return s.raiseMark()
}

func (s *segments) TruncateTo(end kafka.Offset) error {
	to, err := s.log.TruncationEnd(end)
	if err != nil {
		return err
	}
	if err := s.mark.lower(to); err != nil {
		return err
	}
	_, jobs, err := s.log.TruncateTo(end, s.wall())
	s.jobs = append(s.jobs, jobs...)
	return err
}

// TrimTo implements Log. The deletion of a segment is durable before that of the
// next: else a power loss could bring an old one back, and leave a hole that
// looks like the end of the log.
func (s *segments) TrimTo(start kafka.Offset) error {
	if err := s.log.AdvanceStart(start); err != nil {
		return err
	}
	for _, g := range s.log.Segments()[1:] {
		if g.BaseOffset > start {
			break
		}
		if s.trimmed && !mutantTrimUnordered {
			if err := s.fs.SyncDir(s.log.Dir()); err != nil {
				return err
			}
		}
		jobs, err := s.log.Retain(s.wall(), g.BaseOffset)
		s.jobs, s.trimmed = append(s.jobs, jobs...), true
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *segments) Reset(start kafka.OffsetAndEpoch) error {
	if err := s.mark.lower(0); err != nil {
		return err
	}
	jobs, err := s.log.TruncateFully(start.Offset, s.wall())
	s.jobs = append(s.jobs, jobs...)
	return err
}

func (s *segments) Close() error {
	if s.abandoned {
		return s.mark.Close()
	}
	err := s.log.Close()
	if err == nil {
		err = s.raiseMark()
	}
	return errors.Join(err, s.mark.Close())
}
