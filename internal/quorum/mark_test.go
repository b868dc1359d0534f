package quorum

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"moldau/internal/batch"
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
