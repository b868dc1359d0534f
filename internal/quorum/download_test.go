package quorum

import (
	"bytes"
	"errors"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// HC-037: what a leader's store answers to a snapshot fetch. Fails if it does
// not compare the position with the size, or serves a file that is no snapshot
// of its own.
func TestHC037PartsThatAreNotThere(t *testing.T) {
	mem := vfs.NewMem()
	copyGoldenFolder(t, mem, "2")
	store, _ := openGoldenFolder(t, mem)
	defer func() { check(t, store.Close()) }()
	id := kafka.OffsetAndEpoch{Offset: 921, Epoch: 1}
	size, all, code, err := store.ReadSnapshot(id, 0, 1<<20)
	if err != nil || code != kafka.NoError || size != int64(len(all)) || size < 1000 {
		t.Fatalf("the whole snapshot: %d bytes of %d, %s, %v", len(all), size, code, err)
	}
	for _, c := range []struct {
		id       kafka.OffsetAndEpoch
		position int64
		code     kafka.ErrorCode
		bytes    int
	}{
		{id, 1, kafka.NoError, 100},
		{id, size - 1, kafka.NoError, 1},
		{id, size, kafka.ErrPositionOutOfRange, 0},
		{id, size + 1, kafka.ErrPositionOutOfRange, 0},
		{id, -1, kafka.ErrPositionOutOfRange, 0},
		{kafka.OffsetAndEpoch{Offset: 921, Epoch: 2}, 0, kafka.ErrSnapshotNotFound, 0},
		{kafka.OffsetAndEpoch{Offset: 920, Epoch: 1}, 0, kafka.ErrSnapshotNotFound, 0},
		{kafka.OffsetAndEpoch{}, 0, kafka.ErrSnapshotNotFound, 0}, // Trap 5
	} {
		_, part, code, err := store.ReadSnapshot(c.id, c.position, 100)
		if err != nil || code != c.code || len(part) != c.bytes {
			t.Errorf("%v from %d on: %d bytes, %s, %v", c.id, c.position, len(part), code, err)
		}
		if len(part) > 0 && !bytes.Equal(part, all[c.position:][:c.bytes]) {
			t.Errorf("%v from %d on: other bytes", c.id, c.position)
		}
	}
}

// downloading is the golden folder 3 into which the snapshot 921 of node 2 is
// being downloaded, with a change of its bytes.
func downloading(t *testing.T, change func([]byte) []byte) (*vfs.Mem, *Store, SealJob) {
	t.Helper()
	mem := vfs.NewMem()
	copyGoldenFolder(t, mem, "3")
	var job SealJob
	store, _, err := OpenStore(StoreOptions{
		FS: mem, Dir: "data", Seal: func(j SealJob) { job = j },
		OpenLog: func(folder string) (Log, error) {
			return OpenSegments(mem, folder, LogConfig{SegmentBytes: 1 << 30, SegmentMs: 1 << 40}, func() kafka.WallMs { return 0 }, nil)
		},
	}, nil)
	check(t, err)
	other := vfs.NewMem()
	copyInto(t, other, goldenQuorum+"2/"+Folder+"/00000000000000000921-0000000001.checkpoint", "s")
	raw, err := vfs.ReadFile(other, "s")
	check(t, err)
	raw = change(raw)
	id := kafka.OffsetAndEpoch{Offset: 5000, Epoch: 1}
	check(t, store.WriteSnapshot(&raft.SnapshotPart{ID: id, Bytes: raw[:500]}))
	if err := store.WriteSnapshot(&raft.SnapshotPart{ID: id, Position: 499, Bytes: raw[499:]}); !errors.Is(err, ErrSnapshot) {
		t.Errorf("a part that overlaps: %v", err)
	}
	check(t, store.WriteSnapshot(&raft.SnapshotPart{ID: id, Bytes: raw[:300]})) // begins anew
	check(t, store.WriteSnapshot(&raft.SnapshotPart{ID: id, Position: 300, Bytes: raw[300:]}))
	check(t, store.SealSnapshot(id))
	return mem, store, job
}

// A damaged download leaves nothing behind and replaces nothing. Fails if seal
// does not read what it has written.
func TestDamagedDownloadIsDropped(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"a flipped bit": func(b []byte) []byte { b[700] ^= 1; return b },
		"cut short":     func(b []byte) []byte { return b[:len(b)-1] },
		"no footer":     func(b []byte) []byte { return b[:bytes.LastIndex(b, []byte{0, 0, 0, 4})] },
	} {
		mem, store, job := downloading(t, change)
		if _, err := job.Run(func(record.Message, int16) error { return nil }); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
		if names := checkpoints(t, mem); len(names) != 2 {
			t.Errorf("%s: in the folder are %q", name, names)
		}
		check(t, store.Close())
	}
}

// A loaded snapshot is the only one, also when one of this node's own is
// finished later. Fails if ResetLog keeps the old ones, or Snapshotted takes one
// that was overtaken.
func TestDownloadReplacesOlderSnapshots(t *testing.T) {
	mem, store, job := downloading(t, func(b []byte) []byte { return b })
	own := kafka.OffsetAndEpoch{Offset: 965, Epoch: 1}
	w, err := store.NewSnapshot(own, 0, 0, 1, raft.VoterSet{})
	check(t, err)
	_, err = job.Run(func(record.Message, int16) error { return nil })
	check(t, err)
	check(t, store.ResetLog(job.ID))
	check(t, w.Freeze())
	check(t, store.Snapshotted(own))
	if names := checkpoints(t, mem); len(names) != 1 || names[0] != snapshotName(job.ID) {
		t.Errorf("in the folder are %q", names)
	}
	if store.StartOffset() != 5000 || len(store.snapshots) != 1 {
		t.Errorf("the log starts at %d, snapshots %v", store.StartOffset(), store.snapshots)
	}
	check(t, store.Close())
}
