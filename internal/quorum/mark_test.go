package quorum

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/seglog"
	"moldau/internal/vfs"
)

// A flipped bit in the middle of the metadata log, behind which all is well: the
// node must refuse and say where, since cutting there would lose committed
// metadata. Fails if OpenSegments passes no recovery point.
func TestHC122CorruptMiddleOfTheMetadataLogRefuses(t *testing.T) {
	mem := formatted(t)
	opts := busy(t, mem, -1)
	opts.Log.SegmentBytes = 1 << 20
	name := "data/" + Folder + "/" + activeSegment(t, mem)
	flip := func() {
		f, err := mem.Open(name, vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], 100); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x10
		if _, err := f.WriteAt(b[:], 100); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	flip()
	_, err := Open(opts)
	var corrupt *seglog.CorruptError
	if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), name) {
		t.Fatalf("opened a damaged log: %v", err)
	}
	flip()
	q := open(t, opts)
	q.Start()
	q.stopNow()
}

// activeSegment gives the newest .log file.
func activeSegment(t *testing.T, mem *vfs.Mem) string {
	t.Helper()
	list, err := mem.ReadDir("data/" + Folder)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, e := range list {
		if strings.HasSuffix(e.Name, ".log") {
			last = e.Name
		}
	}
	return last
}

func TestRecoveryMark(t *testing.T) {
	mem := vfs.NewMem()
	open := func() *recoveryMark {
		m, err := openRecoveryMark(mem, "d")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open()
	if err := errors.Join(m.raise(70), m.raise(50), m.Close()); err != nil {
		t.Fatal(err)
	}
	if m = open(); m.offset != 70 {
		t.Errorf("%d", m.offset)
	}
	syncs := mem.SyncsOf("d/" + markFile)
	if err := m.lower(60); err != nil || mem.SyncsOf("d/"+markFile) != syncs+1 {
		t.Error("lowering was not made durable", err)
	}
	for _, torn := range [][]byte{nil, {1}, make([]byte, markSize), []byte("0123456789ab")} {
		if o, ok := decodeMark(torn); ok && o != 0 {
			t.Errorf("%x counts as %d", torn, o)
		}
	}
}

// A segment file that is gone, empty, or cut at a batch boundary was durable
// once: a start without it would forget committed metadata without a word, and
// put every partition's folder aside. Fails without reachesMark.
func TestHC122MissingMetadataLogRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(mem *vfs.Mem, file string) error
	}{
		{"deleted", func(mem *vfs.Mem, file string) error { return mem.Remove(file) }},
		{"empty", func(mem *vfs.Mem, file string) error { return cut(mem, file, 0) }},
		{"cut", func(mem *vfs.Mem, file string) error { return cut(mem, file, -1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := formatted(t)
			opts := busy(t, mem, -1)
			opts.Snapshots.MaxBytes = 0
			start(t, opts).stopNow() // its records are in no snapshot
			name := "data/" + Folder + "/" + activeSegment(t, mem)
			if err := c.harm(mem, name); err != nil {
				t.Fatal(err)
			}
			_, err := Open(opts)
			var corrupt *seglog.CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), ".log") {
				t.Fatalf("opened a metadata log that lacks a file: %v", err)
			}
		})
	}
}

// cut truncates a log file; −1 takes its last batch away.
func cut(mem *vfs.Mem, file string, size int64) error {
	data, err := vfs.ReadFile(mem, file)
	if err != nil {
		return err
	}
	for rest := data; size < 0; {
		var b batch.Batch
		at := int64(len(data) - len(rest))
		if b, rest, err = batch.Next(rest); err != nil {
			return err
		}
		if len(rest) == 0 {
			size = at
		}
		_ = b
	}
	f, err := mem.Open(file, vfs.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// A full disk ends the node, which says which disk, and that room for it is all
// it wants; a start says the same. Then nothing acknowledged is missing. Fails
// without advice.
func TestFullDiskOfTheMetadataSaysWhatToDo(t *testing.T) {
	fault := vfs.NewFault(formatted(t))
	opts := options(t, fault)
	q := start(t, opts)
	q.register()
	q.call(createTopic("kept"))
	fault.SetBudget(10)
	if o := <-q.submit(createTopic("lost")); !errors.Is(o.err, ErrStopped) && !errors.Is(o.err, ErrNotController) {
		t.Errorf("answer on a full disk: %+v", o)
	}
	told := func(err error) {
		t.Helper()
		if err == nil || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the disk of data is full") {
			t.Errorf("%v", err)
		}
	}
	told(<-q.fatal)
	_, err := Open(opts)
	told(err)
	fault.Heal()
	q = start(t, opts)
	if img := q.Image(); !img.TopicByName("kept").Exists() || img.TopicByName("lost").Exists() {
		t.Error("not what was acknowledged")
	}
	q.stopNow()
}

// A snapshot for which there is no room is put off; the metadata can be changed
// meanwhile, and the snapshot comes when there is room. Fails if a snapshot that
// cannot be written is fatal, in its first write or a later one, or if it is
// never tried again.
func TestFullDiskPutsOffSnapshots(t *testing.T) {
	for _, nth := range []int{1, 2, 3} {
		fault := vfs.NewFault(formatted(t))
		opts := options(t, fault)
		opts.Snapshots = SnapshotConfig{MaxBytes: 1, RetentionBytes: -1, RetentionMs: -1}
		warned := make(chan struct{}, 1)
		opts.Warn = func(msg string, err error) {
			if errors.Is(err, syscall.ENOSPC) {
				select {
				case warned <- struct{}{}:
				default:
				}
			}
		}
		var ahead atomic.Int64
		opts.Clock = func() kafka.Now { return kafka.Now{Mono: kafka.Mono(ahead.Load()), Wall: 1000} }
		full, seen := true, 0
		var mu sync.Mutex
		fault.SetHook(func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, checkpointSuffix+partSuffix) && full {
				if seen++; seen >= nth {
					return syscall.ENOSPC
				}
			}
			return nil
		})
		q := start(t, opts)
		q.register()
		q.call(createTopic("one"))
		q.await(warned)
		q.call(createTopic("two"))
		mu.Lock()
		full = false
		mu.Unlock()
		ahead.Add(int64(putOffFor))
		q.call(createTopic("three"))
		q.stopNow()
		ids, err := listSnapshots(fault, "data/"+Folder)
		if err != nil || len(ids) < 2 {
			t.Errorf("snapshots %v, %v", ids, err)
		}
	}
}
