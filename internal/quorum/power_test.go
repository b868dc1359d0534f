package quorum

import (
	"errors"
	"math/rand/v2"
	"path"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

// What the simulator has found at the border of process death and power loss.

func reopen(t *testing.T, fsys vfs.FS, cfg LogConfig) (*Store, *Recovered) {
	t.Helper()
	store, rec, err := OpenStore(StoreOptions{FS: fsys, Dir: "data",
		OpenLog: func(folder string) (Log, error) {
			return OpenSegments(fsys, folder, cfg, func() kafka.WallMs { return 1 }, nil)
		}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store, rec
}

// The process dies when quorum-state has its name and before that is durable.
// The next life reads it and answers by it; so no power loss may take it back
// (HC-005). Fails with mutant_forget_sync.
func TestVoteThatWasReadIsDurable(t *testing.T) {
	for seed := range uint64(20) {
		mem := formatted(t)
		fault := vfs.NewFault(mem)
		cfg := LogConfig{SegmentBytes: 1 << 20, SegmentMs: 1 << 40}
		store, _ := reopen(t, fault, cfg)
		full := errors.New("no sync")
		fault.Fail(vfs.Rule{Kinds: vfs.OpSyncDir, Err: full})
		vote := raft.ElectionState{Epoch: 5, Leader: kafka.NoNode, Voted: raft.ReplicaKey{ID: 2, Dir: kafka.DirectoryID{1}}}
		if err := store.SaveElection(vote, 1, raft.VoterSet{}); !errors.Is(err, full) {
			t.Fatal(err)
		}
		mem.CrashProcess()
		_, rec := reopen(t, mem, cfg)
		if rec.Raft.Election == nil || rec.Raft.Election.Epoch != 5 {
			continue // not there after the crash of the process: nothing rests on it
		}
		mem.CrashPower(rand.New(rand.NewPCG(seed, 1)))
		if _, rec = reopen(t, mem, cfg); rec.Raft.Election == nil || *rec.Raft.Election != vote {
			t.Fatalf("seed %d: the vote %+v is forgotten: %+v", seed, vote, rec.Raft.Election)
		}
	}
}

// Power fails behind a trim that removes several segments. Whatever comes back
// of them, the end of the log stays, even if the mark is torn. Fails with
// mutant_trim_unordered.
func TestPowerLossBehindATrimKeepsTheEnd(t *testing.T) {
	for seed := range uint64(30) {
		mem := formatted(t)
		opts := busy(t, mem, -1)
		store, rec := reopen(t, mem, opts.Log)
		if _, err := store.Trim(1<<40, 0, -1); err != nil {
			t.Fatal(err)
		}
		mem.CrashPower(rand.New(rand.NewPCG(seed, 2)))
		if err := mem.Remove(path.Join("data", Folder, markFile)); err != nil {
			t.Fatal(err)
		}
		if _, again := reopen(t, mem, opts.Log); again.Raft.End != rec.Raft.End {
			t.Fatalf("seed %d: the log ended at %d, and ends at %d", seed, rec.Raft.End, again.Raft.End)
		}
	}
}

// A log that begins within a segment knows where: its epochs tell. Fails if join
// takes the start from the segments alone.
func TestLogStartWithinASegmentIsKnownAgain(t *testing.T) {
	mem := formatted(t)
	opts := busy(t, mem, -1)
	opts.Log.SegmentBytes = 1 << 20
	store, rec := reopen(t, mem, opts.Log)
	if err := store.log.TrimTo(rec.Snapshot.Offset); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, again := reopen(t, mem, opts.Log)
	if again.Raft.Start != rec.Snapshot {
		t.Errorf("the log starts at %+v, trimmed was to %+v", again.Raft.Start, rec.Snapshot)
	}
	if e := again.Raft.Epochs; len(e) > 0 && e[0].Offset < again.Raft.Start.Offset {
		t.Errorf("epochs %v", e)
	}
}

// All of a log that a durable snapshot holds may be missing. Fails if Join asks
// for the mark alone.
func TestSnapshotMakesUpForALostLog(t *testing.T) {
	mem := formatted(t)
	opts := busy(t, mem, -1)
	store, rec := reopen(t, mem, opts.Log)
	id := rec.Snapshot
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	mark, err := openRecoveryMark(mem, "data/"+Folder)
	if err == nil {
		err = errors.Join(mark.lower(id.Offset), mark.Close())
	}
	entries, err2 := mem.ReadDir("data/" + Folder)
	for _, e := range entries {
		if path.Ext(e.Name) == ".log" {
			err2 = errors.Join(err2, mem.Remove(path.Join("data", Folder, e.Name)))
		}
	}
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if _, again := reopen(t, mem, opts.Log); again.Raft.End != id.Offset || again.Raft.Start != id {
		t.Errorf("%+v behind snapshot %+v", again.Raft, id)
	}
}
