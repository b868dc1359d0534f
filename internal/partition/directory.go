package partition

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// Dir is a log directory, formatted and locked by the caller.
type Dir struct {
	Path string
	ID   kafka.DirectoryID
	// Clean tells that the last run ended cleanly; the marker has been removed.
	Clean bool
}

// directory is a log directory at work.
type directory struct {
	Dir
	log      *slog.Logger
	onFailed func(*directory, error)

	failed        atomic.Bool
	appended      atomic.Bool // high watermarks have moved since the last checkpoint
	recoveryMoved atomic.Bool
	startMoved    atomic.Bool
	cleanerMoved  atomic.Bool
	count         atomic.Int32 // partitions

	mu       sync.Mutex
	lastFull time.Time
	stale    map[kafka.TopicPartition]staleMarks
	discards uint64
}

// staleMarks says which checkpoint files on the disk may still have a partition
// that is gone; each holds the number of the discard that made it so, 0: not.
type staleMarks [len(checkpointFiles)]uint64

// discarded notes that the checkpoint files may have marks of a partition that
// is gone, which must not be taken for those of a new one (HC-121).
func (d *directory) discarded(tp kafka.TopicPartition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stale == nil {
		d.stale = map[kafka.TopicPartition]staleMarks{}
	}
	d.discards++
	var m staleMarks
	for i := range m {
		m[i] = d.discards
	}
	d.stale[tp] = m
	d.appended.Store(true)
	d.recoveryMoved.Store(true)
	d.startMoved.Store(true)
	d.cleanerMoved.Store(true)
}

func (d *directory) isStale(tp kafka.TopicPartition) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.stale[tp]
	return ok
}

func (d *directory) discardCount() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.discards
}

// rewritten says that a checkpoint file was written from a list made after the
// discard of that number.
func (d *directory) rewritten(name string, upTo uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for tp, m := range d.stale {
		for i := range m {
			if checkpointFiles[i] == name && m[i] <= upTo {
				m[i] = 0
			}
		}
		if m == (staleMarks{}) {
			delete(d.stale, tp)
		} else {
			d.stale[tp] = m
		}
	}
}

// fail takes the directory offline, for good (LogDirFailureChannel): nothing is
// written to it until the server starts again.
func (d *directory) fail(err error) {
	if !d.failed.CompareAndSwap(false, true) {
		return
	}
	d.log.Error("log directory goes offline; its partitions answer KAFKA_STORAGE_ERROR until a restart", "dir", d.Path, "error", err)
	d.onFailed(d, err)
}

// fullEvery bounds how often a full disk is reported.
const fullEvery = 10 * time.Second

// full reports a full disk, or that no file can be opened.
func (d *directory) full(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.lastFull) < fullEvery {
		return
	}
	d.lastFull = time.Now()
	if vfs.NoDescriptor(err) {
		d.log.Error("no file can be opened; what needs one fails until it can: raise the limit of open files, of this process or of the system", "dir", d.Path, "error", err)
		return
	}
	d.log.Error("disk is full; appends fail until there is room: free space, or lower retention.bytes or retention.ms of large topics", "dir", d.Path, "error", err)
}

// checkpoints are the offset files of a directory.
type checkpoints struct {
	recovery, high, start, cleaner map[kafka.TopicPartition]kafka.Offset
}

const (
	recoveryFile = "recovery-point-offset-checkpoint"
	highFile     = "replication-offset-checkpoint"
	startFile    = "log-start-offset-checkpoint"
	cleanerFile  = "cleaner-offset-checkpoint"
)

// checkpointFiles are those that are read at a start.
var checkpointFiles = [...]string{recoveryFile, highFile, startFile, cleanerFile}

// readCheckpoints reads what a directory says; a corrupt file counts as empty,
// which costs a longer recovery and nothing else.
func (d *directory) readCheckpoints(fsys vfs.FS) checkpoints {
	read := func(name string) map[kafka.TopicPartition]kafka.Offset {
		c, err := logdir.ReadCheckpoint(fsys, d.Path, name)
		if err != nil {
			d.log.Warn("checkpoint file is not usable and counts as empty", "error", err)
		}
		return c.Map()
	}
	return checkpoints{recovery: read(recoveryFile), high: read(highFile), start: read(startFile), cleaner: read(cleanerFile)}
}

// discardUnknown notes the marks of partitions that have no log here: those of
// topics that were deleted after the files were written.
func (d *directory) discardUnknown(marks checkpoints, logs []found) {
	here := make(map[kafka.TopicPartition]struct{}, len(logs))
	for i := range logs {
		here[logs[i].folder.TopicPartition] = struct{}{}
	}
	for _, list := range []map[kafka.TopicPartition]kafka.Offset{marks.recovery, marks.high, marks.start, marks.cleaner} {
		for tp := range list {
			if _, ok := here[tp]; !ok {
				d.discarded(tp)
			}
		}
	}
}

func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.Open(name, vfs.ReadWrite)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
