package sim

import (
	"errors"
	"io"
	"path"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/vfs"
)

// flatLog is a log in one file, until the segmented log is there.
type flatLog struct {
	f      vfs.File
	size   int64
	starts []int64
	bases  []kafka.Offset
	epochs []kafka.OffsetAndEpoch
	end    kafka.Offset
}

func openLog(fsys vfs.FS, folder string) (quorum.Log, error) {
	f, err := fsys.Open(path.Join(folder, "00000000000000000000.log"), vfs.Create)
	if err != nil {
		return nil, err
	}
	if err := fsys.SyncDir(folder); err != nil {
		return nil, err
	}
	l := &flatLog{f: f}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, size)
	if _, err := f.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for len(buf) > 0 {
		b, rest, err := batch.Next(buf)
		if err != nil || !b.Valid() || b.BaseOffset() != l.end {
			break
		}
		l.note(b)
		buf = rest
	}
	return l, f.Truncate(l.size)
}

func (l *flatLog) note(b batch.Batch) {
	l.starts, l.bases = append(l.starts, l.size), append(l.bases, b.BaseOffset())
	if n := len(l.epochs); n == 0 || l.epochs[n-1].Epoch != b.LeaderEpoch() {
		l.epochs = append(l.epochs, kafka.OffsetAndEpoch{Offset: b.BaseOffset(), Epoch: b.LeaderEpoch()})
	}
	l.size += int64(len(b))
	l.end = b.NextOffset()
}

func (l *flatLog) StartOffset() kafka.Offset      { return 0 }
func (l *flatLog) EndOffset() kafka.Offset        { return l.end }
func (l *flatLog) Epochs() []kafka.OffsetAndEpoch { return l.epochs }
func (l *flatLog) SizeBytes() int64               { return l.size }
func (l *flatLog) Flush() error                   { return l.f.Sync() }
func (l *flatLog) Close() error                   { return l.f.Close() }

func (l *flatLog) Append(b batch.Batch) error {
	if _, err := l.f.WriteAt(b, l.size); err != nil {
		return err
	}
	l.note(b)
	return nil
}

func (l *flatLog) Read(from kafka.Offset, maxBytes int) ([]byte, error) {
	lo := len(l.bases)
	for lo > 0 && l.bases[lo-1] >= from {
		lo--
	}
	if lo == len(l.bases) {
		return nil, nil
	}
	hi := lo + 1
	for hi < len(l.starts) && l.starts[hi]-l.starts[lo] <= int64(maxBytes) {
		hi++
	}
	to := l.size
	if hi < len(l.starts) {
		to = l.starts[hi]
	}
	buf := make([]byte, to-l.starts[lo])
	_, err := l.f.ReadAt(buf, l.starts[lo])
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf, err
}

func (l *flatLog) TruncateTo(end kafka.Offset) error {
	n := len(l.bases)
	for n > 0 && l.bases[n-1] >= end {
		n--
	}
	if n < len(l.bases) {
		l.size, l.end = l.starts[n], l.bases[n]
		l.starts, l.bases = l.starts[:n], l.bases[:n]
	}
	for len(l.epochs) > 0 && l.epochs[len(l.epochs)-1].Offset >= l.end {
		l.epochs = l.epochs[:len(l.epochs)-1]
	}
	return l.f.Truncate(l.size)
}

func (l *flatLog) TrimTo(kafka.Offset) error        { return errors.ErrUnsupported }
func (l *flatLog) Reset(kafka.OffsetAndEpoch) error { return errors.ErrUnsupported }
