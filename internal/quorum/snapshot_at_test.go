package quorum

import (
	"errors"
	"slices"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// inline runs what takes long at once, and tells the end when asked.
type inline struct{ ends []func() }

func (e *inline) Flush(work func() error, done func(error)) { e.Background(work, done) }
func (e *inline) Background(work func() error, done func(error)) {
	err := work()
	e.ends = append(e.ends, func() { done(err) })
}

// replicaAt is a replica on the golden folder of node 1 that has applied
// everything below end, and wants a snapshot.
func replicaAt(t *testing.T, end kafka.Offset) (*Replica, *vfs.Mem, *inline) {
	t.Helper()
	mem, exec := vfs.NewMem(), &inline{}
	copyGoldenFolder(t, mem, "1")
	opts := options(t, mem)
	opts.Controller = nil
	opts.Raft.Self = raft.ReplicaKey{ID: 1, Dir: mustUUID(t, "AAAAAAAAAAAAAAAAAAAA1A")}
	opts.Clock = func() kafka.Now { return kafka.Now{Mono: 1, Wall: 1} }
	opts.Snapshots = SnapshotConfig{MaxBytes: 1, RetentionBytes: -1, RetentionMs: -1}
	q, err := OpenReplica(opts, exec)
	check(t, err)
	r, err := NewReader(mem, "data")
	check(t, err)
	img, err := r.Image(end)
	check(t, err)
	q.publish(metadata.NewDelta(img), img, 100)
	return q, mem, exec
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
		q, mem, exec := replicaAt(t, c.end)
		q.maybeSnapshot()
		if len(exec.ends) != 1 {
			t.Fatalf("end %d: %d snapshots", c.end, len(exec.ends))
		}
		exec.ends[0]()
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
	q, _, exec := replicaAt(t, 955)
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
