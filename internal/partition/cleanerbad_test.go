package partition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/seglog"
	"moldau/internal/vfs"
)

// A transaction index that is damaged concerns its log: it is set aside, served as
// before, and its directory stays in service; a read_committed reader takes this
// partition offline, not its directory. Were it no CorruptError, one bad side file
// would take every partition of the disk offline.
func TestHC128BadTransactionIndexIsSetAside(t *testing.T) {
	for name, content := range map[string][]byte{
		"cut short":       make([]byte, 33),
		"unknown version": append([]byte{0, 9}, make([]byte, 32)...),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).mustOpen()
			p := r.compacted("bad")
			r.fill(p, 60)
			f, err := r.fs.Open("/a/bad-0/00000000000000000000.txnindex", vfs.CreateTruncate)
			must(t, err)
			_, err = f.WriteAt(content, 0)
			must(t, err)
			must(t, f.Close())
			if r.s.cleaner.cleanOne() || !p.uncleanable || p.dir.failed.Load() {
				t.Fatalf("set aside %v, directory offline %v:\n%s", p.uncleanable, p.dir.failed.Load(), r.log.String())
			}
			if got := values(t, p, 0); len(got) != 60 {
				t.Fatalf("%d records are served", len(got))
			}
			res := p.Read(ReadRequest{LeaderEpoch: kafka.NoEpoch, MaxBytes: 1 << 20, ReadCommitted: true})
			if res.Code != kafka.ErrKafkaStorageError || p.dir.failed.Load() || !strings.Contains(r.log.String(), "0.txnindex is corrupt at byte 0") {
				t.Fatalf("read_committed: %s, directory offline %v:\n%s", res.Code, p.dir.failed.Load(), r.log.String())
			}
		})
	}
}

// What a pass cannot do with one log, for whatever reason that is not the disk's,
// costs that log its compaction and nothing else. Taking every unknown error for
// the disk's fails it.
func TestErrorsThatAreNotTheDisks(t *testing.T) {
	for _, c := range []struct {
		err           error
		aside, failed bool
	}{
		{errors.New("lz4: no such block size"), true, false},
		{fmt.Errorf("snappy: %w", io.ErrUnexpectedEOF), true, false},
		{&seglog.CorruptError{}, true, false},
		{seglog.ErrUncleanable, true, false},
		{seglog.ErrChanged, false, false},
		{&fs.PathError{Err: syscall.ENOSPC}, false, false},
		{&fs.PathError{Err: syscall.EIO}, false, true},
	} {
		r := newRig(t).mustOpen()
		p := r.compacted("c")
		r.fill(p, 60)
		r.s.cleaner.failed(r.s.cleaner.choose(r.now().Wall), c.err)
		if p.uncleanable != c.aside || p.dir.failed.Load() != c.failed {
			t.Errorf("%v: set aside %v, directory offline %v", c.err, p.uncleanable, p.dir.failed.Load())
		}
	}
}
