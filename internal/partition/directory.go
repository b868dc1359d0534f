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
	count         atomic.Int32 // partitions

	mu       sync.Mutex
	lastFull time.Time
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

// full reports a full disk.
func (d *directory) full(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.lastFull) < fullEvery {
		return
	}
	d.lastFull = time.Now()
	d.log.Error("disk is full; appends fail until there is room: free space, or lower retention.bytes or retention.ms of large topics", "dir", d.Path, "error", err)
}

// checkpoints are the offset files of a directory.
type checkpoints struct {
	recovery, high, start map[kafka.TopicPartition]kafka.Offset
}

const (
	recoveryFile = "recovery-point-offset-checkpoint"
	highFile     = "replication-offset-checkpoint"
	startFile    = "log-start-offset-checkpoint"
	cleanerFile  = "cleaner-offset-checkpoint"
)

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
	return checkpoints{recovery: read(recoveryFile), high: read(highFile), start: read(startFile)}
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
