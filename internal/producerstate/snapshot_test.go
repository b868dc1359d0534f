package producerstate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"moldau/internal/kafka"
)

// Files that Apache Kafka wrote decode to what its own tool prints, and encode
// to the same bytes.
func TestGoldenSnapshots(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.snapshot")
	if len(files) < 4 {
		t.Fatal("golden files are missing")
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := DecodeSnapshot(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(AppendSnapshot(nil, entries), data) {
			t.Errorf("%s: encoded differently", name)
		}
		var table Table
		table.Load(entries, 1000, 0, 1)
		if got := table.Snapshot(); len(got) != len(entries) || len(entries) > 0 && !reflect.DeepEqual(got, entries) {
			t.Errorf("%s: through the table:\n%+v\n%+v", name, entries, got)
		}
		dump, err := os.ReadFile(name + ".dump")
		if err != nil {
			continue
		}
		for _, e := range entries {
			if want := dumped(e); !strings.Contains(string(dump), want) {
				t.Errorf("%s: the dump has no line\n%s", name, want)
			}
		}
	}
}

func dumped(e Entry) string {
	txn := "OptionalLong.empty"
	if e.TxnFirstOffset >= 0 {
		txn = fmt.Sprintf("OptionalLong[%d]", e.TxnFirstOffset)
	}
	s := fmt.Sprintf("producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d ",
		e.ProducerID, e.Epoch, e.CoordinatorEpoch, txn, e.Timestamp)
	if e.LastOffset >= 0 {
		s += fmt.Sprintf("firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d",
			int32(e.LastSequence)-e.OffsetDelta, e.LastSequence, e.LastOffset, e.OffsetDelta)
	}
	return strings.TrimSpace(s)
}

func TestSnapshotKeepsDuplicateDetectionOfTheLastBatch(t *testing.T) {
	l := &log{}
	for i := range 20 {
		run(t, l, step{kafka.ProducerID(100 - i), 2, 0, 3, "append"})
	}
	file := AppendSnapshot(nil, l.Snapshot())
	entries, err := DecodeSnapshot(file)
	if err != nil {
		t.Fatal(err)
	}
	var loaded log
	loaded.Load(entries, l.end, 0, 1000)
	loaded.end = l.end
	run(t, &loaded, step{100, 2, 0, 3, "dup 0"}, step{81, 2, 0, 3, "dup 57"}, step{81, 2, 3, 1, "append"})
	loaded.Load(entries, l.end, 1059+500, 500)
	if loaded.Len() != 0 {
		t.Error("expired producers were loaded")
	}
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	l := &log{}
	run(t, l, step{1, 0, 0, 1, "append"})
	file := AppendSnapshot(nil, l.Snapshot())
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 4
		if _, err := DecodeSnapshot(bad); err == nil {
			t.Errorf("byte %d changed and nothing noticed", i)
		}
		if _, err := DecodeSnapshot(file[:i]); err == nil {
			t.Errorf("cut to %d bytes and nothing noticed", i)
		}
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.snapshot")
	for _, name := range files {
		data, _ := os.ReadFile(name)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := DecodeSnapshot(data)
		if err != nil {
			return
		}
		if got := AppendSnapshot(nil, entries); !bytes.HasPrefix(data, got[:2]) {
			t.Error("another version")
		}
		var table Table
		table.Load(entries, 0, 0, 1<<40)
		table.FirstUnstableOffset()
		table.Snapshot()
	})
}

func BenchmarkCheckUpdate(b *testing.B) {
	for _, producers := range []int{1, 8, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(producers), func(b *testing.B) {
			l := &log{end: 1}
			seqs := make([]kafka.Sequence, producers)
			for i := range producers {
				l.Update(l.header(kafka.ProducerID(i), 0, 0, 1))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				p := i * 7919 % producers
				seqs[p]++
				h := l.header(kafka.ProducerID(p), 0, seqs[p], 1)
				if v := l.Check(h, Context{LogHeldRecords: true}); v.Kind != Append {
					b.Fatal(v)
				}
				l.Update(h)
				l.end++
			}
		})
	}
}
