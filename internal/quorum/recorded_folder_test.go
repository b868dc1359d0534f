package quorum

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

// The folders of Kafka's quorum, killed with SIGKILL, are opened and recovered;
// what the raft core learns from them is what Kafka's own files say. Node 4, a
// broker, begins with a snapshot that it fetched. Fails if the log start is not
// joined to a snapshot, or the voters before the removal are taken.
func TestRecordedFoldersOpen(t *testing.T) {
	for _, c := range []struct {
		node             string
		start, snap, end kafka.Offset
		voted            kafka.NodeID
		voters           string
	}{
		{"1", 810, 921, 962, 2, "{1@AAAAAAAAAAAAAAAAAAAA1A, 2@AAAAAAAAAAAAAAAAAAAA2A}"},
		{"2", 867, 921, 965, -1, "{1@AAAAAAAAAAAAAAAAAAAA1A, 2@AAAAAAAAAAAAAAAAAAAA2A}"},
		{"3", 862, 916, 965, 2, "{1@AAAAAAAAAAAAAAAAAAAA1A, 2@AAAAAAAAAAAAAAAAAAAA2A}"},
		{"4", 867, 867, 965, -1, "{1@AAAAAAAAAAAAAAAAAAAA1A, 2@AAAAAAAAAAAAAAAAAAAA2A}"},
	} {
		mem := vfs.NewMem()
		copyGoldenFolder(t, mem, c.node)
		store, rec := openGoldenFolder(t, mem)
		r := rec.Raft
		want := raft.ElectionState{Epoch: 1, Leader: 2, Voted: raft.NoReplica}
		if c.voted >= 0 {
			want.Voted = raft.ReplicaKey{ID: c.voted, Dir: mustUUID(t, "AAAAAAAAAAAAAAAAAAAA2A")}
		}
		if r.Election == nil || *r.Election != want {
			t.Errorf("node %s: quorum-state %+v, want %+v", c.node, r.Election, want)
		}
		epoch := []kafka.OffsetAndEpoch{{Offset: c.start, Epoch: 1}}
		if r.Start != epoch[0] || r.End != c.end || r.Snapshot != (kafka.OffsetAndEpoch{Offset: c.snap, Epoch: 1}) || !slices.Equal(r.Epochs, epoch) {
			t.Errorf("node %s: start %v, snapshot %v, epochs %v, end %d", c.node, r.Start, r.Snapshot, r.Epochs, r.End)
		}
		core := raft.New(raft.Options{}, r)
		set, kraft := core.VotersAt(r.End)
		if set.String() != c.voters || kraft != 1 {
			t.Errorf("node %s: kraft.version %d, voters %s", c.node, kraft, set)
		}
		check(t, store.Close())
	}
}

// All nodes of Kafka's quorum replay to the same image at the same offset, and
// to what each snapshot holds that any of them made. Fails if a snapshot's
// record is applied that the log contains as well, or one between is lost.
func TestRecordedFoldersReplayToEqualImages(t *testing.T) {
	type source struct {
		node string
		r    *Reader
	}
	var sources []source
	images := map[kafka.Offset][32]byte{}
	compared := 0
	same := func(who string, img *metadata.Image) {
		at := img.Provenance().EndOffset
		if h, known := images[at]; known && h != img.Hash() {
			t.Errorf("%s: another image at offset %d", who, at)
		} else if known {
			compared++
		}
		images[at] = img.Hash()
	}
	for _, node := range []string{"1", "2", "3", "4"} {
		mem := vfs.NewMem()
		copyGoldenFolder(t, mem, node)
		if node != "4" { // what Kafka had marked for deletion, but was still there
			restoreDeleted(t, mem)
		}
		r, err := NewReader(mem, "data")
		check(t, err)
		sources = append(sources, source{node, r})
		for _, id := range r.Snapshots { // alone
			if id.Offset == 0 {
				continue
			}
			img, err := r.Image(id.Offset)
			check(t, err)
			same(fmt.Sprintf("node %s, snapshot %d", node, id.Offset), img)
		}
	}
	for _, s := range sources {
		// From the oldest snapshot on, or the beginning, by the log alone.
		var oldest []kafka.OffsetAndEpoch
		if len(s.r.Snapshots) > 0 {
			oldest = s.r.Snapshots[:1]
		}
		s.r.Snapshots = oldest
		for _, at := range []kafka.Offset{50, 700, 748, 753, 805, 810, 862, 867, 900, 916, 921, 950, 955, 962} {
			if at < s.r.segments[0] || len(oldest) > 0 && at < oldest[0].Offset {
				continue
			}
			img, err := s.r.Image(at)
			check(t, err)
			if img.Provenance().EndOffset != at {
				t.Fatalf("node %s: no batch ends at %d, but at %d", s.node, at, img.Provenance().EndOffset)
			}
			same(fmt.Sprintf("node %s, log to %d", s.node, at), img)
		}
	}
	if compared != 45 {
		t.Errorf("%d images were compared", compared)
	}
}

func restoreDeleted(t *testing.T, fsys vfs.FS) {
	t.Helper()
	names, err := fsys.ReadDir("data/" + Folder)
	check(t, err)
	for _, e := range names {
		if filepath.Ext(e.Name) == ".deleted" {
			old := "data/" + Folder + "/" + e.Name
			check(t, fsys.Rename(old, old[:len(old)-len(".deleted")]))
		}
	}
}
