package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

const testNow kafka.WallMs = 1_000_000_000

// bed is a log on a file system of its own.
type bed struct {
	t   testing.TB
	fs  vfs.FS
	env *Env
	cfg *Config
	dir string
	l   *Log
	rep Report
	// options of the next open
	clean bool
	start kafka.Offset
	rp    kafka.Offset
	sure  kafka.Offset // Options.Committed
}

func newBed(t testing.TB, fsys vfs.FS) *bed {
	cfg := *DefaultConfig()
	cfg.IndexIntervalBytes = 200
	b := &bed{t: t, fs: fsys, env: NewEnv(NewFiles(fsys, 4)), cfg: &cfg, dir: "/data/t-0"}
	b.env.ProducerExpirationMs.Store(1 << 60)
	return b
}

func (b *bed) tryOpen() error {
	b.t.Helper()
	var err error
	b.l, b.rep, err = Open(Options{Env: b.env, Dir: b.dir, Config: b.cfg, Clean: b.clean, StartOffset: b.start, RecoveryPoint: b.rp, Committed: b.sure, Now: testNow})
	return err
}

func (b *bed) open() *bed {
	b.t.Helper()
	ok(b.t, b.tryOpen())
	return b
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mkBatch makes a batch of n records with the timestamps ts, ts+1 ….
func mkBatch(base kafka.Offset, epoch kafka.Epoch, n int, ts kafka.WallMs) batch.Batch {
	bl := batch.NewBuilder(nil, base, epoch)
	for i := range n {
		bl.Add(ts+kafka.WallMs(i), []byte("key"), fmt.Appendf(nil, "value-%06d", int(base)+i))
	}
	return bl.Finish()
}

func (b *bed) append(epoch kafka.Epoch, counts ...int) {
	b.t.Helper()
	for _, n := range counts {
		o := b.l.EndOffset()
		ok(b.t, b.l.Append(testNow, mkBatch(o, epoch, n, testNow+kafka.WallMs(o))))
	}
}

func (b *bed) flush() {
	b.t.Helper()
	j := b.l.PrepareFlush()
	ok(b.t, j.Run())
	ok(b.t, b.l.FlushDone(j))
}

// readAll reads the bytes from an offset to the end.
func (b *bed) readAll(from kafka.Offset) []byte {
	b.t.Helper()
	var out []byte
	for from < b.l.EndOffset() {
		r, err := b.l.Read(from, b.l.EndOffset(), 300, true)
		ok(b.t, err)
		if r.Len == 0 {
			b.t.Fatalf("nothing at %d, end %d", from, b.l.EndOffset())
		}
		buf := make([]byte, r.Len)
		_, err = r.ReadAt(buf, 0)
		ok(b.t, err)
		r.Release()
		out = append(out, buf...)
		for rest := buf; len(rest) > 0; {
			var x batch.Batch
			x, rest = nextBatch(b.t, rest)
			if !x.Valid() {
				b.t.Fatalf("batch at %d has a bad checksum", x.BaseOffset())
			}
			from = x.NextOffset()
		}
	}
	return out
}

func memFS(t testing.TB) *vfs.Mem {
	m := vfs.NewMem()
	ok(t, m.MkdirAll("/data"))
	ok(t, m.SyncDir("/"))
	return m
}

func TestAppendReadReopen(t *testing.T) {
	b := newBed(t, memFS(t))
	b.cfg.SegmentBytes = 1000
	b.open()
	var want []byte
	for i := range 60 {
		x := mkBatch(b.l.EndOffset(), kafka.Epoch(i/20), 1+i%4, testNow)
		want = append(want, x...)
		ok(t, b.l.Append(testNow, x))
	}
	if !bytes.Equal(b.readAll(0), want) {
		t.Fatal("read back differently")
	}
	if len(b.l.Segments()) < 5 {
		t.Fatal(b.l.Segments())
	}
	end := b.l.EndOffset()
	ok(t, b.l.Close())
	if n := b.env.Files.Open(); n != 0 {
		t.Errorf("%d files open after Close", n)
	}
	for _, clean := range []bool{true, false} {
		b.clean = clean
		b.open()
		if b.l.EndOffset() != end || !bytes.Equal(b.readAll(0), want) {
			t.Fatalf("clean %v: reopened differently", clean)
		}
		if len(b.rep.Cuts)+len(b.rep.Removed)+len(b.rep.Rebuilt) > 0 {
			t.Errorf("clean %v: %+v", clean, b.rep)
		}
		if e, o := b.l.EndOffsetForEpoch(1); e != 1 || o != 100 {
			t.Errorf("epoch 1 ends at %d (%d)", o, e)
		}
		ok(t, b.l.Close())
	}
}

// HC-109. Looking batches up by base offset only (first.base >= from in locate)
// would fail it.
func TestHC109OffsetInsideBatch(t *testing.T) {
	b := newBed(t, memFS(t)).open()
	b.append(0, 10, 10)
	check := func() {
		for o := kafka.Offset(0); o < 20; o++ {
			r, err := b.l.Read(o, 20, 1, true)
			ok(t, err)
			buf := make([]byte, r.Len)
			_, err = r.ReadAt(buf, 0)
			ok(t, err)
			r.Release()
			x, rest, err := batch.Next(buf)
			if err != nil || len(rest) != 0 || x.BaseOffset() != o/10*10 {
				t.Fatalf("offset %d: %v %d bytes behind", o, err, len(rest))
			}
		}
		if r, err := b.l.Read(20, 20, 100, true); err != nil || r.Len != 0 {
			t.Fatal(r, err)
		}
		if _, err := b.l.Read(21, 30, 100, true); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Fatal(err)
		}
	}
	check() // by the ring of newest batches
	ok(t, b.l.Close())
	b.open()
	check() // by index and headers
}

func TestOpenListensToRecoveryPoint(t *testing.T) {
	b := newBed(t, memFS(t)).open()
	b.append(0, 5, 5)
	b.flush()
	if b.l.RecoveryPoint() != 10 {
		t.Fatal(b.l.RecoveryPoint())
	}
}
