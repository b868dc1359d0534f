package seglog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

func patch(t testing.TB, fsys vfs.FS, name string, f func([]byte) []byte) {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	ok(t, err)
	data = f(data)
	h, err := fsys.Open(name, vfs.CreateTruncate)
	ok(t, err)
	_, err = h.WriteAt(data, 0)
	ok(t, err)
	ok(t, h.Close())
}

func seg(b *bed, o kafka.Offset, ext string) string { return b.dir + "/" + fileName(o, ext) }

// HC-120. Returning the error of loadEpochs or loadNewestSnapshot would fail it.
func TestHC120BadSideFilesAreRebuilt(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m).open()
	b.append(0, 5)
	b.append(3, 5)
	ok(t, b.l.Roll(testNow))
	b.append(4, 5)
	ok(t, b.l.Close())
	want := b.l.Epochs()
	zeros := func(d []byte) []byte { return make([]byte, len(d)) }
	for _, name := range []string{b.dir + "/" + epochFile, seg(b, 15, extSnapshot), seg(b, 10, extSnapshot)} {
		patch(t, m, name, zeros)
	}
	for _, clean := range []bool{true, false} {
		b.clean = clean
		b.open()
		if got := b.l.Epochs(); len(got) != 3 || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("epochs %v, want %v", got, want)
		}
		if clean && len(b.rep.Rebuilt) != 3 {
			t.Errorf("report %+v", b.rep)
		}
		ok(t, b.l.Close())
	}
	for _, name := range []string{seg(b, 0, extIndex), seg(b, 0, extTime)} {
		ok(t, m.Remove(name))
		b.clean = true
		b.open()
		if len(b.readAll(0)) == 0 {
			t.Error("nothing to read")
		}
		ok(t, b.l.Close())
	}
}

// HC-121. Renaming in RemovalJob.Run instead of at once would fail it.
func TestHC121RemovalSparesNewFilesOfTheSameName(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m).open()
	b.append(0, 5)
	ok(t, b.l.Roll(testNow))
	b.append(0, 5)
	_, jobs, err := b.l.TruncateTo(3, testNow)
	ok(t, err)
	b.append(1, 5)
	ok(t, b.l.Roll(testNow))
	b.append(1, 5)
	want := b.readAll(0)
	for _, j := range jobs {
		if j.DueMs != testNow+60_000 {
			t.Error("due at", j.DueMs)
		}
		ok(t, j.Run())
	}
	ok(t, b.l.Close())
	b.clean = true
	b.open()
	if !bytes.Equal(b.readAll(0), want) || len(b.l.Segments()) != 2 {
		t.Error("a live file was removed", b.l.Segments())
	}
}

// HC-122. Cutting without the comparison with the recovery point would lose
// what was durable, silently.
func TestHC122FlippedBit(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m).open()
	b.append(0, 5, 5, 5, 5)
	b.flush()
	b.append(0, 5, 5, 5)
	size := b.l.SizeBytes()
	at := size * 9 / 14 // in the fifth batch of seven, beyond the recovery point
	name := seg(b, 0, extLog)
	patch(t, m, name, func(d []byte) []byte { d[at] ^= 1; return d })
	b.rp = b.l.RecoveryPoint()
	b.open()
	if b.l.EndOffset() != 20 || len(b.rep.Cuts) != 1 || b.rep.Cuts[0].File != name {
		t.Errorf("end %d, %+v", b.l.EndOffset(), b.rep)
	}
	ok(t, b.l.Close())
	patch(t, m, name, func(d []byte) []byte { d[len(d)/2+70] ^= 1; return d })
	var c *CorruptError
	if err := b.tryOpen(); !errors.As(err, &c) || c.File != name || c.Offset != 10 || c.Position == 0 {
		t.Fatalf("%v", err)
	}
	if info, _ := m.Stat(name); info.SizeBytes == 0 {
		t.Error("the evidence was cut away")
	}
}

// A log whose file is gone, empty or cut at a batch boundary, below what was
// committed, is damaged; without the check against Committed it would be taken
// for a shorter one and lose what was acknowledged.
func TestHC122LogThatEndsTooEarly(t *testing.T) {
	for name, harm := range map[string]func(fsys vfs.FS, file string) error{
		"deleted": func(fsys vfs.FS, file string) error { return fsys.Remove(file) },
		"empty":   func(fsys vfs.FS, file string) error { return resize(fsys, file, 0) },
		"cut":     func(fsys vfs.FS, file string) error { return resize(fsys, file, int64(len(mkBatch(0, 0, 5, 0)))) },
	} {
		for _, clean := range []bool{true, false} {
			m := memFS(t)
			b := newBed(t, m).open()
			b.append(0, 5, 5)
			ok(t, b.l.Close())
			ok(t, harm(m, seg(b, 0, extLog)))
			b.clean, b.rp, b.sure = clean, 10, 10
			var c *CorruptError
			if err := b.tryOpen(); !errors.As(err, &c) || c.File != seg(b, 0, extLog) {
				t.Errorf("%s, clean %v: %v", name, clean, err)
			}
		}
	}
}

func resize(fsys vfs.FS, file string, size int64) error {
	f, err := fsys.Open(file, vfs.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// HC-124. The owner's lock makes one of {append, roll, truncate the front}; with
// Retain looking at the active segment outside of it offsets would repeat. Run
// with -race, it also proves that readers need no lock.
func TestHC124RollAndRetentionBesideAppends(t *testing.T) {
	b := newBed(t, memFS(t))
	b.cfg.SegmentBytes, b.cfg.SegmentMs, b.cfg.IndexIntervalBytes = 600, 5, 100
	b.open()
	var mu sync.Mutex
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			buf := make([]byte, 4096)
			for {
				select {
				case <-stop:
					return
				default:
				}
				from, end := b.l.StartOffset(), b.l.EndOffset()
				for from < end {
					r, err := b.l.Read(from, end, 700, true)
					if errors.Is(err, ErrOffsetOutOfRange) && from < b.l.StartOffset() {
						break
					}
					if err != nil {
						t.Error(err)
						return
					}
					n := r.Len
					if n > 0 {
						if _, err := r.ReadAt(buf[:n], 0); err != nil {
							t.Error(err)
						}
					}
					r.Release()
					if n == 0 {
						break
					}
					x, _, err := batch.Next(buf[:n])
					if err != nil || !x.Valid() || x.LastOffset() < from {
						t.Errorf("at %d: %v", from, err)
						return
					}
					from = x.NextOffset()
				}
			}
		}()
	}
	next := kafka.Offset(0)
	for i := range 3000 {
		mu.Lock()
		if b.l.EndOffset() != next {
			t.Fatalf("end %d, want %d", b.l.EndOffset(), next)
		}
		ok(t, b.l.Append(testNow, mkBatch(next, 0, 2, testNow+kafka.WallMs(i))))
		next += 2
		if i%7 == 0 {
			ok(t, b.l.AdvanceStart(next-kafka.Offset(min(int64(next), 20))))
			jobs, err := b.l.Retain(testNow, next)
			ok(t, err)
			for _, j := range jobs {
				ok(t, j.Run())
			}
		}
		if i%31 == 0 {
			ok(t, b.l.Roll(testNow))
		}
		mu.Unlock()
	}
	close(stop)
	wg.Wait()
	if n := len(b.l.Segments()); n > 40 {
		t.Errorf("%d segments were kept", n)
	}
}

// The log start never falls and the next offset is kept when everything goes.
func TestRetention(t *testing.T) {
	b := newBed(t, memFS(t))
	b.cfg.SegmentBytes, b.cfg.RetentionMs = 500, 1000
	b.open()
	for range 10 {
		b.append(0, 5)
	}
	total, n := b.l.SizeBytes(), len(b.l.Segments())
	jobs, err := b.l.Retain(testNow+1000, 50)
	ok(t, err)
	if len(jobs) != 0 {
		t.Error("too early")
	}
	if jobs, err = b.l.Retain(testNow+100_000, 20); err != nil || b.l.StartOffset() > 20 || len(jobs) == 0 {
		t.Error("beyond the high watermark", b.l.StartOffset(), err)
	}
	c := *b.cfg
	c.RetentionMs, c.RetentionBytes = -1, total/2
	b.l.SetConfig(&c)
	_, err = b.l.Retain(testNow, 50)
	ok(t, err)
	if got := b.l.SizeBytes(); got < total/2 || len(b.l.Segments()) >= n {
		t.Errorf("%d bytes kept of %d", got, total)
	}
	c.RetentionMs = 0
	b.l.SetConfig(&c)
	_, err = b.l.Retain(testNow+100_000, 50)
	ok(t, err)
	if b.l.StartOffset() != 50 || b.l.EndOffset() != 50 || b.l.SizeBytes() != 0 {
		t.Error(b.l.StartOffset(), b.l.EndOffset(), b.l.SizeBytes())
	}
	b.append(0, 1)
}

// HC-132. With a plain append in addTime the entries would fall back.
func TestHC132TimeIndexGrowsInBothColumns(t *testing.T) {
	ix := &indexes{}
	for i, ts := range []kafka.WallMs{5, 3, 9, 9, 2, 10, 7, 12} {
		ix.addTime(ts, int32(10-i%3))
		ix.addTime(ts, int32(i))
	}
	if _, err := checkTimes(ix.times.view()); err != nil || ix.times.n.Load() == 0 {
		t.Error(err)
	}
	b := newBed(t, memFS(t))
	b.cfg.IndexIntervalBytes = 1
	b.open()
	for _, ts := range []kafka.WallMs{50, 10, 60, 60, 20, 70} {
		ok(t, b.l.Append(testNow, mkBatch(b.l.EndOffset(), 0, 1, ts)))
	}
	ok(t, b.l.Close())
	data, err := vfs.ReadFile(b.fs, seg(b, 0, extTime))
	ok(t, err)
	if n, err := checkTimes(data); err != nil || n != len(data) || n == 0 {
		t.Error(n, err)
	}
}

// HC-153. Letting locate or tailRing.find end at the limit instead of at a batch
// would fail it.
func TestHC153NoBatchIsCut(t *testing.T) {
	b := newBed(t, memFS(t)).open()
	b.append(0, 5, 5, 5, 5, 5, 5)
	size := int(b.l.SizeBytes() / 6)
	check := func() {
		for _, c := range []struct {
			limit  int
			minOne bool
			want   int
		}{{size - 1, true, 1}, {size - 1, false, 0}, {size, false, 1}, {size + 61, true, 1}, {2*size - 1, true, 1}, {2 * size, true, 2}, {0, true, 1}, {100 * size, true, 6}} {
			r, err := b.l.Read(0, 30, c.limit, c.minOne)
			ok(t, err)
			if r.Len != c.want*size {
				t.Errorf("limit %d: %d bytes, want %d batches of %d", c.limit, r.Len, c.want, size)
			}
			r.Release()
		}
		r, err := b.l.Read(7, 17, 1000*size, true)
		ok(t, err)
		if r.Len != 2*size || r.Position != int64(size) {
			t.Errorf("up to 17: %d bytes at %d", r.Len, r.Position)
		}
		r.Release()
	}
	check()
	ok(t, b.l.Close())
	b.open()
	check()
}

// Trap 12. Without the tests for zeros in checkOffsets the preallocated index
// would be corrupt; without EntrySize's bound zero blocks would be entries.
func TestTrap12WhatAKilledJVMLeaves(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m).open()
	b.append(0, 5, 5, 5, 5)
	want := b.readAll(0)
	ok(t, b.l.Close())
	pad := func(n int) func([]byte) []byte { return func(d []byte) []byte { return append(d, make([]byte, n)...) } }
	patch(t, m, seg(b, 0, extIndex), pad(10<<20))
	patch(t, m, seg(b, 0, extTime), pad(10<<20-4))
	b.clean = true
	b.open()
	if !bytes.Equal(b.readAll(0), want) {
		t.Error("with preallocated indexes")
	}
	ok(t, b.l.Close())
	patch(t, m, seg(b, 0, extLog), pad(8192))
	patch(t, m, seg(b, 0, extIndex), pad(10<<20))
	for _, name := range []string{fileName(40, ".log.cleaned"), fileName(40, ".index.cleaned"), fileName(50, ".log.swap"), fileName(7, ".log.deleted"), fileName(99, ".index"), fileName(3, ".checkpoint.deleted"), "00000000000000000867-0000000001.checkpoint.deleted"} {
		patchNew(t, m, b.dir+"/"+name)
	}
	b.clean = false
	b.open()
	if !bytes.Equal(b.readAll(0), want) || len(b.rep.Cuts) != 1 || b.rep.Cuts[0].Bytes != 8192 {
		t.Errorf("%+v", b.rep)
	}
	list, _ := m.ReadDir(b.dir)
	names := ""
	for _, e := range list {
		names += e.Name + "\n"
	}
	if strings.Contains(names, "cleaned") || strings.Contains(names, "swap") || strings.Contains(names, ".log.deleted") || !strings.Contains(names, "0867-0000000001.checkpoint.deleted") {
		t.Error(names)
	}
}

func patchNew(t testing.TB, fsys vfs.FS, name string) {
	t.Helper()
	h, err := fsys.Open(name, vfs.Create)
	ok(t, err)
	ok(t, h.Close())
}

// An interrupted compaction: 0.log.swap replaces the segments 0 and 10.
func TestTrap12SwapIsFinished(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m).open()
	b.append(0, 5, 5)
	ok(t, b.l.Roll(testNow))
	b.append(0, 5)
	ok(t, b.l.Roll(testNow))
	b.append(0, 5)
	ok(t, b.l.Close())
	x := append(mkBatch(3, 0, 1, testNow), mkBatch(14, 0, 1, testNow)...)
	patchNew(t, m, seg(b, 0, ".log.swap"))
	patch(t, m, seg(b, 0, ".log.swap"), func([]byte) []byte { return x })
	b.clean = true
	b.open()
	if got := b.l.Segments(); len(got) != 2 || got[0].SizeBytes != int64(len(x)) || got[1].BaseOffset != 15 {
		t.Fatal(got)
	}
	if r, err := b.l.Read(0, 20, 1<<20, true); err != nil || r.Len != len(x) {
		t.Error(r, err)
	}
}

// A marker that lies: the tail is garbage after a clean stop. It is recovered as
// if there had been no marker.
func TestGarbageBehindACleanStopIsCut(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m).open()
	b.append(0, 5, 5)
	ok(t, b.l.Close())
	patch(t, m, seg(b, 0, extLog), func(d []byte) []byte { return append(d, "garbage at the end"...) })
	b.clean = true
	b.open()
	if b.l.EndOffset() != 10 || len(b.rep.Cuts) != 1 {
		t.Errorf("end %d, %+v", b.l.EndOffset(), b.rep)
	}
}

// A power loss may undo half of a truncation: new batches, then old ones of an
// earlier epoch. Without the comparison of epochs in checkEntry the old ones
// would come back.
func TestOldBatchesBehindNewOnesAreCut(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m)
	ok(t, m.MkdirAll(b.dir))
	data := append(mkBatch(0, 1, 5, testNow), mkBatch(5, 3, 5, testNow)...)
	data = append(data, mkBatch(10, 1, 5, testNow)...)
	patchNew(t, m, seg(b, 0, extLog))
	patch(t, m, seg(b, 0, extLog), func([]byte) []byte { return data })
	b.open()
	if b.l.EndOffset() != 10 || len(b.rep.Cuts) != 1 {
		t.Errorf("end %d, %+v", b.l.EndOffset(), b.rep)
	}
}

func oldMessage(magic byte, o kafka.Offset, ts kafka.WallMs, value string) []byte {
	body := []byte{magic, 0}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(ts))
	}
	body = binary.BigEndian.AppendUint32(body, 0xffffffff)
	body = binary.BigEndian.AppendUint32(body, uint32(len(value)))
	body = append(body, value...)
	out := binary.BigEndian.AppendUint64(nil, uint64(o))
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

func TestOldMessageFormatsAreWalkedOver(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m)
	ok(t, m.MkdirAll(b.dir))
	var data []byte
	for o := range kafka.Offset(40) {
		data = append(data, oldMessage(byte(o/20), o, 5000+kafka.WallMs(o), "some value")...)
	}
	data = append(data, mkBatch(40, 2, 3, 9000)...)
	patchNew(t, m, seg(b, 0, extLog))
	patch(t, m, seg(b, 0, extLog), func([]byte) []byte { return append(data, 1, 2, 3) })
	b.open()
	if b.l.EndOffset() != 43 || len(b.rep.Cuts) != 1 || b.rep.Cuts[0].Bytes != 3 {
		t.Fatal(b.l.EndOffset(), b.rep)
	}
	r, err := b.l.Read(17, 43, 1<<20, true)
	ok(t, err)
	got := make([]byte, r.Len)
	_, err = r.ReadAt(got, 0)
	ok(t, err)
	if !bytes.Equal(got, data[17*len(oldMessage(0, 0, 0, "some value")):]) {
		t.Error("read differently")
	}
	if found, k, err := b.l.OffsetForTimestamp(5030, 43); err != nil || !k || found.Offset != 30 {
		t.Error(found, k, err)
	}
	patch(t, m, seg(b, 0, extLog), func(d []byte) []byte { d[len(d)/3] ^= 1; return d })
	b.rp = 43
	var c *CorruptError
	if err := b.tryOpen(); !errors.As(err, &c) {
		t.Error("a bad CRC-32 went unseen:", err)
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	m := memFS(t)
	fault := vfs.NewFault(m)
	b := newBed(t, fault).open()
	b.append(0, 5)
	size := b.l.SizeBytes()
	fault.SetBudget(20)
	err := b.l.Append(testNow, mkBatch(5, 1, 3, testNow), mkBatch(8, 1, 3, testNow))
	if !errors.Is(err, unix.ENOSPC) || errors.Is(err, ErrOffline) {
		t.Fatal(err)
	}
	info, _ := m.Stat(seg(b, 0, extLog))
	if info.SizeBytes != size || b.l.EndOffset() != 5 || b.l.LatestEpoch() != 0 || b.l.Producers().EndOffset() != 5 {
		t.Error("the log changed", info, b.l.EndOffset())
	}
	fault.Heal()
	b.append(0, 5)
	fault.Fail(vfs.Rule{Kinds: vfs.OpWrite, Err: unix.EIO, WriteFirst: 7})
	fault.Fail(vfs.Rule{Kinds: vfs.OpTruncate, Err: unix.EIO})
	if err := b.l.Append(testNow, mkBatch(10, 0, 1, testNow)); !errors.Is(err, ErrOffline) {
		t.Fatal(err)
	}
	fault.Heal()
	if err := b.l.Append(testNow, mkBatch(10, 0, 1, testNow)); !errors.Is(err, ErrOffline) || b.l.Offline() == nil {
		t.Fatal(err)
	}
	if b.l.EndOffset() != 10 {
		t.Error(b.l.EndOffset())
	}
}

func TestFailedFlushTakesTheLogOffline(t *testing.T) {
	fault := vfs.NewFault(memFS(t))
	b := newBed(t, fault).open()
	b.append(0, 5)
	fault.Fail(vfs.Rule{Kinds: vfs.OpSync, Err: unix.EIO})
	j := b.l.PrepareFlush()
	if j.Run() == nil {
		t.Fatal("no error")
	}
	if err := b.l.FlushDone(j); !errors.Is(err, ErrOffline) || b.l.RecoveryPoint() != 0 {
		t.Fatal(err)
	}
}

// A log is cut and written again in an older epoch, and the process dies before
// a flush: the stored epochs still tell of the records that were cut. What was
// written is there. Fails if load trusts them beyond the recovery point.
func TestStoredEpochsOfCutRecords(t *testing.T) {
	m := memFS(t)
	b := newBed(t, m).open()
	b.append(1, 10)
	b.append(3, 5)
	b.flush()
	_, _, err := b.l.TruncateTo(10, testNow)
	ok(t, err)
	b.append(2, 5)
	b.rp = b.l.RecoveryPoint()
	m.CrashProcess()
	b.open()
	if end := b.l.EndOffset(); end != 15 {
		t.Errorf("the log ends at %d, want 15: %+v", end, b.rep.Cuts)
	}
	if e := b.l.Epochs(); len(e) != 2 || e[1] != (EpochStart{2, 10}) {
		t.Errorf("epochs %v", e)
	}
}
