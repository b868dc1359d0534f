package quorum

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// part is the snapshot that is being downloaded, in a .part file.
type part struct {
	id   kafka.OffsetAndEpoch
	file vfs.File
	end  int64
}

// SealJob verifies a downloaded snapshot and makes it durable under its name.
type SealJob struct {
	ID kafka.OffsetAndEpoch
	// Run may be called on any goroutine, once. emit gets the records of the
	// image. ErrSnapshot says that the content is damaged: the file is gone, and
	// another download may bring better. Every other error is fatal.
	Run func(emit func(record.Message, int16) error) (Sealed, error)
}

// Sealed is what a sealed snapshot holds besides the image's records.
type Sealed struct {
	LastContained kafka.WallMs
	Control       []raft.Control
}

// WriteSnapshot implements Disk.
func (s *Store) WriteSnapshot(p *raft.SnapshotPart) error {
	if p.Position == 0 {
		if err := s.dropPart(); err != nil {
			return err
		}
		f, err := s.opts.FS.Open(s.snapshotPath(p.ID)+fetchedSuffix, vfs.CreateTruncate)
		if err != nil {
			return err
		}
		s.part = &part{id: p.ID, file: f}
	}
	if s.part == nil || s.part.id != p.ID || s.part.end != p.Position {
		return fmt.Errorf("%w: part at byte %d does not continue the download", ErrSnapshot, p.Position)
	}
	n, err := s.part.file.WriteAt(p.Bytes, p.Position)
	s.part.end += int64(n)
	return err
}

// dropPart removes a download that was given up.
func (s *Store) dropPart() error {
	if s.part == nil {
		return nil
	}
	p := s.part
	s.part = nil
	return errors.Join(p.file.Close(), s.opts.FS.Remove(s.snapshotPath(p.id)+fetchedSuffix))
}

// SealSnapshot implements Disk.
func (s *Store) SealSnapshot(id kafka.OffsetAndEpoch) error {
	p := s.part
	if p == nil || p.id != id {
		return fmt.Errorf("%w: it was not downloaded", ErrSnapshot)
	}
	s.part = nil
	s.opts.Seal(SealJob{ID: id, Run: func(emit func(record.Message, int16) error) (Sealed, error) {
		return s.seal(p, emit)
	}})
	return nil
}

// seal touches nothing of the Store but its options: it runs beside the owner.
func (s *Store) seal(p *part, emit func(record.Message, int16) error) (Sealed, error) {
	name := s.snapshotPath(p.id)
	if err := errors.Join(p.file.Sync(), p.file.Close()); err != nil {
		return Sealed{}, err
	}
	content, err := readSnapshot(s.opts.FS, name+fetchedSuffix, p.id.Offset, emit)
	if err != nil {
		if !errors.Is(err, errRecord) {
			err = fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
		return Sealed{}, errors.Join(err, s.opts.FS.Remove(name+fetchedSuffix))
	}
	if err = s.opts.FS.Rename(name+fetchedSuffix, name); err == nil {
		err = s.opts.FS.SyncDir(path.Dir(name))
	}
	return Sealed(content), err
}

// ResetLog implements Disk. The snapshot is durable, so that a crash at any
// point in here leaves a log that a start drops in its favour (HC-039).
func (s *Store) ResetLog(id kafka.OffsetAndEpoch) error {
	if err := s.log.Reset(id); err != nil {
		return err
	}
	old := s.snapshots
	s.snapshots = []kafka.OffsetAndEpoch{id}
	for _, o := range append(slices.Clone(old), kafka.OffsetAndEpoch{}) {
		if o == id {
			continue
		}
		if err := s.deleteSnapshot(o); err != nil {
			return err
		}
	}
	return nil
}

// ReadSnapshot implements Disk. Only snapshots that are durable are served, and
// never the 0-0 checkpoint (Trap 5).
func (s *Store) ReadSnapshot(id kafka.OffsetAndEpoch, position int64, maxBytes int) (int64, []byte, kafka.ErrorCode, error) {
	if !slices.Contains(s.snapshots, id) {
		return 0, nil, kafka.ErrSnapshotNotFound, nil
	}
	f, err := s.opts.FS.Open(s.snapshotPath(id), vfs.ReadOnly)
	if err != nil {
		return 0, nil, kafka.NoError, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, nil, kafka.NoError, err
	}
	if position < 0 || position >= size {
		return size, nil, kafka.ErrPositionOutOfRange, nil
	}
	buf := make([]byte, min(int64(maxBytes), size-position))
	n, err := f.ReadAt(buf, position)
	if n == len(buf) || errors.Is(err, io.EOF) {
		err = nil
	}
	return size, buf[:n], kafka.NoError, err
}
