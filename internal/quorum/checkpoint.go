package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

const (
	checkpointSuffix = ".checkpoint"
	partSuffix       = ".part"
	// fetchedSuffix keeps a download apart from a snapshot of the same id that this
	// node makes itself.
	fetchedSuffix = ".fetched" + checkpointSuffix + partSuffix
	deletedSuffix = ".deleted"
	// snapshotBatchBytes is when a batch of a snapshot is closed.
	snapshotBatchBytes = 1 << 20
)

// ErrSnapshot says that a snapshot is not whole.
var ErrSnapshot = errors.New("snapshot is not valid")

// errRecord says that a whole snapshot holds a record that this version cannot
// read or apply.
var errRecord = errors.New("cannot be read by this version")

// snapshotName is Kafka's: exclusive end offset and epoch (HC-032).
func snapshotName(id kafka.OffsetAndEpoch) string {
	return fmt.Sprintf("%020d-%010d%s", id.Offset, id.Epoch, checkpointSuffix)
}

// parseSnapshotName accepts exact names only (HC-035).
func parseSnapshotName(name string) (id kafka.OffsetAndEpoch, ok bool) {
	stem, ok := strings.CutSuffix(name, checkpointSuffix)
	if !ok || len(stem) != 31 || stem[20] != '-' {
		return id, false
	}
	o, err1 := strconv.ParseUint(stem[:20], 10, 63)
	e, err2 := strconv.ParseUint(stem[21:], 10, 31)
	id = kafka.OffsetAndEpoch{Offset: kafka.Offset(o), Epoch: kafka.Epoch(e)}
	return id, err1 == nil && err2 == nil && snapshotName(id) == name
}

// SnapshotWriter writes one snapshot to a .part file. Freeze makes it durable
// under its real name; Abort removes it.
type SnapshotWriter struct {
	fs    vfs.FS
	dir   string
	id    kafka.OffsetAndEpoch
	file  vfs.File
	pos   int64
	now   kafka.WallMs
	next  kafka.Offset // offset within the snapshot
	build *batch.Builder
	done  bool // the file is closed
}

// createSnapshot begins a snapshot with its header and, from kraft.version 1
// on, the version and the voters in force at its end.
func createSnapshot(fsys vfs.FS, dir string, id kafka.OffsetAndEpoch, lastContained, now kafka.WallMs, kraft int16, voters raft.VoterSet) (*SnapshotWriter, error) {
	name := path.Join(dir, snapshotName(id)+partSuffix)
	f, err := fsys.Open(name, vfs.CreateTruncate)
	if err != nil {
		return nil, fmt.Errorf("create snapshot %s: %w", name, err)
	}
	w := &SnapshotWriter{fs: fsys, dir: dir, id: id, file: f, now: now}
	w.control()
	h := record.NewSnapshotHeader()
	h.LastContainedLogTimestamp = lastContained
	w.build.Add(now, record.ControlKey(record.ControlSnapshotHeader), record.AppendControl(nil, h, 0))
	if kraft >= 1 {
		addVoters(w.build, now, kraft, voters)
	}
	if err := w.flush(); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

func (w *SnapshotWriter) control() {
	w.build = batch.NewBuilder(nil, w.next, w.id.Epoch)
	w.build.Control = true
}

// flush writes the batch under construction.
func (w *SnapshotWriter) flush() error {
	if w.build == nil || w.build.Count() == 0 {
		return nil
	}
	w.next += kafka.Offset(w.build.Count())
	b := w.build.Finish()
	w.build = nil
	if _, err := w.file.WriteAt(b, w.pos); err != nil {
		return fmt.Errorf("write snapshot %s: %w", snapshotName(w.id), err)
	}
	w.pos += int64(len(b))
	return nil
}

// Add appends one record of the image.
func (w *SnapshotWriter) Add(m record.Message, version int16) error {
	if w.build == nil {
		w.build = batch.NewBuilder(nil, w.next, w.id.Epoch)
	}
	w.build.Add(w.now, nil, record.AppendMetadata(nil, m, version))
	if w.build.Size() >= snapshotBatchBytes {
		return w.flush()
	}
	return nil
}

// Freeze writes the footer, syncs, and gives the file its name.
func (w *SnapshotWriter) Freeze() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.control()
	w.build.Add(w.now, record.ControlKey(record.ControlSnapshotFooter),
		record.AppendControl(nil, record.NewSnapshotFooter(), 0))
	if err := w.flush(); err != nil {
		return err
	}
	name := path.Join(w.dir, snapshotName(w.id))
	err := w.file.Sync()
	w.done = true
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = w.fs.Rename(name+partSuffix, name)
	}
	if err == nil {
		err = w.fs.SyncDir(w.dir)
	}
	if err != nil {
		return fmt.Errorf("freeze snapshot %s: %w", name, err)
	}
	return nil
}

// Abort closes and removes the unfinished file.
func (w *SnapshotWriter) Abort() error {
	var err error
	if !w.done {
		w.done, err = true, w.file.Close()
	}
	return errors.Join(err, w.fs.Remove(path.Join(w.dir, snapshotName(w.id)+partSuffix)))
}

// snapshotContent is what is in a snapshot besides the image's records.
type snapshotContent struct {
	LastContained kafka.WallMs
	Control       []raft.Control // Offset is that of the last contained record
}

// readSnapshot reads a whole snapshot and checks it: header first, footer last,
// every CRC, and offsets without gap. emit gets the image's records, on the
// caller's goroutine while another one reads ahead; nil checks only.
func readSnapshot(fsys vfs.FS, name string, end kafka.Offset, emit func(record.Message, int16) error) (snapshotContent, error) {
	r := &snapshotReader{end: end, decode: emit != nil}
	f, err := fsys.Open(name, vfs.ReadOnly)
	if err != nil {
		return r.content, fmt.Errorf("open snapshot: %w", err)
	}
	defer f.Close()
	pieces, stop := make(chan snapshotPiece, snapshotAhead), make(chan struct{})
	go r.run(f, pieces, stop)
	for p := range pieces {
		if err = p.err; err == nil {
			err = p.emit(emit)
		}
		if err != nil {
			err = fmt.Errorf("snapshot %s, byte %d: %w", name, p.pos, err)
			break
		}
	}
	close(stop)
	for range pieces { // until the other has ended
	}
	if err == nil && !r.footer {
		err = fmt.Errorf("snapshot %s: %w: it has no footer", name, ErrSnapshot)
	}
	return r.content, err
}

// snapshotAhead is how many batches are decoded ahead of the image.
const snapshotAhead = 4

// snapshotPiece is a batch of a snapshot, decoded, or why that is not possible.
type snapshotPiece struct {
	pos     int64
	records []versioned
	err     error
}

type versioned struct {
	m       record.Message
	version int16
}

func (p *snapshotPiece) emit(f func(record.Message, int16) error) error {
	for _, v := range p.records {
		if err := f(v.m, v.version); err != nil {
			return fmt.Errorf("%w: %w", errRecord, err)
		}
	}
	return nil
}

// run reads the file to its end, to the first error, or until it is stopped.
func (r *snapshotReader) run(f vfs.File, pieces chan<- snapshotPiece, stop <-chan struct{}) {
	defer close(pieces)
	for pos := int64(0); ; {
		b, err := nextEntry(f, pos)
		if errors.Is(err, io.EOF) {
			return
		}
		p := snapshotPiece{pos: pos, err: err}
		if err == nil {
			p.records, p.err = r.batch(b)
		}
		select {
		case pieces <- p:
		case <-stop:
			return
		}
		if p.err != nil {
			return
		}
		pos += int64(len(b))
	}
}

// nextEntry reads the batch at pos; io.EOF at the exact end of the file.
func nextEntry(f vfs.File, pos int64) (batch.Batch, error) {
	var prefix [batch.PrefixSize]byte
	n, err := f.ReadAt(prefix[:], pos)
	if n == 0 && errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if n < len(prefix) {
		return nil, fmt.Errorf("%w: cut short", ErrSnapshot)
	}
	size, err := batch.EntrySize(prefix[:])
	if err != nil {
		return nil, err
	}
	if size > maxEntryBytes {
		return nil, fmt.Errorf("%w: batch of %d bytes", ErrSnapshot, size)
	}
	have, err := f.Size()
	if err != nil {
		return nil, err
	}
	if int64(size) > have-pos {
		return nil, fmt.Errorf("%w: cut short", ErrSnapshot)
	}
	buf := make([]byte, size)
	if _, err := f.ReadAt(buf, pos); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b, _, err := batch.Next(buf)
	if err != nil {
		return nil, err
	}
	if !b.Valid() {
		return nil, fmt.Errorf("%w: wrong CRC", ErrSnapshot)
	}
	return b, nil
}

type snapshotReader struct {
	end            kafka.Offset
	decode         bool
	content        snapshotContent
	header, footer bool
	room           record.Room
}

// batch checks a batch and gives its records of the image.
func (r *snapshotReader) batch(b batch.Batch) (out []versioned, err error) {
	if r.decode && !b.Control() {
		out = make([]versioned, 0, min(max(int(b.Count()), 0), len(b)/8)) // a record takes more
	}
	err = b.EachRecord(func(rec *batch.Record) error {
		if r.footer {
			return fmt.Errorf("%w: records behind the footer", ErrSnapshot)
		}
		if b.Control() {
			return r.control(rec)
		}
		if !r.header {
			return fmt.Errorf("%w: it does not begin with a header", ErrSnapshot)
		}
		if !r.decode {
			return nil
		}
		m, version, err := r.room.DecodeMetadata(rec.Value)
		if err != nil {
			return fmt.Errorf("%w: %w", errRecord, err)
		}
		out = append(out, versioned{m, version})
		return nil
	})
	return out, err
}

func (r *snapshotReader) control(rec *batch.Record) error {
	t, m, _, err := record.DecodeControl(rec.Key, rec.Value)
	if err != nil {
		return err
	}
	if r.header == (t == record.ControlSnapshotHeader) {
		return fmt.Errorf("%w: %s where it does not belong", ErrSnapshot, t)
	}
	switch m := m.(type) {
	case *record.SnapshotHeader:
		r.header, r.content.LastContained = true, m.LastContainedLogTimestamp
	case *record.SnapshotFooter:
		r.footer = true
	default:
		c, ok, err := controlOf(rec.Key, rec.Value)
		if ok {
			c.Offset = r.end - 1
			r.content.Control = append(r.content.Control, c)
		}
		return err
	}
	return nil
}

// listSnapshots gives the ids of the snapshots in dir, ascending. It removes
// what a crash has left: .part and .deleted files of snapshots.
func listSnapshots(fsys vfs.FS, dir string) ([]kafka.OffsetAndEpoch, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var ids []kafka.OffsetAndEpoch
	for _, e := range entries {
		if e.IsDir {
			continue
		}
		if strings.HasSuffix(e.Name, checkpointSuffix+partSuffix) || strings.HasSuffix(e.Name, checkpointSuffix+deletedSuffix) {
			if err := fsys.Remove(path.Join(dir, e.Name)); err != nil {
				return nil, fmt.Errorf("remove leftover: %w", err)
			}
			continue
		}
		if id, ok := parseSnapshotName(e.Name); ok {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareSnapshots)
	return ids, nil
}

func compareSnapshots(a, b kafka.OffsetAndEpoch) int {
	return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Epoch, b.Epoch))
}
