package quorum

import (
	"errors"
	"strings"
	"testing"

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
