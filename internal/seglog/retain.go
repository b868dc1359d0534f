package seglog

import (
	"errors"
	"io/fs"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// RemovalJob deletes files that were renamed to .deleted. It may be run on any
// goroutine at or after DueMs (file.delete.delay.ms); a restart drops the files
// too.
type RemovalJob struct {
	fs    vfs.FS
	Files []string
	DueMs kafka.WallMs
}

// Run deletes the files; ones that are gone (the folder was moved or deleted)
// are no error.
func (j RemovalJob) Run() error {
	var errs []error
	for _, f := range j.Files {
		if err := j.fs.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Retain removes segments from the front: those wholly below the log start, and
// those that retention.ms and retention.bytes give up, as far as they lie wholly
// below upTo (the high watermark). If even the active segment goes, a new one is
// rolled first. The log start rises to the first segment kept. Time is the
// largest timestamp of a segment's records, or its file's age if it has none.
// (UnifiedLog.deleteOldSegments.) Owner only.
//
// The renames become durable with the next flush. A power loss before it may
// bring some of these segments back, as if they had not been old enough.
func (l *Log) Retain(now kafka.WallMs, upTo kafka.Offset) ([]RemovalJob, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	jobs, err := l.ResumeSwap()
	if err != nil {
		return nil, err
	}
	n, err := l.deletable(now, upTo)
	if err != nil || n == 0 {
		return jobs, err
	}
	segs := l.list()
	if n == len(segs) {
		if err := l.Roll(now); err != nil {
			return jobs, err
		}
		segs = l.list()
	}
	keep := segs[n:]
	if err := l.AdvanceStart(max(keep[0].base, l.StartOffset())); err != nil {
		return jobs, err
	}
	l.segs.Store(&keep)
	for _, s := range segs[:n] {
		job, err := l.markDeleted(s, now)
		if err != nil {
			return jobs, l.fail(err)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// deletable counts the segments at the front that may go.
func (l *Log) deletable(now kafka.WallMs, upTo kafka.Offset) (int, error) {
	c := l.config.Load()
	segs := l.list()
	excess := int64(-1)
	if c.RetentionBytes >= 0 {
		excess = l.SizeBytes() - c.RetentionBytes
	}
	for i, s := range segs {
		next, size := l.EndOffset(), s.size.Load()
		last := i == len(segs)-1
		if !last {
			next = segs[i+1].base
		}
		if next > upTo || last && size == 0 {
			return i, nil
		}
		excess -= size
		if next <= l.StartOffset() && !last || c.RetentionBytes >= 0 && excess >= 0 {
			continue
		}
		old, err := l.expired(s, now, c.RetentionMs)
		if err != nil {
			return 0, err
		}
		if !old {
			return i, nil
		}
	}
	return len(segs), nil
}

func (l *Log) expired(s *segment, now kafka.WallMs, retentionMs int64) (bool, error) {
	if retentionMs < 0 {
		return false, nil
	}
	ts, err := l.newest(s)
	return err == nil && int64(now-ts) > retentionMs, err
}

// newest is the largest timestamp of a segment's records, or the time when its file
// was changed if they have none (LogSegment.largestTimestamp).
func (l *Log) newest(s *segment) (kafka.WallMs, error) {
	ts, err := l.largestTimestamp(s)
	if err != nil || ts >= 0 {
		return ts, err
	}
	info, err := l.fs().Stat(l.path(s.base, extLog))
	return kafka.WallMs(info.ModTimeMs), err
}
