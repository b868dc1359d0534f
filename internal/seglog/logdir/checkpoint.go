package logdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// Names of the checkpoint files of a log directory.
const (
	RecoveryPointFile  = "recovery-point-offset-checkpoint"
	ReplicationFile    = "replication-offset-checkpoint" // high watermarks
	LogStartFile       = "log-start-offset-checkpoint"
	CleanerFile        = "cleaner-offset-checkpoint"
	checkpointVersion  = 0
	maxCheckpointLines = 50_000_000 // partitions of a directory, with room to spare
)

// ErrCorrupt says that a file does not have its format. It is wrapped with the
// file's name.
var ErrCorrupt = errors.New("file is corrupt")

// ParseLines reads Kafka's checkpoint format: a line with the version 0, one
// with the number of entries, the entries. An empty file has no entries: Kafka
// makes them so. The lines point into data.
func ParseLines(data []byte) ([][]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	line, rest, _ := bytes.Cut(data, []byte{'\n'})
	if v, err := strconv.Atoi(string(bytes.TrimRight(line, "\r"))); err != nil || v != checkpointVersion {
		return nil, fmt.Errorf("%w: version %.20q", ErrCorrupt, line)
	}
	line, rest, _ = bytes.Cut(rest, []byte{'\n'})
	n, err := strconv.Atoi(string(bytes.TrimRight(line, "\r")))
	if err != nil || n < 0 || n > maxCheckpointLines || n > len(rest) {
		return nil, fmt.Errorf("%w: number of entries %.20q", ErrCorrupt, line)
	}
	lines := make([][]byte, 0, n)
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		if len(lines) == n {
			return nil, fmt.Errorf("%w: more than %d entries", ErrCorrupt, n)
		}
		lines = append(lines, bytes.TrimRight(line, "\r"))
	}
	if len(lines) != n {
		return nil, fmt.Errorf("%w: %d entries of %d", ErrCorrupt, len(lines), n)
	}
	return lines, nil
}

// AppendLinesHeader appends the two lines that come before n entries.
func AppendLinesHeader(buf []byte, n int) []byte {
	buf = append(strconv.AppendInt(buf, checkpointVersion, 10), '\n')
	return append(strconv.AppendInt(buf, int64(n), 10), '\n')
}

// Checkpoint is an offset for each partition, in the order of the file.
type Checkpoint []CheckpointEntry

// CheckpointEntry is one line.
type CheckpointEntry struct {
	kafka.TopicPartition
	Offset kafka.Offset
}

// Map gives the offsets by partition; of repeated lines the last one counts.
func (c Checkpoint) Map() map[kafka.TopicPartition]kafka.Offset {
	m := make(map[kafka.TopicPartition]kafka.Offset, len(c))
	for _, e := range c {
		m[e.TopicPartition] = e.Offset
	}
	return m
}

// ParseCheckpoint reads the content of an offset checkpoint file.
func ParseCheckpoint(data []byte) (Checkpoint, error) {
	lines, err := ParseLines(data)
	if err != nil {
		return nil, err
	}
	c := make(Checkpoint, 0, len(lines))
	for _, line := range lines {
		f := strings.Fields(string(line))
		if len(f) != 3 {
			return nil, fmt.Errorf("%w: entry %.300q", ErrCorrupt, line)
		}
		p, err1 := strconv.ParseInt(f[1], 10, 32)
		o, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || p < 0 {
			return nil, fmt.Errorf("%w: entry %.300q", ErrCorrupt, line)
		}
		c = append(c, CheckpointEntry{kafka.TopicPartition{Topic: f[0], Partition: kafka.PartitionID(p)}, kafka.Offset(o)})
	}
	return c, nil
}

// Append appends the file's content.
func (c Checkpoint) Append(buf []byte) []byte {
	buf = AppendLinesHeader(buf, len(c))
	for _, e := range c {
		buf = append(buf, e.Topic...)
		buf = append(buf, ' ')
		buf = strconv.AppendInt(buf, int64(e.Partition), 10)
		buf = append(buf, ' ')
		buf = strconv.AppendInt(buf, int64(e.Offset), 10)
		buf = append(buf, '\n')
	}
	return buf
}

// ReadCheckpoint reads a checkpoint file of a log directory. One that is
// missing has no entries; one that is corrupt is an error that wraps
// ErrCorrupt, and the caller decides whether 0 for every partition will do.
func ReadCheckpoint(fsys vfs.FS, dir, name string) (Checkpoint, error) {
	data, err := vfs.ReadFile(fsys, dir+"/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := ParseCheckpoint(data)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", dir, name, err)
	}
	return c, nil
}

// WriteCheckpoint replaces a checkpoint file.
func WriteCheckpoint(fsys vfs.FS, dir, name string, c Checkpoint) error {
	return vfs.WriteFileAtomic(fsys, dir+"/"+name, c.Append(nil))
}
