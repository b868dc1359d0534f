package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// FormatOptions say how a new metadata log begins.
type FormatOptions struct {
	FS  vfs.FS
	Dir string // metadata log directory
	// KRaft is kraft.version: 0 with controller.quorum.voters, else 1.
	KRaft int16
	// Voters of kraft.version 1: this node alone (--standalone), those of
	// --initial-controllers, or none (--no-initial-controllers).
	Voters raft.VoterSet
	// Records set the features, metadata.version first, and may add SCRAM users.
	Records []controller.VersionedRecord
	Now     kafka.WallMs
}

// ErrFormatted: the directory holds a metadata log already.
var ErrFormatted = errors.New("the metadata log is formatted already")

// Format writes what kafka-storage format leaves in the metadata log
// directory, apart from meta.properties: the 0-0 checkpoint.
func Format(o FormatOptions) error {
	if o.KRaft < 0 || o.KRaft > 1 || o.KRaft == 0 && o.Voters.Len() > 0 {
		return fmt.Errorf("format: kraft.version %d with %d voters", o.KRaft, o.Voters.Len())
	}
	folder := path.Join(o.Dir, Folder)
	name := path.Join(folder, snapshotName(kafka.OffsetAndEpoch{}))
	if _, err := o.FS.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s: %w", name, ErrFormatted), err)
	}
	if err := o.FS.MkdirAll(folder); err != nil {
		return fmt.Errorf("format %s: %w", o.Dir, err)
	}
	if err := o.FS.SyncDir(o.Dir); err != nil {
		return fmt.Errorf("format %s: %w", o.Dir, err)
	}
	w, err := createSnapshot(o.FS, folder, kafka.OffsetAndEpoch{}, o.Now, o.Now, o.KRaft, o.Voters)
	if err != nil {
		return err
	}
	for _, r := range o.Records {
		if err := w.Add(r.Message, r.Version); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Freeze()
}

// ReadBootstrap gives the records that the first leader writes: those of the
// 0-0 checkpoint, or of bootstrap.checkpoint in a directory that an older
// Kafka has formatted. Nil if there is neither.
func ReadBootstrap(fsys vfs.FS, dir string) ([]controller.VersionedRecord, error) {
	var list []controller.VersionedRecord
	for _, name := range []string{
		path.Join(dir, Folder, snapshotName(kafka.OffsetAndEpoch{})), path.Join(dir, bootstrapFile),
	} {
		_, err := readSnapshot(fsys, name, 0, func(m record.Message, version int16) error {
			list = append(list, controller.VersionedRecord{Message: m, Version: version})
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("bootstrap records: %w", err)
		}
		if len(list) > 0 {
			return list, nil
		}
	}
	return nil, nil
}
