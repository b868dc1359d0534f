package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// killedJVM makes the folder of a partition what Kafka's cleaner, killed within a
// minute, leaves: segments without their last batches, or without any, beyond a
// recovery point checkpoint of long ago. It gives the values that are left.
func (r *rig) killedJVM(p *Partition) []string {
	r.t.Helper()
	segs := p.log.Load().Segments()
	if len(segs) < 4 {
		r.t.Fatalf("%d segments", len(segs))
	}
	all := values(r.t, p, 0)
	r.abandon()
	r.mem.CrashProcess()
	cut := func(i int, size int64) {
		f, err := r.fs.Open(fmt.Sprintf("/a/c-0/%020d.log", segs[i].BaseOffset), vfs.ReadWrite)
		must(r.t, err)
		must(r.t, f.Truncate(size))
		must(r.t, f.Sync())
		must(r.t, f.Close())
	}
	cut(0, segs[0].SizeBytes-int64(len(keyedBatch("k0", all[segs[1].BaseOffset-1]))))
	cut(2, 0)
	left := slices.Clone(all[:segs[1].BaseOffset-1])
	left = append(left, all[segs[1].BaseOffset:segs[2].BaseOffset]...)
	left = append(left, all[segs[3].BaseOffset:]...)
	must(r.t, logdir.WriteCheckpoint(r.fs, "/a", recoveryFile, nil))
	must(r.t, logdir.WriteCheckpoint(r.fs, "/a", highFile, nil))
	return left
}

// Trap 12: what a killed JVM's cleaner leaves beyond the recovery point is no lost
// tail: every record is served, also after a later loss of power. Where we have
// written and the machine has been off since, the log ends at the hole: what is
// behind it might follow on something that was lost. Without Intact in recovery the
// first case loses acknowledged records.
func TestTrap12HolesOfAKilledJVM(t *testing.T) {
	for _, c := range []struct {
		name, mark, boot string
		kept             bool
	}{
		{"we never wrote", "", "one", true},
		{"we wrote in this boot", "one", "one", true},
		{"we wrote in another boot", "one", "two", false},
		{"the boot is not known", "one", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t).mustOpen()
			id := func() *Partition { p := r.compacted("c"); r.fill(p, 60); return p }()
			want := r.killedJVM(id)
			must(t, logdir.RemoveBootMark(r.fs, "/a"))
			if c.mark != "" {
				must(t, logdir.WriteBootMark(r.fs, "/a", c.mark))
			}
			r.tune = func(o *Options) { o.Boot = c.boot }
			r.mustOpen()
			p := r.part(id.topic, 0)
			if got := values(t, p, 0); slices.Equal(got, want) != c.kept || !c.kept && !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("read %v, there were %v\n%s", got, want, r.log.String())
			}
			if !c.kept {
				return
			}
			r.abandon()
			r.mem.CrashPower(rand.New(rand.NewPCG(1, 1)))
			r.tune = func(o *Options) { o.Boot = "three" }
			r.mustOpen()
			if got := values(t, r.part(id.topic, 0), 0); !slices.Equal(got, want) {
				t.Fatalf("after a loss of power %v, there were %v", got, want)
			}
			must(t, r.s.Close())
			if _, err := r.fs.Stat("/a/" + logdir.BootMarkFile); err == nil {
				t.Fatal("the mark is there after a clean stop")
			}
		})
	}
}
