package seglog

import (
	"fmt"
	"sync"
	"sync/atomic"

	"moldau/internal/kafka"
	"moldau/internal/producerstate"
	"moldau/internal/vfs"
)

// Log is one partition's log. See the package comment for who may call what.
type Log struct {
	env    *Env
	config atomic.Pointer[Config]
	dir    atomic.Pointer[string]

	segs   atomic.Pointer[[]*segment] // sorted, never empty, immutable
	start  atomic.Int64
	end    atomic.Int64
	epochs atomic.Pointer[epochs]
	tail   atomic.Pointer[tailRing] // nil until the first append

	loading  sync.Mutex    // index files being read
	namesGen atomic.Uint64 // counts changes of names in the folder
	swaps    atomic.Uint64 // see Swaps

	// Owner only.
	producers     producerstate.Table
	snapshots     []kafka.Offset // offsets of .snapshot files, sorted
	snapSynced    kafka.Offset   // snapshots up to here are durable
	recoveryPoint kafka.Offset
	cleanedTo     kafka.Offset // compaction has seen all before
	horizonMs     kafka.WallMs // when the last tombstone that compaction marked may go; 0: none known
	swapping      *swap        // that a full disk has interrupted
	truncations   uint32       // counts, so that flushes of before do not count
	epochsDirty   bool
	namesSynced   uint64 // namesGen that is durable
	newDir        bool   // the folder itself is new
	closed        bool
	dead          *deadLog
	scratch       [][]byte
	reserved      reservation
}

// deadLog says why a log is offline.
type deadLog struct{ cause error }

func (l *Log) fs() vfs.FS { return l.env.Files.FS }

// Dir is the log's folder.
func (l *Log) Dir() string { return *l.dir.Load() }

func (l *Log) path(o kafka.Offset, ext string) string { return l.Dir() + "/" + fileName(o, ext) }

func (l *Log) list() []*segment { return *l.segs.Load() }

func (l *Log) active() *segment {
	segs := l.list()
	return segs[len(segs)-1]
}

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() kafka.Offset { return kafka.Offset(l.start.Load()) }

// EndOffset is the offset of the next record.
func (l *Log) EndOffset() kafka.Offset { return kafka.Offset(l.end.Load()) }

// RecoveryPoint is the offset below which everything is durable. Owner only.
func (l *Log) RecoveryPoint() kafka.Offset { return l.recoveryPoint }

// Producers is the state of the idempotent producers. Owner only: check with
// it before Append, which updates it.
func (l *Log) Producers() *producerstate.Table { return &l.producers }

// SetConfig replaces the configuration; it counts from the next call on.
func (l *Log) SetConfig(c *Config) { l.config.Store(c) }

// Config is the configuration in force.
func (l *Log) Config() *Config { return l.config.Load() }

// SizeBytes is the size of all segments.
func (l *Log) SizeBytes() int64 {
	var n int64
	for _, s := range l.list() {
		n += s.size.Load()
	}
	return n
}

// Segment tells about one segment.
type Segment struct {
	BaseOffset kafka.Offset
	SizeBytes  int64
}

// Segments lists the segments, oldest first; the last one is active.
func (l *Log) Segments() []Segment {
	segs := l.list()
	out := make([]Segment, len(segs))
	for i, s := range segs {
		out[i] = Segment{s.base, s.size.Load()}
	}
	return out
}

// usable refuses mutations of a log that is closed or offline.
func (l *Log) usable() error {
	switch {
	case l.dead != nil:
		return fmt.Errorf("%s: %w: %w", l.Dir(), ErrOffline, l.dead.cause)
	case l.closed:
		return fmt.Errorf("%s: %w", l.Dir(), ErrClosed)
	}
	return nil
}

// fail takes the log offline.
func (l *Log) fail(err error) error {
	if l.dead == nil {
		l.dead = &deadLog{err}
	}
	return fmt.Errorf("%s: %w: %w", l.Dir(), ErrOffline, err)
}

// Offline tells why the log is offline; nil if it is not. Owner only.
func (l *Log) Offline() error {
	if l.dead == nil {
		return nil
	}
	return l.dead.cause
}

// RenameDir moves the folder, e.g. to topic-N.uuid-delete, and makes the move
// durable. Ranges stay valid. Owner only.
func (l *Log) RenameDir(to string) error {
	if err := l.usable(); err != nil {
		return err
	}
	from := l.Dir()
	if err := l.fs().Rename(from, to); err != nil {
		return err
	}
	l.dir.Store(&to)
	if err := l.fs().SyncDir(parentDir(to)); err != nil {
		return l.fail(err)
	}
	return nil
}

// Close writes what is only in memory (indexes, leader epochs, a producer
// snapshot), syncs everything, and lets go of the files. After it the log may be
// opened with Clean if the marker of the directory says so. On an error the
// marker must not be written. Owner only; readers must be gone.
func (l *Log) Close() error { return l.close((*Log).flushNow) }

// CloseUnsynced is Close without the syncs, for an owner who closes very many
// logs and then calls vfs.FS.SyncAll once. Only when that has succeeded do
// RecoveryPoint, which is the end already, and the marker of a clean stop tell
// the truth.
func (l *Log) CloseUnsynced() error { return l.close((*Log).settle) }

func (l *Log) close(finish func(*Log) error) error {
	if l.closed {
		return nil
	}
	var err error
	if l.dead != nil {
		err = l.usable()
	} else if err = l.closeFiles(); err == nil {
		err = finish(l)
	}
	l.closed = true
	for _, s := range l.list() {
		l.env.Files.drop(s)
	}
	return err
}

// Rest lets go of open files and of memory that a log in use holds, but for a
// few hundred bytes: for owners of logs that have been quiet for a while. The
// next call takes up what it needs. Owner only; readers may go on.
func (l *Log) Rest() error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.saveActive(); err != nil {
		return err
	}
	l.tail.Store(nil)
	l.scratch = nil
	for _, s := range l.list() {
		l.env.Files.drop(s)
	}
	l.active().index.Store(nil)
	return nil
}

func (l *Log) closeFiles() error {
	if err := l.saveActive(); err != nil {
		return err
	}
	segs := l.list()
	for _, s := range segs[:len(segs)-1] { // old ones whose files were missing
		if s.saved {
			continue
		}
		ix, err := l.indexOf(s)
		if err == nil {
			err = l.writeIndex(s, ix, false)
		}
		if err != nil {
			return err
		}
		s.saved, s.synced = true, false
	}
	return l.takeSnapshot()
}

func (l *Log) flushNow() error {
	job := l.PrepareFlush()
	if err := job.Run(); err != nil {
		return err
	}
	return l.FlushDone(job)
}

// settle writes what a flush would write, and leaves it to the file system.
func (l *Log) settle() error {
	if l.epochsDirty && !l.active().unborn.Load() { // a log without records needs no epochs
		name := l.Dir() + "/" + epochFile
		if err := l.writeFile(name+".tmp", l.epochs.Load().appendTo(nil), false); err != nil {
			return err
		}
		if err := l.fs().Rename(name+".tmp", name); err != nil {
			return err
		}
	}
	l.recoveryPoint = l.EndOffset()
	return nil
}

// saveActive writes the indexes of the active segment, unless the files on the
// disk are good.
func (l *Log) saveActive() error {
	s := l.active()
	if s.saved || s.size.Load() == 0 {
		return nil // an empty segment's indexes say nothing
	}
	ix, err := l.indexOf(s)
	if err != nil {
		return err
	}
	if s.size.Load() > 0 {
		if err := l.loadActive(); err != nil {
			return err
		}
		ix.addTime(kafka.WallMs(s.maxTs.Load()), int32(s.maxTsLast-s.base))
	}
	// If the segment lies below the recovery point already, recovery will not
	// look at it again: a torn index must not be possible.
	sync := l.recoveryPoint >= l.EndOffset()
	if err := l.writeIndex(s, ix, sync); err != nil {
		return err
	}
	s.saved, s.synced = true, false
	return nil
}

func parentDir(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			if i == 0 {
				return "/"
			}
			return name[:i]
		}
	}
	return "."
}
