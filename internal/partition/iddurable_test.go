package partition

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A process that dies leaves partition.metadata in the page cache only; the next
// one must not take it for durable when it flushes records, or a power loss takes
// the topic id and with it all flushed records. Fails if open says idDurable.
func TestTopicIDIsDurableAfterAProcessDied(t *testing.T) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0})
	r.append(r.part(id, 0), one("a"))
	r.reopen()
	must(t, r.part(id, 0).flushTo(1))
	r.pass(61 * time.Second) // the checkpoint says that it was flushed
	r.abandon()
	r.mem.CrashPower(rand.New(rand.NewPCG(1, 2)))
	r.mustOpen()
	wantValues(t, r.part(id, 0), 0, "a")
}
