package seglog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// oldEntry makes an entry of format v0 or v1.
func oldEntry(magic, attributes byte, o kafka.Offset, ts kafka.WallMs, key, value []byte) []byte {
	body := []byte{magic, attributes}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(ts))
	}
	for _, b := range [][]byte{key, value} {
		if b == nil {
			body = append(body, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(b))), b...)
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(o))
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

// prehistory writes segments of messages and sets in formats v0 and v1, as a
// cluster has them that is older than Kafka 0.11. Before the log is opened.
func (k *keyed) prehistory() {
	k.t.Helper()
	ok(k.t, k.fs.MkdirAll(k.dir))
	next := kafka.Offset(0)
	for magic := range byte(2) {
		base, data := next, []byte(nil)
		for range 6 + k.rnd.IntN(10) {
			data = append(data, k.oldSet(magic, &next)...)
		}
		for k.records[next-1] == nil { // a segment ends where the next one begins
			next--
		}
		patchNew(k.t, k.fs, seg(k.bed, base, extLog))
		patch(k.t, k.fs, seg(k.bed, base, extLog), func([]byte) []byte { return data })
	}
}

// oldSet makes one entry from next on.
func (k *keyed) oldSet(magic byte, next *kafka.Offset) []byte {
	k.t.Helper()
	first, n, codec := *next, 1, batch.None
	if k.rnd.IntN(2) == 0 {
		n, codec = 1+k.rnd.IntN(4), []batch.Codec{batch.Gzip, batch.Snappy, batch.LZ4}[k.rnd.IntN(3)]
	}
	var set []byte
	last, newest := first, kafka.NoTimestamp
	for range n {
		last = *next
		*next += 1 + kafka.Offset(k.rnd.IntN(2))
		r := &stored{key: fmt.Appendf(nil, "k%d", k.rnd.IntN(12)), ts: kafka.NoTimestamp, old: true}
		if magic == 1 {
			r.ts = k.now - kafka.WallMs(k.rnd.IntN(1000))
			newest = max(newest, r.ts)
		}
		if k.rnd.IntN(4) > 0 {
			r.value = bytes.Repeat([]byte{byte('a' + k.rnd.IntN(26))}, k.rnd.IntN(60))
		}
		k.records[last] = r
		at := last
		if magic == 1 && codec != batch.None {
			at -= first
		}
		set = append(set, oldEntry(magic, 0, at, r.ts, r.key, r.value)...)
	}
	if codec == batch.None {
		return set
	}
	packed, err := batch.Compress(nil, codec, map[batch.Codec]int{batch.Gzip: -1, batch.LZ4: 9}[codec], set)
	ok(k.t, err)
	return oldEntry(magic, byte(codec), last, newest, nil, packed)
}

// nextBatch splits the first batch off what was read, or the first old entry, in
// the form in which a cleaner would write it.
func nextBatch(t testing.TB, buf []byte) (b batch.Batch, rest []byte) {
	t.Helper()
	if buf[16] == 2 {
		b, rest, err := batch.Next(buf)
		ok(t, err)
		return b, rest
	}
	o, rest, err := batch.NextOld(buf)
	ok(t, err)
	var w batch.Workspace
	up, err := w.Upgrade(nil, o, 1<<20)
	ok(t, err)
	return up, rest
}

// Messages of formats v0 and v1 are compacted with the rest, and what stays of
// them becomes format v2; with them came the oldest keys of a cluster. Fails if
// walk refuses them, or upgrade is left out.
func TestOldFormatsAreCompacted(t *testing.T) {
	k := newKeyed(t, memFS(t), 1, (*keyed).prehistory)
	for range 3 {
		k.traffic(30)
		k.roll()
		k.mustCompact()
		k.check(k.stableEnd(), k.l.CleanedTo())
		k.now += 5000 // tombstones go
	}
	if len(k.rep.Cuts) > 0 {
		t.Fatalf("%+v", k.rep)
	}
	old := 0
	for rest := k.readAll(0); len(rest) > 0; {
		if rest[16] < 2 {
			old++
		}
		_, rest = nextBatch(t, rest)
	}
	if old > 0 {
		t.Errorf("%d entries of old formats are left", old)
	}
}

// An old set that cannot be read, which brokers of its time did not look into, or
// that begins before the one before it has ended, neither takes the partition
// offline nor is lost. Fails if walk gives its error as that of a damaged file, or
// upgrade does not look where it begins.
func TestOldSetThatCannotBeReadStays(t *testing.T) {
	packed, err := batch.Compress(nil, batch.Gzip, -1, append(oldEntry(1, 0, 0, 9, []byte("k"), nil), oldEntry(1, 0, 4, 9, []byte("l"), nil)...))
	ok(t, err)
	for why, data := range map[string][]byte{
		"format v0 at offset 0":       oldEntry(0, byte(batch.Gzip), 0, 0, nil, []byte("not gzip")),
		"begins at offset 3, the one": append(oldEntry(1, 0, 5, 9, []byte("m"), nil), oldEntry(1, byte(batch.Gzip), 7, 9, nil, packed)...),
	} {
		k := &keyed{bed: newBed(t, memFS(t)), records: map[kafka.Offset]*stored{}, stable: kafka.NoOffset, limits: CleanLimits{MapBytes: 1 << 20, LoadFactor: 0.9, Pace: func(int) error { return nil }}}
		k.cfg.MinCleanableRatio = 0
		ok(t, k.fs.MkdirAll(k.dir))
		patchNew(t, k.fs, seg(k.bed, 0, extLog))
		patch(t, k.fs, seg(k.bed, 0, extLog), func([]byte) []byte { return data })
		k.bed.open()
		ok(t, k.l.Roll(k.now))
		k.flush()
		_, err := k.compact()
		var damage *CorruptError
		if !errors.Is(err, ErrUncleanable) || errors.As(err, &damage) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: compaction: %v", why, err)
		}
		if got, err := vfs.ReadFile(k.fs, seg(k.bed, 0, extLog)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: the log holds %d bytes, %d were there: %v", why, len(got), len(data), err)
		}
	}
}

// Where messages have no timestamps, the age of their file counts for the compaction
// lag and for retention, and compaction does not make it young. Fails if Dirt goes by
// timestamps alone, or without keepAge.
func TestAgeOfMessagesWithoutTimestamps(t *testing.T) {
	dir := t.TempDir()
	k := &keyed{bed: newBed(t, vfs.OS{}), records: map[kafka.Offset]*stored{}, stable: kafka.NoOffset, now: testNow, limits: CleanLimits{MapBytes: 1 << 20, LoadFactor: 0.9, Pace: func(int) error { return nil }}}
	k.dir = dir + "/t-0"
	ok(t, k.fs.MkdirAll(k.dir))
	var data []byte
	for o := range kafka.Offset(5) {
		data = append(data, oldEntry(0, 0, o, 0, []byte("k"), fmt.Append(nil, o))...)
	}
	log := seg(k.bed, 0, extLog)
	patchNew(t, k.fs, log)
	patch(t, k.fs, log, func([]byte) []byte { return data })
	k.bed.open()
	ok(t, k.l.Roll(k.now))
	k.flush()
	const age = 600_000
	then := time.UnixMilli(int64(testNow) - age)
	ok(t, os.Chtimes(log, then, then))
	k.cfg.MinCleanableRatio, k.cfg.MinCompactionLagMs = 0, age+1
	if d, err := k.l.Dirt(k.now, 5); err != nil || d.DirtyBytes != 0 {
		t.Errorf("before its time: %+v, %v", d, err)
	}
	k.cfg.MinCompactionLagMs = age - 1
	k.mustCompact()
	k.cfg.RetentionMs = age + 1
	for want := range 2 {
		jobs, err := k.l.Retain(k.now, 5)
		if ok(t, err); len(jobs) != want {
			info, _ := k.fs.Stat(log)
			t.Errorf("retention of %d ms deletes %d segments, the file is of %d, not %d", k.cfg.RetentionMs, len(jobs), info.ModTimeMs, then.UnixMilli())
		}
		k.cfg.RetentionMs = age - 1
	}
	if entries, err := os.ReadDir(k.dir); err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == fileName(0, extLog+extDeleted) }) {
		t.Error(entries, err)
	}
}
