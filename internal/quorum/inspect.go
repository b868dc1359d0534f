package quorum

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// Reader reads the folder of a metadata log without changing anything, beside
// a node that runs on it or after Apache Kafka. Records at the end may not be
// committed: the files do not tell. Not safe for concurrent use.
type Reader struct {
	fs       vfs.FS
	folder   string
	segments []kafka.Offset
	// Snapshots are the ids of the snapshots, ascending, the 0-0 checkpoint
	// among them.
	Snapshots []kafka.OffsetAndEpoch
}

// NewReader lists the folder in dir, a metadata log directory.
func NewReader(fsys vfs.FS, dir string) (*Reader, error) {
	r := &Reader{fs: fsys, folder: path.Join(dir, Folder)}
	entries, err := fsys.ReadDir(r.folder)
	if err != nil {
		return nil, fmt.Errorf("no metadata log in %s: %w", dir, err)
	}
	for _, e := range entries {
		if id, ok := parseSnapshotName(e.Name); ok {
			r.Snapshots = append(r.Snapshots, id)
		}
		if stem, ok := strings.CutSuffix(e.Name, ".log"); ok && len(stem) == 20 {
			if base, err := strconv.ParseInt(stem, 10, 64); err == nil {
				r.segments = append(r.segments, kafka.Offset(base))
			}
		}
	}
	slices.Sort(r.segments)
	slices.SortFunc(r.Snapshots, compareSnapshots)
	return r, nil
}

// EachBatch calls f with the batches of the log that reach beyond from, until f
// fails. A torn end of the last segment ends the log.
func (r *Reader) EachBatch(from kafka.Offset, f func(batch.Batch) error) error {
	for i, base := range r.segments {
		if i+1 < len(r.segments) && r.segments[i+1] <= from {
			continue
		}
		if err := r.eachIn(base, i+1 == len(r.segments), from, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) eachIn(base kafka.Offset, last bool, from kafka.Offset, f func(batch.Batch) error) error {
	name := path.Join(r.folder, fmt.Sprintf("%020d.log", base))
	file, err := r.fs.Open(name, vfs.ReadOnly)
	if err != nil {
		return err
	}
	defer file.Close()
	for pos := int64(0); ; {
		b, err := nextEntry(file, pos)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && last:
			return nil // what was being written, or room set aside
		case err != nil:
			return fmt.Errorf("%s, byte %d: %w", name, pos, err)
		}
		pos += int64(len(b))
		if b.LastOffset() < from {
			continue
		}
		if err := f(b); err != nil {
			return err
		}
	}
}

// EachSnapshotRecord calls f with the records of a snapshot.
func (r *Reader) EachSnapshotRecord(id kafka.OffsetAndEpoch, f func(record.Message, int16) error) error {
	_, err := readSnapshot(r.fs, path.Join(r.folder, snapshotName(id)), id.Offset, f)
	return err
}

// errReached ends a walk through the log.
var errReached = errors.New("reached")

// Image makes the image of all records below end, or of the whole log if end is
// negative. Its provenance tells how far the records went.
func (r *Reader) Image(end kafka.Offset) (*metadata.Image, error) {
	delta := metadata.NewDelta(metadata.Empty())
	p := metadata.Provenance{Epoch: kafka.NoEpoch, TimestampMs: kafka.NoTimestamp}
	for _, id := range slices.Backward(r.Snapshots) {
		if id.Offset == 0 || end >= 0 && id.Offset > end {
			continue
		}
		if err := r.EachSnapshotRecord(id, func(m record.Message, _ int16) error { return delta.Replay(m) }); err != nil {
			return nil, err
		}
		p.EndOffset, p.Epoch = id.Offset, id.Epoch
		break
	}
	if len(r.segments) > 0 && r.segments[0] > p.EndOffset {
		return nil, fmt.Errorf("%w: the state at offset %d can no longer be told, the log starts at %d", ErrLogStart, end, r.segments[0])
	}
	err := r.EachBatch(p.EndOffset, func(b batch.Batch) error {
		if b.BaseOffset() < p.EndOffset {
			return nil // the snapshot contains it
		}
		if end >= 0 && b.BaseOffset() >= end {
			return errReached
		}
		p = metadata.Provenance{EndOffset: b.NextOffset(), Epoch: b.LeaderEpoch(), TimestampMs: b.MaxTimestamp()}
		return replayBatch(delta, b)
	})
	if err != nil && !errors.Is(err, errReached) {
		return nil, err
	}
	return delta.Apply(p), nil
}
