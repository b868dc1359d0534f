package seglog

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

func oneBatch(base kafka.Offset) batch.Batch {
	b := batch.NewBuilder(nil, base, 0)
	b.Add(1000, nil, []byte("value"))
	return b.Finish()
}

func newDisk(t *testing.T) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := errors.Join(m.MkdirAll("/d"), m.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return m
}

// A log without records has no .log file; the first record makes it, and its
// name is durable with the first flush. Fails if write does not count the name.
func TestFirstSegmentFileComesWithTheFirstRecord(t *testing.T) {
	for seed := uint64(0); seed < 20; seed++ {
		m := newDisk(t)
		open := func() *Log {
			l, _, err := Open(Options{Env: NewEnv(NewFiles(m, 10)), Dir: "/d/t-0", Config: DefaultConfig(), Now: 1})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := open()
		if err := l.CloseUnsynced(); err != nil {
			t.Fatal(err)
		}
		l = open()
		if _, err := m.Stat("/d/t-0/00000000000000000000.log"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("an empty log has a file: %v", err)
		}
		if r, err := l.Read(0, 0, 100, true); err != nil || r.Len != 0 {
			t.Fatal(r, err)
		}
		if err := l.Append(1, oneBatch(0)); err != nil {
			t.Fatal(err)
		}
		job := l.PrepareFlush()
		if err := errors.Join(job.Run(), l.FlushDone(job)); err != nil {
			t.Fatal(err)
		}
		m.CrashPower(rand.New(rand.NewPCG(seed, 1)))
		if l = open(); l.EndOffset() != 1 {
			t.Fatalf("seed %d: the flushed record is lost, the log ends at %d", seed, l.EndOffset())
		}
	}
}

// CloseUnsynced and then SyncAll is as durable as Close. Fails without SyncAll.
func TestCloseUnsyncedAndSyncAll(t *testing.T) {
	lost := 0
	for seed := uint64(0); seed < 40; seed++ {
		m := newDisk(t)
		env := NewEnv(NewFiles(m, 10))
		l, _, err := Open(Options{Env: env, Dir: "/d/t-0", Config: DefaultConfig(), Now: 1})
		if err != nil {
			t.Fatal(err)
		}
		for o := kafka.Offset(0); o < 5; o++ {
			if err := l.Append(1, oneBatch(o)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.CloseUnsynced(); err != nil {
			t.Fatal(err)
		}
		withSync := seed%2 == 0
		if withSync {
			if err := m.SyncAll("/d"); err != nil {
				t.Fatal(err)
			}
		}
		m.CrashPower(rand.New(rand.NewPCG(seed, 1)))
		l, rep, err := Open(Options{Env: NewEnv(NewFiles(m, 10)), Dir: "/d/t-0", Config: DefaultConfig(), Clean: withSync, Now: 1})
		if err != nil {
			t.Fatal(err)
		}
		if l.EndOffset() != 5 {
			lost++
			if withSync {
				t.Fatalf("seed %d: the log ends at %d, %+v", seed, l.EndOffset(), rep)
			}
		}
	}
	if lost == 0 {
		t.Error("nothing was ever lost without SyncAll: the test shows nothing")
	}
}
