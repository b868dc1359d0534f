package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"moldau/internal/kafka"
)

// Trim deletes old snapshots, and the log behind the oldest that stays, while
// log and snapshots together are larger than retentionBytes or the oldest
// snapshot is older than retentionMs (−1 is no bound). The newest snapshot
// always stays. It gives the new log start, with Offset 0 if nothing changed.
//
// Order: the next snapshot is durable already, then the log start moves, then
// files go, so that a crash anywhere leaves a log that joins a snapshot (HC-034).
func (s *Store) Trim(now kafka.WallMs, retentionBytes, retentionMs int64) (start kafka.OffsetAndEpoch, err error) {
	var zero kafka.OffsetAndEpoch
	for {
		list := s.snapshots
		if _, err := s.opts.FS.Stat(s.snapshotPath(zero)); err == nil {
			list = append([]kafka.OffsetAndEpoch{zero}, list...)
		}
		if len(list) < 2 {
			return start, nil
		}
		old, err := s.expired(list, now, retentionBytes, retentionMs)
		if err != nil || !old {
			return start, err
		}
		next := list[1]
		if err := s.log.TrimTo(next.Offset); err != nil {
			return start, fmt.Errorf("move the start of the metadata log to offset %d: %w", next.Offset, err)
		}
		if err := s.deleteSnapshot(list[0]); err != nil {
			return start, err
		}
		s.snapshots = slices.DeleteFunc(s.snapshots, func(id kafka.OffsetAndEpoch) bool { return id == list[0] })
		start = next
	}
}

func (s *Store) snapshotPath(id kafka.OffsetAndEpoch) string {
	return path.Join(s.folder, snapshotName(id))
}

// expired tells whether the oldest of the snapshots may go.
func (s *Store) expired(list []kafka.OffsetAndEpoch, now kafka.WallMs, retentionBytes, retentionMs int64) (bool, error) {
	total := s.log.SizeBytes()
	for i, id := range list {
		info, err := s.opts.FS.Stat(s.snapshotPath(id))
		if err != nil {
			return false, fmt.Errorf("stat snapshot: %w", err)
		}
		total += info.SizeBytes
		if i == 0 && retentionMs >= 0 && info.ModTimeMs > 0 && int64(now)-info.ModTimeMs > retentionMs {
			return true, nil
		}
	}
	return retentionBytes >= 0 && total > retentionBytes, nil
}

// deleteSnapshot renames first, as Kafka does, so that no half-deleted file
// bears a snapshot's name. A restart removes what is left.
func (s *Store) deleteSnapshot(id kafka.OffsetAndEpoch) error {
	name := s.snapshotPath(id)
	err := s.opts.FS.Rename(name, name+deletedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.opts.FS.Remove(name + deletedSuffix)
	}
	if err != nil {
		return fmt.Errorf("delete snapshot %s: %w", name, err)
	}
	return nil
}
