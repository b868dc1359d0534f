package quorum

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// inline runs what takes long at once, and tells the end when asked.
type inline struct {
	now  kafka.Now
	ends []func()
}

func (e *inline) Flush(work func() error, done func(error)) { e.Background(work, done) }
func (e *inline) Background(work func() error, done func(error)) {
	err := work()
	e.ends = append(e.ends, func() { done(err) })
}

// replicaAt is a replica on the golden folder of node 1 that has applied
// everything below end, and wants a snapshot.
func replicaAt(t *testing.T, end kafka.Offset, change func(*Options)) (*Replica, *vfs.Mem, *inline) {
	t.Helper()
	mem, exec := vfs.NewMem(), &inline{now: kafka.Now{Mono: 1, Wall: 1}}
	copyGoldenFolder(t, mem, "1")
	opts := options(t, mem)
	opts.Controller = nil
	opts.Raft.Self = raft.ReplicaKey{ID: 1, Dir: mustUUID(t, "AAAAAAAAAAAAAAAAAAAA1A")}
	opts.Clock = func() kafka.Now { return exec.now }
	opts.Snapshots = SnapshotConfig{MaxBytes: 1, RetentionBytes: -1, RetentionMs: -1}
	change(&opts)
	q, err := OpenReplica(opts, exec)
	check(t, err)
	q.applied(t, mem, end)
	return q, mem, exec
}

// applied says that everything below end is committed and applied.
func (q *Replica) applied(t *testing.T, mem *vfs.Mem, end kafka.Offset) {
	t.Helper()
	r, err := NewReader(mem, "data")
	check(t, err)
	img, err := r.Image(end)
	check(t, err)
	q.publish(metadata.NewDelta(img), img, 100)
}

// end tells what has ended since.
func (e *inline) end() {
	ends := e.ends
	e.ends = nil
	for _, f := range ends {
		f()
	}
}

// HC-027: a snapshot carries the voters in force at its end, though the log goes
// on and holds another set. Fails if maybeSnapshot asks for the newest.
func TestHC027SnapshotCarriesTheVotersOfItsEnd(t *testing.T) {
	l := readRecordedLog(t)
	removal := l.batches[slices.IndexFunc(l.batches, func(b raft.Batch) bool { return b.Base > 0 && len(b.Control) > 0 })]
	for _, c := range []struct {
		end    kafka.Offset
		voters int
	}{{removal.Base, 3}, {removal.Last + 1, 2}} {
		q, mem, exec := replicaAt(t, c.end, func(*Options) {})
		q.maybeSnapshot()
		if len(exec.ends) != 1 {
			t.Fatalf("end %d: %d snapshots", c.end, len(exec.ends))
		}
		exec.end()
		content, err := readSnapshot(mem, "data/"+Folder+"/"+snapshotName(kafka.OffsetAndEpoch{Offset: c.end, Epoch: 1}), c.end, nil)
		check(t, errors.Join(err, q.Err()))
		voters := 0
		for _, control := range content.Control {
			if control.Voters != nil {
				voters = control.Voters.Len()
			}
		}
		if voters != c.voters {
			t.Errorf("end %d: %d voters in the snapshot, want %d", c.end, voters, c.voters)
		}
		check(t, q.Close())
	}
}

// HC-033: there is no snapshot while a metadata transaction is open. Fails if
// maybeSnapshot does not ask InTransaction.
func TestHC033NoSnapshotInsideATransaction(t *testing.T) {
	q, _, exec := replicaAt(t, 955, func(*Options) {})
	delta := metadata.NewDelta(q.Image())
	check(t, delta.Replay(record.NewBeginTransaction()))
	img := delta.Apply(q.Image().Provenance())
	q.publish(delta, img, 100)
	q.maybeSnapshot()
	if len(exec.ends) != 0 || !img.InTransaction() {
		t.Errorf("%d snapshots inside a transaction", len(exec.ends))
	}
	check(t, q.Close())
}

// A broker's replica never flushes its log; the files that it trims away are
// deleted nevertheless. Fails if snapshotDone does not ask for Removals.
func TestBrokerDeletesWhatItHasTrimmed(t *testing.T) {
	q, mem, exec := replicaAt(t, 930, func(o *Options) {
		o.Raft.CanBecomeVoter, o.Raft.Self.ID = false, 9
		o.Snapshots.RetentionBytes = 1
	})
	deleted := func() (names []string) {
		list, err := mem.ReadDir("data/" + Folder)
		check(t, err)
		for _, e := range list {
			if filepath.Ext(e.Name) == deletedSuffix {
				names = append(names, e.Name)
			}
		}
		return names
	}
	before := deleted() // what Kafka has left, if the start did not see to it
	q.maybeSnapshot()
	exec.end()
	if len(deleted()) <= len(before) {
		t.Fatalf("nothing was trimmed: %q", deleted())
	}
	exec.now.Wall += 3600_000
	q.applied(t, mem, 950)
	q.maybeSnapshot()
	exec.end()
	exec.end() // of the removals
	for _, name := range deleted() {
		if name < "00000000000000000900" {
			t.Errorf("%s is still there", name)
		}
	}
	check(t, errors.Join(q.Err(), q.Close()))
}

// Fetched records are checked before anything is appended. Fails if checkBatch
// does not look at the CRC.
func TestDamagedRecordsAreNotParsed(t *testing.T) {
	l := readRecordedLog(t)
	whole := l.records(700, 760)
	if list, err := parseBatches(whole); err != nil || len(list) < 5 {
		t.Fatalf("%d batches, %v", len(list), err)
	}
	first := len(l.records(700, 701))
	for at := 21; at < first; at++ { // what the CRC covers: not offset, length and epoch
		damaged := slices.Clone(whole)
		damaged[at] ^= 0x10
		if list, err := parseBatches(damaged); !errors.Is(err, ErrBatch) {
			t.Fatalf("byte %d: %d batches, %v", at, len(list), err)
		}
	}
}
