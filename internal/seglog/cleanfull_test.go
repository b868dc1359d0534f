package seglog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

// A disk that is full at any operation of a pass, once or from there on until there
// is room, changes nothing that a reader could see and takes no log offline: before
// the .swap names are complete the pass is undone, behind that it is finished when
// there is room, also by the next start. Taking the log offline in Swap fails it,
// so does not sweeping, sweeping the .cleaned files first, or reading the old
// .txnindex while a swap waits.
func TestFullDiskAtAnyOperationOfAPass(t *testing.T) {
	for _, c := range []struct {
		after string
		times []int
	}{
		{"goes on", []int{1, 2, 1 << 30}},
		{"has room", []int{1, 2, 1 << 30}},
		{"crashes", []int{0, 1, 3, 5}},
		{"loses power", []int{0, 1, 3, 5}},
	} {
		for _, times := range c.times {
			t.Run(fmt.Sprint(c.after, " ", times), func(t *testing.T) {
				for n := 0; ; n++ {
					if !fullDiskPass(t, c.after, n, times) {
						if n < 15 {
							t.Fatalf("a pass of %d operations", n)
						}
						return
					}
				}
			})
		}
	}
}

// fullDiskPass lets the disk be full at the n-th operation of a pass and tells
// whether the pass was so long. It is full so many times, or crashes so many
// operations later, while the pass is being undone.
func fullDiskPass(t *testing.T, after string, n, times int) bool {
	t.Helper()
	mem := memFS(t)
	fault := vfs.NewFault(mem)
	k := newKeyed(t, fault, 2)
	k.codecs = []batch.Codec{batch.None, batch.Snappy}
	for range 2 {
		k.cfg.SegmentBytes = 600
		k.traffic(25)
		k.cfg.SegmentBytes = 2000
		for i, pid := range slices.Sorted(maps.Keys(k.open)) {
			k.end(pid, i%2 == 0)
		}
		k.roll()
		if k.l.CleanedTo() == 0 {
			k.mustCompact()
			k.now += 2000 // so that the next pass removes markers
		}
	}
	k.rp = k.l.RecoveryPoint()
	end := k.l.EndOffset()
	left := n
	fault.SetHook(func(op vfs.Op) error {
		if op.Kind&vfs.OpMutate == 0 || op.Kind == vfs.OpOpen && !hasSuffix(op.Name, extCleaned) {
			return nil // reading needs no room
		}
		left--
		switch crash := after == "crashes" || after == "loses power"; {
		case left == -1, !crash && left < 0 && left >= -times:
			return &vfsFull{op}
		case crash && left < -1-times:
			return errCrash
		}
		return nil
	})
	_, err := k.compact()
	if err == nil {
		return false
	}
	if !vfs.Exhausted(err) || k.l.Offline() != nil {
		t.Fatalf("operation %d: %v, offline %v", n, err, k.l.Offline())
	}
	k.check(end, 0)
	switch after {
	case "goes on": // as long as it is full, nothing happens
		if _, err := k.compact(); err != nil && (!vfs.Exhausted(err) || k.l.Offline() != nil) {
			t.Fatalf("operation %d, again: %v", n, err)
		}
		k.check(end, 0)
	case "crashes", "loses power":
		crash := mem.CrashProcess
		if after == "loses power" {
			crash = func() { mem.CrashPower(k.rnd) }
		}
		for again := 2; again >= 0; again-- { // and while it recovers
			crash()
			left := k.rnd.IntN(8)
			fault.SetHook(func(op vfs.Op) error {
				if op.Kind&vfs.OpMutate == 0 || again == 0 {
					return nil
				}
				if left--; left < 0 {
					return errCrash
				}
				return nil
			})
			k.env = NewEnv(NewFiles(fault, 2))
			k.env.ProducerExpirationMs.Store(1 << 60)
			if err := k.tryOpen(); err != nil && (again == 0 || !errors.Is(err, errCrash)) {
				t.Fatal(err)
			}
		}
		if len(k.rep.Cuts) > 0 || k.l.EndOffset() != end {
			t.Fatalf("operation %d: end %d, was %d, %+v", n, k.l.EndOffset(), end, k.rep)
		}
		k.flush()
	}
	fault.SetHook(nil)
	k.check(end, 0)
	k.mustCompact()
	k.check(end, k.l.CleanedTo())
	k.noHoles()
	if k.l.CleanedTo() != end {
		t.Fatalf("operation %d: cleaned to %d of %d", n, k.l.CleanedTo(), end)
	}
	for _, j := range k.jobs {
		ok(t, j.Run())
	}
	for _, e := range must1(fault.ReadDir(k.dir)) {
		if hasSuffix(e.Name, extCleaned) || hasSuffix(e.Name, extSwap) || hasSuffix(e.Name, extDeleted) {
			t.Fatalf("operation %d: %s is left", n, e.Name)
		}
	}
	return true
}

// vfsFull is a full disk that says where.
type vfsFull struct{ op vfs.Op }

func (e *vfsFull) Error() string { return fmt.Sprintf("%d %s: disk full", e.op.Kind, e.op.Name) }
func (e *vfsFull) Unwrap() error { return syscall.ENOSPC }
