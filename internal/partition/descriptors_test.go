package partition

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// A process without file descriptors, at whichever operation that begins: appends,
// rolls, flushes, reads, checkpoints, retention, deletions, new topics and the
// cleaner. What needs a file fails and says why; nothing goes offline or is lost,
// and with descriptors again all goes on. Fails if any of them takes EMFILE for the
// disk's error.
func TestNoDescriptorIsNotTheDisksError(t *testing.T) {
	for _, times := range []int{2, 1 << 30} {
		for n := 0; ; n++ {
			if !withoutDescriptors(t, n, times) {
				if n < 50 {
					t.Fatalf("all is done in %d operations", n)
				}
				break
			}
		}
	}
}

// withoutDescriptors lets the descriptors run out at the nth operation, for as many
// as times, and tells whether the work came that far.
func withoutDescriptors(t *testing.T, n, times int) (ranOut bool) {
	r := newRig(t)
	r.tune = func(o *Options) { o.OpenFiles = 2 } // so that files are opened all the time
	r.mustOpen()
	table := r.compacted("c")
	r.fill(table, 30)
	p := r.part(r.topic("t", []int{0, 0}, "segment.bytes=200", "retention.bytes=700", "flush.messages=3", "index.interval.bytes=0"), 0)
	left := n
	r.fs.SetHook(func(op vfs.Op) error {
		if op.Kind&(vfs.OpOpen|vfs.OpSyncDir|vfs.OpReadDir|vfs.OpLock) == 0 {
			return nil
		}
		if left--; left < 0 && left >= -times {
			ranOut = true
			return unix.EMFILE
		}
		return nil
	})
	acked := map[kafka.Offset]string{}
	work := func() {
		for i := range 30 {
			v := fmt.Sprint("v", i)
			switch a := p.Append(one(v), true, r.now().Wall); a.Code {
			case 0:
				acked[a.BaseOffset] = v
			case kafka.ErrKafkaStorageError:
			default:
				t.Fatalf("operation %d: append: %s %s", n, a.Code, a.Message)
			}
			res := p.Read(ReadRequest{Offset: p.LogStart(), LeaderEpoch: kafka.NoEpoch, MaxBytes: 100, MinOne: true})
			if res.Records != nil {
				res.Records.Release()
			}
			if res.Code != 0 && res.Code != kafka.ErrKafkaStorageError {
				t.Fatalf("operation %d: read: %s", n, res.Code)
			}
			_ = p.ListOffset(int64(testStart), kafka.NoEpoch, false)
			r.pass(3 * time.Second)
		}
		r.s.cleaner.cleanOne()
		r.s.checkpointHigh()
		r.s.checkpointRecovery()
		r.s.checkpointStart()
	}
	work()
	created := r.part(r.topic("new", []int{0}), 0)
	well := func(when string) {
		if p.dir.failed.Load() || table.uncleanable || p.broken != nil || table.broken != nil || r.fatal.Load() > 0 {
			t.Fatalf("operation %d, %s: directory failed %v, broken %v, %v, uncleanable %v\n%s", n, when, p.dir.failed.Load(), p.broken, table.broken, table.uncleanable, r.log.String())
		}
	}
	well("without descriptors")
	r.fs.SetHook(nil)
	r.pass(2 * keeperIdle)
	r.append(created, one("a"))
	work()
	well("with descriptors again")
	check := func(when string) {
		start := p.LogStart()
		got := values(t, p, start)
		for o, v := range acked {
			if i := int(o - start); i >= 0 && (i >= len(got) || got[i] != v) {
				t.Fatalf("operation %d, %s: what was acknowledged at %d is not there, log from %d:\n%s", n, when, o, start, got)
			}
		}
		if got := values(t, table, 0); got[len(got)-1] != "v29" {
			t.Fatalf("operation %d, %s: %s", n, when, got)
		}
	}
	check("after")
	tid, cid := p.topic, table.topic
	r.reopen()
	p, table = r.part(tid, 0), r.part(cid, 0)
	well("after a restart")
	check("after a restart")
	return ranOut
}
