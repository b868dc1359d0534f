package partition

import (
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/seglog/logdir"
)

const firstLog = "00000000000000000000.log"

// flushed is a topic t with three flushed records, its marks in the checkpoint
// files, and another topic beside it.
func flushed(t *testing.T) (*rig, kafka.TopicID) {
	r := newRig(t).mustOpen()
	id := r.topic("t", []int{0}, "flush.messages=1")
	for _, v := range []string{"a", "b", "c"} {
		r.append(r.part(id, 0), one(v))
	}
	r.pass(61 * time.Second)
	return r, id
}

func (r *rig) wantOffline(id kafka.TopicID, message string) {
	r.t.Helper()
	wantCode(r.t, r.part(id, 0).Append(one("d"), true, testStart), kafka.ErrKafkaStorageError)
	if !strings.Contains(r.log.String(), message) {
		r.t.Fatalf("the log does not tell %q:\n%s", message, r.log.String())
	}
}

// stopped ends the data plane cleanly and opens it again.
func (r *rig) stopped() *rig {
	r.t.Helper()
	close(r.s.stop)
	r.s.stop = make(chan struct{})
	must(r.t, r.s.Close())
	return r.mustOpen()
}

// The .log file of a partition is gone: offline, not empty. Fails if scan does
// not tell seglog what was committed.
func TestHC122MissingLogIsOffline(t *testing.T) {
	r, id := flushed(t)
	r.abandon()
	must(t, r.mem.Remove("/a/t-0/"+firstLog))
	r.mustOpen()
	r.wantOffline(id, firstLog)
}

// The marks of a damaged log stay, over stops and crashes, so that no later
// start cuts at the damage. Fails if writeCheckpoint leaves kept marks out, or
// if Close marks a stop with damage as clean.
func TestHC122DamageIsNotForgotten(t *testing.T) {
	r, id := flushed(t)
	flip(t, r.mem, "/a/t-0/"+firstLog, 69+65) // in a record: heads are well
	r.reopen()
	other := r.topic("other", []int{0}, "flush.messages=1")
	for range 3 {
		r.append(r.part(other, 0), one("x"))
		r.pass(61 * time.Second)
		r.wantOffline(id, firstLog)
		r.stopped()
		r.wantOffline(id, firstLog)
		r.reopen()
	}
	info, err := r.mem.Stat("/a/t-0/" + firstLog)
	must(t, err)
	if want := int64(3 * len(one("a"))); info.SizeBytes != want {
		t.Fatalf("%d bytes left of %d", info.SizeBytes, want)
	}
}

// A topic id that cannot be read any more is damage if the log was flushed: the
// partition does not begin anew, empty. Fails if scan asks placed alone.
func TestLostTopicIDOfAFlushedLogIsOffline(t *testing.T) {
	name := "/a/t-0/" + logdir.PartitionMetadataFile
	for _, harm := range []func(r *rig) error{
		func(r *rig) error { return r.mem.Remove(name) },
		func(r *rig) error { flip(r.t, r.mem, name, 1); return nil },
	} {
		r, id := flushed(t)
		r.abandon()
		must(t, harm(r))
		r.mustOpen()
		r.wantOffline(id, name)
		if got := r.folders("/a", logdir.Stray); len(got) != 0 {
			t.Fatalf("put aside: %v", got)
		}
	}
}

// The advice for a damaged partition is to delete the topic: a new one of the
// same name must be empty. Fails if discard leaves the folder of a partition
// whose log is not open.
func TestHC121DamagedTopicDeletedAndCreatedAgain(t *testing.T) {
	r, id := flushed(t)
	flip(t, r.mem, "/a/t-0/"+firstLog, 80)
	r.reopen()
	r.wantOffline(id, firstLog)
	r.apply(&record.RemoveTopic{TopicID: id})
	id = r.topic("t", []int{0}, "flush.messages=1")
	wantValues(t, r.part(id, 0), 0)
	if o := r.append(r.part(id, 0), one("new")); o != 0 {
		t.Fatalf("first offset %d", o)
	}
	r.reopen()
	wantValues(t, r.part(id, 0), 0, "new")
}

// HC-121: the process dies after a deletion, before the checkpoints are written
// again; a new topic of the same name does not inherit the old one's marks.
// Fails without discardUnknown.
func TestHC121MarksOfADeletedTopicAfterACrash(t *testing.T) {
	r, id := flushed(t)
	r.apply(&record.RemoveTopic{TopicID: id})
	r.reopen()
	id = r.topic("t", []int{0})
	r.append(r.part(id, 0), one("new"))
	r.reopen()
	wantValues(t, r.part(id, 0), 0, "new")
	r.append(r.part(id, 0), one("newer"))
}

// The disk is full when a topic is created; when there is room the partition
// serves, without a restart. Fails without the chore remakeAll.
func TestPartitionsMissedForWantOfSpaceAreMade(t *testing.T) {
	r := newRig(t).mustOpen()
	r.fs.SetBudget(0)
	id := r.topic("t", []int{0, 0})
	wantCode(t, r.part(id, 0).Append(one("x"), true, testStart), kafka.ErrKafkaStorageError)
	r.pass(11 * time.Second)
	wantCode(t, r.part(id, 1).Append(one("x"), true, testStart), kafka.ErrKafkaStorageError)
	r.fs.Heal()
	r.pass(11 * time.Second)
	for n := range kafka.PartitionID(2) {
		r.append(r.part(id, n), one("y"))
		wantValues(t, r.part(id, n), 0, "y")
	}
	r.reopen()
	wantValues(t, r.part(id, 1), 0, "y")
}
