package metadata

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// logBatch is a batch of a golden metadata log; control records are nil.
type logBatch struct {
	base, next kafka.Offset
	epoch      kafka.Epoch
	time       kafka.WallMs
	records    []record.Message
}

const golden = "../record/testdata/golden/"

func readBatches(t testing.TB, path string) []logBatch {
	t.Helper()
	buf, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []logBatch
	for len(buf) > 0 {
		var b batch.Batch
		if b, buf, err = batch.Next(buf); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		lb := logBatch{base: b.BaseOffset(), next: b.NextOffset(), epoch: b.LeaderEpoch(), time: b.MaxTimestamp()}
		if err := b.EachRecord(func(r *batch.Record) error {
			if b.Control() {
				lb.records = append(lb.records, nil)
				return nil
			}
			m, _, err := record.DecodeMetadata(bytes.Clone(r.Value))
			lb.records = append(lb.records, m)
			return err
		}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, lb)
	}
	return out
}

// goldenLog reads all segments of a metadata log, trimmed ones included.
func goldenLog(t testing.TB, dir string) []logBatch {
	t.Helper()
	files, _ := filepath.Glob(golden + dir + "/__cluster_metadata-0/*.log*")
	slices.Sort(files)
	var out []logBatch
	for _, f := range files {
		out = append(out, readBatches(t, f)...)
	}
	if len(out) == 0 {
		t.Fatal("no golden log in ", dir)
	}
	return out
}

// goldenSnapshots gives the images of all checkpoints by end offset.
func goldenSnapshots(t testing.TB, dir string) map[kafka.Offset]*Image {
	t.Helper()
	files, _ := filepath.Glob(golden + dir + "/__cluster_metadata-0/*.checkpoint*")
	out := map[kafka.Offset]*Image{}
	for _, f := range files {
		var end kafka.Offset
		var epoch kafka.Epoch
		if _, err := fmt.Sscanf(filepath.Base(f), "%d-%d.", &end, &epoch); err != nil {
			t.Fatal(err)
		}
		if end == 0 {
			continue // bootstrap records, replayed into the log by the first leader
		}
		d := NewDelta(Empty())
		for _, b := range readBatches(t, f) {
			replayBatch(t, d, b)
		}
		out[end] = d.Apply(Provenance{EndOffset: end, Epoch: epoch})
	}
	return out
}

func replayBatch(t testing.TB, d *Delta, b logBatch) {
	t.Helper()
	for i, m := range b.records {
		if m == nil {
			continue
		}
		if err := d.Replay(m); err != nil {
			t.Fatalf("offset %d: %v", b.base+kafka.Offset(i), err)
		}
	}
}

func dump(img *Image) []string {
	var out []string
	_ = img.write(maxVersion, true, func(m record.Message, v int16) error {
		line := fmt.Sprintf("%s %+v", m.Kind(), deref(m))
		out = append(out, line)
		return nil
	})
	return out
}

func deref(m record.Message) any {
	switch m := m.(type) {
	case *record.Config:
		return fmt.Sprintf("%d %q %s=%q", m.ResourceType, m.ResourceName, m.Name, *m.Value)
	case *record.ClientQuota:
		key, _ := quotaEntity(m.Entity)
		return fmt.Sprintf("%q %s=%g", key, m.Key, m.Value)
	}
	return m
}

func checkSame(t *testing.T, what string, got, want *Image) {
	t.Helper()
	if got.Hash() == want.Hash() {
		return
	}
	a, b := dump(got), dump(want)
	for _, l := range a {
		if !slices.Contains(b, l) {
			t.Errorf("%s: only got %s", what, l)
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			t.Errorf("%s: only want %s", what, l)
		}
	}
	t.Fatalf("%s: images differ", what)
}

// Trap 4: every leader and partition epoch, and all other state, after replay
// equals what Kafka wrote into its next snapshot. Fails if a change does not
// raise the partition epoch.
func TestTrap4GoldenLogEqualsGoldenSnapshot(t *testing.T) {
	compared := 0
	for _, dir := range []string{"single", "quorum/1", "quorum/2", "quorum/3", "quorum/4"} {
		snapshots := goldenSnapshots(t, dir)
		var img *Image
		for _, b := range goldenLog(t, dir) {
			if img == nil && b.base == 0 {
				img = Empty()
			}
			if s := snapshots[b.base]; s != nil {
				if img != nil {
					checkSame(t, fmt.Sprintf("%s at %d", dir, b.base), img, s)
					compared++
				}
				img = s
			}
			if img == nil {
				continue
			}
			d := NewDelta(img)
			replayBatch(t, d, b)
			img = d.Apply(Provenance{b.next, b.epoch, b.time})
			checkIndex(t, img)
		}
		if img == nil || img.NumPartitions() == 0 {
			t.Errorf("%s: nothing replayed", dir)
		}
	}
	if compared < 5 {
		t.Errorf("only %d snapshots compared", compared)
	}
}

// HC-032: the snapshot id is an exclusive end offset: replaying all equals
// snapshot at k plus replay from k, for every batch boundary k. Fails if the
// record at k is applied twice or skipped.
func TestHC032SnapshotIDIsExclusive(t *testing.T) {
	log := goldenLog(t, "single")
	whole := foldBatches(t, Empty(), log)
	for k := 1; k < len(log); k++ {
		head := foldBatches(t, Empty(), log[:k])
		if head.InTransaction() || head.Version() == 0 {
			continue
		}
		if end := head.Provenance().EndOffset; end != log[k].base {
			t.Fatalf("end offset %d, next batch at %d", end, log[k].base)
		}
		checkSame(t, fmt.Sprint("cut at ", k), foldBatches(t, reload(t, head), log[k:]), whole)
	}
}

// foldBatches makes one delta per batch.
func foldBatches(t testing.TB, img *Image, log []logBatch) *Image {
	for _, b := range log {
		d := NewDelta(img)
		replayBatch(t, d, b)
		img = d.Apply(Provenance{b.next, b.epoch, b.time})
	}
	return img
}

// reload writes a snapshot, through bytes, and reads it into an empty image.
func reload(t testing.TB, img *Image) *Image {
	t.Helper()
	d := NewDelta(Empty())
	first := true
	if err := img.WriteSnapshot(func(m record.Message, v int16) error {
		if f, ok := m.(*record.FeatureLevel); first && (!ok || f.Name != FeatureMetadataVersion) {
			t.Errorf("first record of the snapshot is %s", m.Kind())
		}
		first = false
		m2, _, err := record.DecodeMetadata(record.AppendMetadata(nil, m, v))
		if err != nil {
			return err
		}
		return d.Replay(m2)
	}); err != nil {
		t.Fatal(err)
	}
	return d.Apply(img.Provenance())
}

// checkIndex compares the broker index with what the partitions say.
func checkIndex(t testing.TB, img *Image) {
	t.Helper()
	counts := map[kafka.NodeID]BrokerCounts{}
	parts := map[kafka.NodeID]map[string]bool{}
	img.EachTopic(func(topic Topic) bool {
		topic.Each(func(p Partition) bool {
			add := func(n kafka.NodeID, f func(*BrokerCounts)) {
				c := counts[n]
				f(&c)
				counts[n] = c
				if parts[n] == nil {
					parts[n] = map[string]bool{}
				}
				parts[n][fmt.Sprint(topic.ID(), p.ID)] = true
			}
			for i, n := range p.Replicas {
				add(n, func(c *BrokerCounts) {
					c.Replicas++
					if i == 0 {
						c.Preferred++
						if p.Leader != n {
							c.Imbalance++
						}
					}
				})
			}
			for _, n := range p.ISR {
				add(n, func(c *BrokerCounts) { c.ISR++ })
			}
			if p.Leader >= 0 {
				add(p.Leader, func(c *BrokerCounts) { c.Leaders++ })
			}
			return true
		})
		return true
	})
	if img.index.Len() != len(counts) {
		t.Fatalf("%d brokers in the index, %d expected", img.index.Len(), len(counts))
	}
	for n, want := range counts {
		if got := img.Counts(n); got != want {
			t.Fatalf("broker %d: counts %+v, want %+v", n, got, want)
		}
		seen := 0
		img.EachPartitionOf(n, func(topic Topic, p Partition) bool {
			if !parts[n][fmt.Sprint(topic.ID(), p.ID)] {
				t.Fatalf("broker %d: %s-%d should not be in the index", n, topic.Name(), p.ID)
			}
			seen++
			return true
		})
		if seen != len(parts[n]) {
			t.Fatalf("broker %d: %d partitions in the index, want %d", n, seen, len(parts[n]))
		}
	}
}

// The record kinds and their order are Kafka's; only the order of topics and
// the like is free. Fails if features do not come first.
func TestSnapshotOrderIsKafkas(t *testing.T) {
	kinds := func(ms []record.Message) (out []string) {
		for _, m := range ms {
			if k := m.Kind(); m != nil && (len(out) == 0 || out[len(out)-1] != k) && !strings.HasPrefix(k, "Topic") && k != "PartitionRecord" {
				out = append(out, k)
			}
		}
		return out
	}
	var want []record.Message
	for _, b := range readBatches(t, golden+"single/__cluster_metadata-0/00000000000000000307-0000000001.checkpoint") {
		for _, m := range b.records {
			if m != nil {
				want = append(want, m)
			}
		}
	}
	var got []record.Message
	if err := goldenSnapshots(t, "single")[307].WriteSnapshot(func(m record.Message, _ int16) error { got = append(got, m); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || !slices.Equal(kinds(got), kinds(want)) {
		t.Errorf("got %d records %v\nwant %d records %v", len(got), kinds(got), len(want), kinds(want))
	}
}
