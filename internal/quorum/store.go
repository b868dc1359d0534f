package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// Folder is the metadata log's folder within the metadata log directory.
const Folder = "__cluster_metadata-0"

const (
	partitionMetadataFile = "partition.metadata"
	bootstrapFile         = "bootstrap.checkpoint"
)

// FlushJob makes durable what the log held when it was prepared. Run may be
// called on any goroutine, beside everything else; then Done on the owner's.
type FlushJob struct {
	Run  func() error
	Done func() error
}

// Log is what the shell needs of the segmented log. All is called from one
// goroutine, the owner's.
type Log interface {
	// Join ends the opening: it cuts off what does not belong to one run of
	// records. snapshot is the end of the newest whole snapshot, 0 if there is
	// none. If committed records are missing that are not in it, the error is a
	// *seglog.CorruptError, and the files stay as they are.
	Join(snapshot kafka.Offset) error
	StartOffset() kafka.Offset
	EndOffset() kafka.Offset
	// Epochs are the first offsets of the epochs in the log, ascending.
	Epochs() []kafka.OffsetAndEpoch
	SizeBytes() int64
	Append(b batch.Batch) error
	Read(from kafka.Offset, maxBytes int) ([]byte, error)
	PrepareFlush() FlushJob
	// Removals deletes, on any goroutine, files whose time has come; nil if there
	// are none. A replica that never flushes, a broker's, calls it now and then.
	Removals() func() error
	TruncateTo(end kafka.Offset) error
	// TrimTo moves the log start and deletes segments that lie below it.
	TrimTo(start kafka.Offset) error
	// Reset drops everything; the next record goes to start.Offset.
	Reset(start kafka.OffsetAndEpoch) error
	// Committed tells that no truncation will ever go below highWatermark.
	Committed(highWatermark kafka.Offset) error
	Close() error
}

// Errors of opening. Each names the folder and what to do.
var (
	// ErrLogStart: records before the log start are gone and no snapshot holds
	// them (HC-034).
	ErrLogStart = errors.New("the metadata log does not join a snapshot")
)

// StoreOptions say where a Store is and how it works.
type StoreOptions struct {
	FS  vfs.FS
	Dir string // the metadata log directory
	// OpenLog opens, and recovers, the log in the folder.
	OpenLog func(folder string) (Log, error)
	// Static are the voters of controller.quorum.voters; empty from
	// kraft.version 1 on.
	Static raft.VoterSet
	// Flush runs job.Run away from the caller, then job.Done on the owner's
	// goroutine, and then delivers raft.Flushed. An error of either is fatal.
	Flush func(f raft.Flush, job FlushJob)
	// Seal runs job.Run away from the caller and then, on the owner's goroutine,
	// delivers raft.SnapshotSealed.
	Seal func(job SealJob)
	// Warn tells of something odd that is no error; may be nil.
	Warn func(msg string, err error)
}

// Store is the folder __cluster_metadata-0: log, quorum-state and snapshots. It
// implements Disk. Its methods belong to the loop goroutine.
type Store struct {
	opts      StoreOptions
	folder    string
	log       Log
	snapshots []kafka.OffsetAndEpoch // durable ones other than 0-0, ascending
	part      *part                  // nil unless one is being downloaded
}

// Recovered is what OpenStore found.
type Recovered struct {
	Raft raft.Restored
	// Snapshot is the one that was loaded; zero if none.
	Snapshot kafka.OffsetAndEpoch
	// LastContained is the append time of the snapshot's last record.
	LastContained kafka.WallMs
}

// OpenStore opens the folder and recovers it. load is asked for a sink before a
// snapshot is read; it is asked again if that snapshot turns out to be broken.
// It may be nil.
func OpenStore(opts StoreOptions, load func() func(record.Message, int16) error) (*Store, *Recovered, error) {
	s := &Store{opts: opts, folder: path.Join(opts.Dir, Folder)}
	if err := s.prepare(); err != nil {
		return nil, nil, err
	}
	// What we read may be the work of a process that died before it was durable;
	// nothing may rest on it that a power loss could still take back.
	if !mutantForgetSync {
		if err := opts.FS.SyncDir(s.folder); err != nil {
			return nil, nil, fmt.Errorf("sync %s: %w", s.folder, err)
		}
	}
	election, err := loadQuorumState(opts.FS, s.folder)
	if err != nil {
		return nil, nil, err
	}
	ids, err := listSnapshots(opts.FS, s.folder)
	if err != nil {
		return nil, nil, err
	}
	if s.log, err = opts.OpenLog(s.folder); err != nil {
		return nil, nil, fmt.Errorf("open the metadata log in %s: %w", s.folder, err)
	}
	rec := &Recovered{LastContained: kafka.NoTimestamp}
	rec.Raft.Election = election
	if err := s.recover(rec, ids, load); err != nil {
		return nil, nil, errors.Join(err, s.log.Close())
	}
	return s, rec, nil
}

// prepare makes the folder and its partition.metadata.
func (s *Store) prepare() error {
	if err := s.opts.FS.MkdirAll(s.folder); err != nil {
		return fmt.Errorf("make %s: %w", s.folder, err)
	}
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		return fmt.Errorf("sync %s: %w", s.opts.Dir, err)
	}
	name := path.Join(s.folder, partitionMetadataFile)
	if _, err := s.opts.FS.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := fmt.Sprintf("version: 0\ntopic_id: %s", kafka.ClusterMetadataTopicID)
	return vfs.WriteFileAtomic(s.opts.FS, name, []byte(text))
}

func (s *Store) warn(msg string, err error) {
	if s.opts.Warn != nil {
		s.opts.Warn(msg, err)
	}
}

// recover finds the newest valid snapshot, joins the log to it, and collects
// the voters from the oldest source to the newest: configuration or 0-0
// checkpoint, snapshot, log (HC-030).
func (s *Store) recover(rec *Recovered, ids []kafka.OffsetAndEpoch, load func() func(record.Message, int16) error) error {
	var control []raft.Control
	if s.opts.Static.Len() > 0 {
		set := s.opts.Static
		control = append(control, raft.Control{Offset: kafka.NoOffset, Voters: &set})
	}
	if len(ids) > 0 && ids[0] == (kafka.OffsetAndEpoch{}) {
		boot, err := readSnapshot(s.opts.FS, path.Join(s.folder, snapshotName(ids[0])), 0, nil)
		if err != nil {
			return err
		}
		control, ids = append(control, boot.Control...), ids[1:]
	}
	content, err := s.newestSnapshot(rec, ids, load)
	if err != nil {
		return err
	}
	if content != nil {
		control = append(control, content.Control...)
		rec.LastContained = content.LastContained
	}
	if err := s.join(rec); err != nil {
		return err
	}
	if control, err = s.scan(control, max(s.log.StartOffset(), rec.Snapshot.Offset)); err != nil {
		return err
	}
	r := &rec.Raft
	r.Control, r.Epochs, r.End, r.Snapshot = control, s.log.Epochs(), s.log.EndOffset(), rec.Snapshot
	r.Start.Offset = s.log.StartOffset()
	for _, id := range s.snapshots {
		if id.Offset == r.Start.Offset {
			r.Start.Epoch = id.Epoch
		}
	}
	if len(r.Epochs) == 0 && rec.Snapshot.Offset > 0 {
		r.Start = rec.Snapshot
	}
	return nil
}

// newestSnapshot loads the newest snapshot that is whole. A broken one is
// skipped with a warning; join sees whether the log makes up for it.
func (s *Store) newestSnapshot(rec *Recovered, ids []kafka.OffsetAndEpoch, load func() func(record.Message, int16) error) (*snapshotContent, error) {
	for i := len(ids) - 1; i >= 0; i-- {
		var emit func(record.Message, int16) error
		if load != nil {
			emit = load()
		}
		content, err := readSnapshot(s.opts.FS, path.Join(s.folder, snapshotName(ids[i])), ids[i].Offset, emit)
		if err != nil {
			s.warn("snapshot skipped", err)
			continue
		}
		s.snapshots, rec.Snapshot = ids[:i+1], ids[i]
		return &content, nil
	}
	if load != nil && len(ids) > 0 {
		load() // forget what a broken snapshot has left
	}
	return nil, nil
}

// join checks that log and snapshot make one history. A log that ends before
// the snapshot is dropped (HC-039); one that begins after it refuses (HC-034).
func (s *Store) join(rec *Recovered) error {
	if err := s.log.Join(rec.Snapshot.Offset); err != nil {
		return err
	}
	start, end := s.log.StartOffset(), s.log.EndOffset()
	if e := s.log.Epochs(); len(e) > 0 {
		// A start within the first segment is not stored, but epochs before it
		// are forgotten.
		start = max(start, e[0].Offset)
	}
	for _, id := range s.snapshots { // a log begins where a snapshot ends
		if start > 0 && id.Offset >= start && id.Offset <= end {
			if err := s.log.TrimTo(id.Offset); err != nil {
				return fmt.Errorf("move the log start to offset %d: %w", id.Offset, err)
			}
			break
		}
	}
	if start > rec.Snapshot.Offset {
		return fmt.Errorf("%w: in %s the log starts at offset %d and the newest whole snapshot ends at %d; restore the checkpoint file; a node that is not a voter may fetch all from the quorum, once the folder is removed; otherwise replace this voter: remove it from the quorum, format its metadata directory anew, and add it again",
			ErrLogStart, s.folder, start, rec.Snapshot.Offset)
	}
	last := kafka.Epoch(0)
	if e := s.log.Epochs(); len(e) > 0 {
		last = e[len(e)-1].Epoch
	}
	if rec.Snapshot.Offset > 0 && (rec.Snapshot.Offset > end || rec.Snapshot.Epoch > last) {
		if err := s.log.Reset(rec.Snapshot); err != nil {
			return fmt.Errorf("start the metadata log at snapshot %s: %w", snapshotName(rec.Snapshot), err)
		}
	}
	return nil
}

// scan reads the log from an offset and collects its voters and kraft.version.
func (s *Store) scan(control []raft.Control, from kafka.Offset) ([]raft.Control, error) {
	err := s.each(from, s.log.EndOffset(), func(b raft.Batch) error {
		control = append(control, b.Control...)
		return nil
	})
	return control, err
}

// readChunkBytes is how much of the log is read at a time.
const readChunkBytes = 1 << 20

// each calls f with the batches of [from, to), which must be batch boundaries.
func (s *Store) each(from, to kafka.Offset, f func(raft.Batch) error) error {
	for from < to {
		buf, err := s.log.Read(from, readChunkBytes)
		if err != nil {
			return fmt.Errorf("read the metadata log at offset %d: %w", from, err)
		}
		list, err := parseBatches(buf)
		if err != nil {
			return fmt.Errorf("metadata log at offset %d: %w", from, err)
		}
		if len(list) == 0 {
			return fmt.Errorf("metadata log at offset %d: %w: nothing there, the log ends at %d", from, ErrBatch, to)
		}
		for _, b := range list {
			if b.Last < from {
				continue // a read may begin with the batch before
			}
			if b.Base >= to {
				return nil
			}
			if err := f(b); err != nil {
				return err
			}
			from = b.Last + 1
		}
	}
	return nil
}

// SaveElection implements Disk.
func (s *Store) SaveElection(e raft.ElectionState, kraft int16, voters raft.VoterSet) error {
	return saveQuorumState(s.opts.FS, s.folder, e, kraft, voters)
}

// Truncate implements Disk.
func (s *Store) Truncate(to kafka.Offset) error {
	if err := s.log.TruncateTo(to); err != nil {
		return err
	}
	if end := s.log.EndOffset(); end != to {
		return fmt.Errorf("%w: cut to %d, the log now ends at %d", ErrBatch, to, end)
	}
	return nil
}

// AppendLeaderChange implements Disk.
func (s *Store) AppendLeaderChange(lc *raft.LeaderChange, now kafka.WallMs) error {
	return s.append(encodeLeaderChange(lc, now))
}

// AppendVoters implements Disk.
func (s *Store) AppendVoters(v *raft.VotersChange, now kafka.WallMs) error {
	return s.append(encodeVotersChange(v, now))
}

// Committed implements Disk.
func (s *Store) Committed(highWatermark kafka.Offset) error { return s.log.Committed(highWatermark) }

// Append implements Disk.
func (s *Store) Append(b raft.Batch) error { return s.append(b.Bytes) }

func (s *Store) append(b batch.Batch) error {
	if end := s.log.EndOffset(); b.BaseOffset() != end {
		return fmt.Errorf("%w: batch of offset %d at end offset %d", ErrBatch, b.BaseOffset(), end)
	}
	return s.log.Append(b)
}

// StartFlush implements Disk.
func (s *Store) StartFlush(f raft.Flush) { s.opts.Flush(f, s.log.PrepareFlush()) }

// Read implements Disk.
func (s *Store) Read(from kafka.Offset, maxBytes int) ([]byte, error) {
	return s.log.Read(from, maxBytes)
}

// Batches calls f with the batches of [from, to).
func (s *Store) Batches(from, to kafka.Offset, f func(raft.Batch) error) error {
	return s.each(from, to, f)
}

// StartOffset is where the log begins.
func (s *Store) StartOffset() kafka.Offset { return s.log.StartOffset() }

// Close closes the log. An unfinished download is removed.
func (s *Store) Close() error { return errors.Join(s.dropPart(), s.log.Close()) }

// ParseFetched turns the records of a fetch answer into batches, checked. It is
// called before the answer goes to the core.
func ParseFetched(r *raft.FetchResponse) error {
	list, err := parseBatches(r.Records)
	r.Batches = list
	return err
}

// NewSnapshot begins a snapshot that ends at id.Offset, exclusive, which must
// be a batch boundary at or below the high watermark (HC-033). It gives nil if
// that snapshot, or a newer one, is there. The writer may be used on another
// goroutine; tell Snapshotted when it is frozen.
func (s *Store) NewSnapshot(id kafka.OffsetAndEpoch, lastContained, now kafka.WallMs, kraft int16, voters raft.VoterSet) (*SnapshotWriter, error) {
	if n := len(s.snapshots); id.Offset <= s.log.StartOffset() || n > 0 && id.Offset <= s.snapshots[n-1].Offset {
		return nil, nil
	}
	if err := s.boundary(id.Offset); err != nil {
		return nil, err
	}
	return createSnapshot(s.opts.FS, s.folder, id, lastContained, now, kraft, voters)
}

// boundary checks that offset is the base offset of a batch or the log's end.
func (s *Store) boundary(offset kafka.Offset) error {
	if offset == s.log.EndOffset() {
		return nil
	}
	buf, err := s.log.Read(offset, 1)
	if err != nil {
		return fmt.Errorf("read the metadata log at offset %d: %w", offset, err)
	}
	b, _, err := batch.Next(buf)
	if err != nil || b.BaseOffset() != offset {
		return fmt.Errorf("%w: offset %d is not a batch boundary", ErrSnapshot, offset)
	}
	return nil
}

// Snapshotted records a snapshot that has been frozen. One that a download has
// overtaken meanwhile is removed.
func (s *Store) Snapshotted(id kafka.OffsetAndEpoch) error {
	if n := len(s.snapshots); n > 0 && s.snapshots[n-1].Offset >= id.Offset {
		if s.snapshots[n-1] == id {
			return nil
		}
		return s.deleteSnapshot(id)
	}
	s.snapshots = append(s.snapshots, id)
	return nil
}
