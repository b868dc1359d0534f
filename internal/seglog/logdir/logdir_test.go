package logdir

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func dir(t *testing.T) *vfs.Mem {
	m := vfs.NewMem()
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGoldenCheckpoints(t *testing.T) {
	for name, n := range map[string]int{RecoveryPointFile: 31, ReplicationFile: 31, LogStartFile: 0, CleanerFile: 1} {
		data := golden(t, name)
		c, err := ParseCheckpoint(data)
		if err != nil || len(c) != n {
			t.Fatalf("%s: %d entries, %v", name, len(c), err)
		}
		if !bytes.Equal(c.Append(nil), data) {
			t.Errorf("%s: encoded differently", name)
		}
	}
	c, _ := ParseCheckpoint(golden(t, RecoveryPointFile))
	if o := c.Map()[kafka.TopicPartition{Topic: "__consumer_offsets", Partition: 4}]; o != 24 {
		t.Error(o)
	}
}

func TestCheckpointFiles(t *testing.T) {
	m := dir(t)
	if c, err := ReadCheckpoint(m, "/d", LogStartFile); c != nil || err != nil {
		t.Error(c, err)
	}
	want := Checkpoint{{kafka.TopicPartition{Topic: "a-b", Partition: 3}, 1 << 40}}
	if err := WriteCheckpoint(m, "/d", LogStartFile, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCheckpoint(m, "/d", LogStartFile)
	if err != nil || len(got) != 1 || got[0] != want[0] {
		t.Error(got, err)
	}
	for _, bad := range []string{"1\n0\n", "0\n", "0\nx\n", "0\n2\na 0 1\n", "0\n1\na 0 1\nb 0 1\n", "0\n1\na 0\n", "0\n1\na -1 0\n", "0\n1\na 0 x\n", "\x00\x00", "0\n99999999\n"} {
		if err := vfs.WriteFileAtomic(m, "/d/"+CleanerFile, []byte(bad)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadCheckpoint(m, "/d", CleanerFile); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), CleanerFile) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestGoldenMetaProperties(t *testing.T) {
	data := golden(t, MetaPropertiesFile)
	m, err := ParseMetaProperties(data)
	if err != nil || m.ClusterID != "bW9sZGF1LXJlZmVyZW5jZQ" || m.NodeID != 1 || m.DirectoryID.String() != "6VEzRV9GRZeDSk3H6UPpDQ" {
		t.Fatal(m, err)
	}
	at := time.Date(2026, 11, 29, 21, 16, 21, 0, time.UTC)
	if got := m.Append(nil, at); !bytes.Equal(got, data) {
		t.Errorf("encoded differently:\n%s", got)
	}
	if _, err := ParseMetaProperties([]byte("version=2\n")); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	odd := MetaProperties{ClusterID: ` a=b:\#ü𝄞`, NodeID: 7}
	if got, err := ParseMetaProperties(odd.Append(nil, at)); err != nil || got != odd {
		t.Error(got, err)
	}
	text := "! comment\n  cluster.id : x\\\n   y\nversion 1\r\nnode.id=5"
	if got, err := ParseMetaProperties([]byte(text)); err != nil || got.ClusterID != "xy" || got.NodeID != 5 {
		t.Error(got, err)
	}
}

// HC-119. Without the SyncDir in TakeCleanShutdown, or with Remove left to the
// end of loading, the marker would come back after the crash.
func TestHC119MarkerIsGoneBeforeAnythingElse(t *testing.T) {
	m := dir(t)
	if err := WriteCleanShutdown(m, "/d", 13); err != nil {
		t.Fatal(err)
	}
	data, _ := vfs.ReadFile(m, "/d/"+CleanShutdownFile)
	if !bytes.Equal(data, golden(t, CleanShutdownFile)) {
		t.Errorf("marker %q", data)
	}
	clean, epoch, err := TakeCleanShutdown(m, "/d")
	if !clean || epoch != 13 || err != nil {
		t.Fatal(clean, epoch, err)
	}
	if m.SyncsOf("/d") < 2 {
		t.Error("the removal is not durable")
	}
	if clean, _, err = TakeCleanShutdown(m, "/d"); clean || err != nil {
		t.Fatal("still there", err)
	}
	if err := vfs.WriteFileAtomic(m, "/d/"+CleanShutdownFile, nil); err != nil {
		t.Fatal(err)
	}
	if clean, epoch, _ = TakeCleanShutdown(m, "/d"); !clean || epoch != kafka.NoBrokerEpoch {
		t.Error("Kafka's empty marker of before 3.8", clean, epoch)
	}
}

// HC-123. An error for a missing file would stop the start.
func TestHC123PartitionMetadataMayBeMissing(t *testing.T) {
	m := dir(t)
	if _, ok, err := ReadPartitionMetadata(m, "/d"); ok || err != nil {
		t.Fatal(ok, err)
	}
	data := golden(t, PartitionMetadataFile)
	id, err := ParsePartitionMetadata(data)
	if err != nil || id.String() != "49bQAEvwQNGACREsllelSw" {
		t.Fatal(id, err)
	}
	if err := WritePartitionMetadata(m, "/d", id); err != nil {
		t.Fatal(err)
	}
	if got, _ := vfs.ReadFile(m, "/d/"+PartitionMetadataFile); !bytes.Equal(got, data) {
		t.Errorf("encoded differently: %q", got)
	}
	if got, ok, err := ReadPartitionMetadata(m, "/d"); got != id || !ok || err != nil {
		t.Error(got, ok, err)
	}
	for _, bad := range []string{"", "version: 0", "version: 0\ntopic_id: x", "version: 1\ntopic_id: 49bQAEvwQNGACREsllelSw", "\x00\x00\x00"} {
		if _, err := ParsePartitionMetadata([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestFolders(t *testing.T) {
	const hex = "e87aa4766456470192065d37c0122e7b"
	tp := kafka.TopicPartition{Topic: "a-b.c", Partition: 12}
	for name, want := range map[string]Kind{
		"a-b.c-12": Log, "__cluster_metadata-0": Metadata, "remote-log-index-cache": Cache,
		DeletedName(tp, hex): Deleted, FutureName(tp, hex): Future, StrayName(tp, hex): Stray,
		"lost+found": Foreign, "x": Foreign, "-1": Foreign, "a-": Foreign, "a-x": Foreign, "a-delete": Foreign, "a--1": Log, "a-99999999999": Foreign,
	} {
		got := ParseFolder(name)
		if got.Kind != want {
			t.Errorf("%s: kind %d, want %d", name, got.Kind, want)
		}
		if strings.HasPrefix(name, "a-b.c-12") && got.TopicPartition != tp {
			t.Errorf("%s: %v", name, got)
		}
	}
	long := kafka.TopicPartition{Topic: strings.Repeat("x", 249), Partition: 3}
	if n := DeletedName(long, hex); len(n) != 255 || ParseFolder(n).Kind != Deleted {
		t.Error(len(n))
	}
	m := dir(t)
	for _, n := range []string{"/d/t-0", "/d/bin"} {
		if err := m.MkdirAll(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := vfs.WriteFileAtomic(m, "/d/somefile", nil); err != nil {
		t.Fatal(err)
	}
	list, err := List(m, "/d")
	if err != nil || len(list) != 2 || list[0].Kind != Foreign || list[1].Kind != Log {
		t.Error(list, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, n := range []string{RecoveryPointFile, CleanerFile, MetaPropertiesFile, PartitionMetadataFile, CleanShutdownFile} {
		f.Add(golden(f, n))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ParseCheckpoint(data); err == nil {
			again, err := ParseCheckpoint(c.Append(nil))
			if err != nil || len(again) != len(c) {
				t.Error("checkpoint does not survive a round trip", err)
			}
		}
		if m, err := ParseMetaProperties(data); err == nil {
			again, err := ParseMetaProperties(m.Append(nil, time.Unix(0, 0).UTC()))
			if utf8.ValidString(m.ClusterID) && (err != nil || again != m) {
				t.Errorf("meta.properties %+v does not survive a round trip: %+v %v", m, again, err)
			}
		}
		ParsePartitionMetadata(data)
		parseCleanShutdown(data)
		ParseFolder(string(data))
	})
}
