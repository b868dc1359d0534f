package quorum

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

func checkpoints(t *testing.T, fsys vfs.FS) (names []string) {
	entries, err := fsys.ReadDir("data/" + Folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name, "checkpoint") && strings.Contains(e.Name, "-") && e.Name != "leader-epoch-checkpoint" {
			names = append(names, e.Name)
		}
	}
	return names
}

// busy makes a quorum create topics until it has made snapshots.
func busy(t *testing.T, mem *vfs.Mem, retention int64) Options {
	opts := options(t, mem)
	opts.Log.SegmentBytes, opts.Snapshots.MaxBytes, opts.Snapshots.RetentionBytes = 2048, 3000, retention
	q := start(t, opts)
	q.register()
	// At least 60 topics, and more until the snapshot writer, which works
	// beside, has got as far as the tests need.
	for i := 0; i < 60 || !enoughSnapshots(checkpoints(t, mem), retention); i++ {
		if i == 5000 {
			t.Fatal("no snapshots after 5000 topics")
		}
		if err := topicError(<-q.submit(createTopic(fmt.Sprint("t", i)))); err != nil {
			t.Fatal(err)
		}
	}
	q.stopNow()
	return opts
}

func enoughSnapshots(names []string, retention int64) bool {
	if retention < 0 {
		return len(names) >= 3
	}
	return len(names) > 0 && names[0] != snapshotName(kafka.OffsetAndEpoch{})
}

// State from snapshot and tail equals state from the whole log, and the name
// is the exclusive end. Fails if maybeSnapshot takes EndOffset−1.
func TestHC032SnapshotIDIsExclusive(t *testing.T) {
	mem := formatted(t)
	opts := busy(t, mem, -1)
	names := checkpoints(t, mem)
	if len(names) < 3 {
		t.Fatalf("snapshots: %v", names)
	}
	store, rec, err := OpenStore(StoreOptions{FS: mem, Dir: "data",
		OpenLog: func(folder string) (Log, error) {
			return OpenSegments(mem, folder, opts.Log, func() kafka.WallMs { return 1 }, nil)
		}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	replay := func(img *metadata.Image, from, to kafka.Offset) *metadata.Image {
		d := metadata.NewDelta(img)
		err := store.Batches(from, to, func(b raft.Batch) error { return replayBatch(d, b.Bytes) })
		if err != nil {
			t.Fatal(err)
		}
		return d.Apply(metadata.Provenance{EndOffset: to})
	}
	whole := replay(metadata.Empty(), 0, rec.Raft.End).Hash()
	for _, name := range names[1:] {
		id, ok := parseSnapshotName(name)
		if !ok {
			t.Fatalf("name %s", name)
		}
		if err := store.boundary(id.Offset); err != nil {
			t.Errorf("HC-033: %v", err)
		}
		d := metadata.NewDelta(metadata.Empty())
		if _, err := readSnapshot(mem, "data/"+Folder+"/"+name, id.Offset, func(m record.Message, _ int16) error { return d.Replay(m) }); err != nil {
			t.Fatal(err)
		}
		img := d.Apply(metadata.Provenance{EndOffset: id.Offset})
		if replay(img, id.Offset, rec.Raft.End).Hash() != whole {
			t.Errorf("snapshot %s and the tail give another state", name)
		}
	}
}

// Fails if boundary always says yes.
func TestHC033NoSnapshotInsideABatch(t *testing.T) {
	mem := formatted(t)
	opts := busy(t, mem, -1)
	q, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	end := q.replica.core.EndOffset()
	q.replica.store.snapshots = nil
	for o := range end {
		w, err := q.replica.store.NewSnapshot(kafka.OffsetAndEpoch{Offset: o + 1, Epoch: 1}, 0, 0, 1, raft.VoterSet{})
		inside := false
		_ = q.replica.store.Batches(0, end, func(b raft.Batch) error {
			inside = inside || b.Base < o+1 && o+1 <= b.Last
			return nil
		})
		if inside != errors.Is(err, ErrSnapshot) {
			t.Errorf("offset %d inside a batch: %t, error %v", o+1, inside, err)
		}
		if w != nil {
			if err := w.Abort(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := q.replica.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// Fails if join does not compare the log start with the snapshot.
func TestHC034LogStartNeedsASnapshot(t *testing.T) {
	mem := formatted(t)
	opts := busy(t, mem, 6000)
	var start kafka.Offset
	names := checkpoints(t, mem)
	if names[0] == snapshotName(kafka.OffsetAndEpoch{}) {
		t.Fatalf("nothing was trimmed: %v", names)
	}
	q := open(t, opts) // as it is, it opens
	start = q.replica.store.log.StartOffset()
	if err := q.replica.store.Close(); err != nil {
		t.Fatal(err)
	}
	if id, _ := parseSnapshotName(names[0]); start != id.Offset {
		t.Errorf("log start %d, oldest snapshot %s", start, names[0])
	}
	for _, name := range names {
		if err := mem.Remove("data/" + Folder + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(opts); !errors.Is(err, ErrLogStart) {
		t.Errorf("without any snapshot: %v", err)
	}
}

// Fails if listSnapshots matches by prefix, or readSnapshot does not ask for
// the footer.
func TestHC035HalfWrittenSnapshots(t *testing.T) {
	mem := formatted(t)
	opts := busy(t, mem, -1)
	names := checkpoints(t, mem)
	whole, err := vfs.ReadFile(mem, "data/"+Folder+"/"+names[len(names)-1])
	if err != nil {
		t.Fatal(err)
	}
	last, _ := parseSnapshotName(names[len(names)-1])
	for cut := 0; cut < len(whole); cut += 97 {
		write(t, mem, "data/"+Folder+"/00000000000000000900-0000000003.checkpoint.part", whole[:cut])
		write(t, mem, "data/"+Folder+"/00000000000000000900-0000000003.checkpoint", whole[:cut])
		q := open(t, opts)
		if got := q.Image().Provenance().EndOffset; got != last.Offset {
			t.Fatalf("cut at %d: image of offset %d, want %d", cut, got, last.Offset)
		}
		if err := q.replica.store.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := mem.Stat("data/" + Folder + "/00000000000000000900-0000000003.checkpoint.part"); err == nil {
			t.Fatal(".part file survives a start")
		}
	}
}

// The counter does not restart with a new leadership, or a new life. Fails if
// lead or revert resets snap.bytes, or load forgets the tail behind the snapshot.
func TestHC036CountersSurviveElections(t *testing.T) {
	mem := formatted(t)
	opts := options(t, mem)
	opts.Snapshots.MaxBytes = 4000
	for life := range 30 {
		q := start(t, opts)
		if life == 0 {
			q.register()
		}
		if err := topicError(<-q.submit(createTopic(fmt.Sprint("t", life)))); err != nil {
			t.Fatal(err)
		}
		q.stopNow()
	}
	if names := checkpoints(t, mem); len(names) < 2 {
		t.Errorf("no snapshot in 30 short lives: %v", names)
	}
	opts.Snapshots.MaxBytes = 1 << 30
	q := start(t, opts)
	q.call(createTopic("last"))
	q.Leave()
	q.stopNow() // the loop has ended: its state may be looked at
	if q.replica.led != kafka.NoEpoch || q.replica.snap.bytes == 0 {
		t.Errorf("epoch %d, %d bytes since the last snapshot", q.replica.led, q.replica.snap.bytes)
	}
}

func FuzzSnapshotName(f *testing.F) {
	f.Add("00000000000000000900-0000000003.checkpoint")
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := parseSnapshotName(name); ok && snapshotName(id) != name {
			t.Errorf("%q is taken for %v", name, id)
		}
	})
}
