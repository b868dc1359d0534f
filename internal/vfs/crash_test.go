package vfs_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"moldau/internal/vfs"
)

func TestProcessDeathKeepsAllWritesAndKillsHandles(t *testing.T) {
	m := mem(t)
	f, err := m.Open("/d/f", vfs.Create)
	check(t, err)
	_, err = f.WriteAt([]byte("abc"), 0)
	check(t, err)
	_, err = m.Lock("/d/.lock")
	check(t, err)
	m.CrashProcess()
	want(t, m, "/d/f", "abc")
	_, err = f.WriteAt([]byte("x"), 0)
	wantErr(t, err, vfs.ErrClosed)
	l, err := m.Lock("/d/.lock")
	check(t, err)
	check(t, l.Close())
}

// crashRuns repeats a scenario and counts outcomes by name.
func crashRuns(t *testing.T, scenario func(m *vfs.Mem), outcome func(m *vfs.Mem) string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for seed := range uint64(400) {
		m := mem(t)
		scenario(m)
		m.CrashPower(rand.New(rand.NewPCG(seed, 1)))
		seen[outcome(m)]++
	}
	return seen
}

func content(m *vfs.Mem, name string) string {
	b, err := vfs.ReadFile(m, name)
	if err != nil {
		return "missing"
	}
	return string(b)
}

func TestPowerLossTearsUnsyncedContent(t *testing.T) {
	synced, tail := bytes.Repeat([]byte{'a'}, 700), bytes.Repeat([]byte{'b'}, 3000)
	seen := crashRuns(t, func(m *vfs.Mem) {
		f, _ := m.Open("/d/f", vfs.Create)
		f.WriteAt(synced, 0)
		f.Datasync()
		m.SyncDir("/d")
		f.WriteAt(tail, 700)
	}, func(m *vfs.Mem) string {
		got := content(m, "/d/f")
		if len(got) < 700 || got[:700] != string(synced) {
			t.Fatal("synced bytes are gone")
		}
		switch rest := got[700:]; {
		case rest == "":
			return "dropped"
		case rest == string(tail):
			return "kept"
		case bytes.Contains([]byte(rest), []byte{0}):
			return "holes"
		default:
			return "cut"
		}
	})
	for _, o := range []string{"dropped", "kept", "holes", "cut"} {
		if seen[o] == 0 {
			t.Errorf("never %s: %v", o, seen)
		}
	}
}

func TestPowerLossMayUndoTruncation(t *testing.T) {
	seen := crashRuns(t, func(m *vfs.Mem) {
		f, _ := m.Open("/d/f", vfs.Create)
		f.WriteAt([]byte("abcdef"), 0)
		f.Sync()
		m.SyncDir("/d")
		f.Truncate(3)
	}, func(m *vfs.Mem) string { return content(m, "/d/f") })
	if seen["abc"] == 0 || seen["abcdef"] == 0 {
		t.Error(seen)
	}
}

func TestPowerLossUndoesNamesIndependently(t *testing.T) {
	seen := crashRuns(t, func(m *vfs.Mem) {
		for _, n := range []string{"/d/gone", "/d/old"} {
			f, _ := m.Open(n, vfs.Create)
			f.WriteAt([]byte(n), 0)
			f.Sync()
		}
		m.SyncDir("/d")
		f, _ := m.Open("/d/new", vfs.Create)
		f.Sync()
		m.Remove("/d/gone")
		m.Rename("/d/old", "/d/renamed")
	}, func(m *vfs.Mem) string {
		names := ""
		list, _ := m.ReadDir("/d")
		for _, e := range list {
			names += e.Name + " "
		}
		return names
	})
	if len(seen) != 8 {
		t.Errorf("3 operations undone independently give 8 outcomes, saw %v", seen)
	}
}

func TestSyncDirMakesNamesDurable(t *testing.T) {
	seen := crashRuns(t, func(m *vfs.Mem) {
		m.MkdirAll("/d/x")
		write(t, m, "/d/a", "1")
		m.Rename("/d/a", "/d/x/b")
		m.SyncDir("/d")
		m.SyncDir("/d/x")
	}, func(m *vfs.Mem) string {
		if content(m, "/d/a") != "missing" {
			return "old name"
		}
		if content(m, "/d/x/b") == "missing" {
			return "lost"
		}
		return "fine"
	})
	if seen["fine"] != 400 {
		t.Error(seen)
	}
}

func TestAtomicWriteSurvivesPowerLoss(t *testing.T) {
	seen := crashRuns(t, func(m *vfs.Mem) {
		check(t, vfs.WriteFileAtomic(m, "/d/f", []byte("one")))
		check(t, vfs.WriteFileAtomic(m, "/d/f", []byte("two")))
	}, func(m *vfs.Mem) string { return content(m, "/d/f") })
	if seen["two"] != 400 {
		t.Error(seen)
	}
}

func TestCrashIsDeterministic(t *testing.T) {
	run := func() string {
		m := mem(t)
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			write(t, m, "/d/"+n, n+string(make([]byte, 5000)))
		}
		m.CrashPower(rand.New(rand.NewPCG(7, 7)))
		out := ""
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			out += content(m, "/d/"+n)
		}
		return out
	}
	first := run()
	for range 20 {
		if run() != first {
			t.Fatal("the same seed gave another disk")
		}
	}
}

func TestSyncCounts(t *testing.T) {
	m := mem(t)
	before := m.Syncs()
	f, _ := m.Open("/d/f", vfs.Create)
	check(t, f.Sync())
	check(t, f.Datasync())
	check(t, m.SyncDir("/d"))
	if got := m.Syncs(); got.Files-before.Files != 2 || got.Dirs-before.Dirs != 1 {
		t.Error(before, got)
	}
	if m.SyncsOf("/d/f") != 2 || m.SyncsOf("/d") != 1 {
		t.Error(m.SyncsOf("/d/f"), m.SyncsOf("/d"))
	}
}

func TestFaults(t *testing.T) {
	m := mem(t)
	ff := vfs.NewFault(m)
	f, err := ff.Open("/d/a.log", vfs.Create)
	check(t, err)

	ff.Fail(vfs.Rule{Kinds: vfs.OpWrite, Match: "*.log", Nth: 2, Err: unix.EIO, WriteFirst: 2})
	_, err = f.WriteAt([]byte("abcd"), 0)
	check(t, err)
	n, err := f.WriteVecAt([][]byte{{'w'}, {'x', 'y'}}, 4)
	if n != 2 || !errors.Is(err, unix.EIO) {
		t.Errorf("short write: %d %v", n, err)
	}
	want(t, m, "/d/a.log", "abcdwx")

	ff.Heal()
	ff.Fail(vfs.Rule{Kinds: vfs.OpSync, Err: unix.EIO, Times: -1})
	for range 3 {
		wantErr(t, f.Datasync(), unix.EIO)
	}
	if m.SyncsOf("/d/a.log") != 0 {
		t.Error("a failed fsync reached the disk")
	}

	ff.Heal()
	ff.SetBudget(3)
	n, err = f.WriteAt([]byte("12345"), 0)
	if n != 3 || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("full disk: %d %v", n, err)
	}
	ff.Heal()
	stop := errors.New("stop")
	at := ff.Ops() + 3
	ff.SetHook(func(vfs.Op) error {
		if ff.Ops() >= at {
			return stop
		}
		return nil
	})
	check(t, ff.MkdirAll("/d/x"))
	check(t, ff.MkdirAll("/d/y"))
	wantErr(t, ff.MkdirAll("/d/z"), stop)
}

func BenchmarkMemAppend(b *testing.B) {
	m := vfs.NewMem()
	f, _ := m.Open("/f", vfs.Create)
	buf := make([]byte, 100)
	b.ReportAllocs()
	for i := range b.N {
		if i%(1<<16) == 0 {
			f.Truncate(0)
		}
		f.WriteAt(buf, int64(i%(1<<16))*100)
		if i%16 == 0 {
			f.Datasync()
		}
	}
}
