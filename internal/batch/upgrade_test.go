package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"moldau/internal/kafka"
)

// oldSet compresses messages into an entry of format v0 or v1.
func oldSet(t testing.TB, last int64, magic byte, codec Codec, appendTime bool, messages ...Old) Old {
	t.Helper()
	var packed bytes.Buffer
	z, err := compressor(&packed, codec, defaultLevel(codec))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		_, _ = z.Write(m)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	attributes := byte(codec)
	if appendTime {
		attributes |= attrLogAppendTime
	}
	return oldMessage(last, magic, attributes, nil, packed.Bytes())
}

// at gives a message of format v1 another timestamp.
func at(ts int64, o Old) Old {
	o = bytes.Clone(o)
	binary.BigEndian.PutUint64(o[oldTimestamp:], uint64(ts))
	binary.BigEndian.PutUint32(o[oldCRC:], crc32.ChecksumIEEE(o[posMagic:]))
	return o
}

// What Kafka's cleaner makes of old entries: offsets, timestamps, keys, values and
// codec stay. Each line fails if Upgrade or Each forgets what it is about.
func TestUpgrade(t *testing.T) {
	const stamp = 1_500_000_000_000 // oldMessage's
	one, two := []byte("1"), []byte("2")
	for _, c := range []struct {
		what  string
		entry Old
		first kafka.Offset
		want  string
	}{
		{"v0", oldMessage(7, 0, 0, one, nil), 7, `none create 7@-1 "1"=null`},
		{"v1", oldMessage(7, 1, 0, nil, two), 7, fmt.Sprintf(`none create 7@%d null="2"`, stamp)},
		{"v1 log append time", oldMessage(7, 1, attrLogAppendTime, one, two), 7, fmt.Sprintf(`none append 7@%d "1"="2"`, stamp)},
		{"v0 set", oldSet(t, 9, 0, Gzip, false, oldMessage(5, 0, 0, one, two), oldMessage(9, 0, 0, two, nil)), 5, `gzip create 5@-1 "1"="2" 9@-1 "2"=null`},
		{"v1 set", oldSet(t, 9, 1, Snappy, false, at(8, oldMessage(0, 1, 0, one, two)), at(3, oldMessage(2, 1, 0, two, two))), 7, `snappy create 7@8 "1"="2" 9@3 "2"="2"`},
		{"v1 set with a hole at its beginning", oldSet(t, 9, 1, LZ4, false, at(8, oldMessage(4, 1, 0, one, two))), 9, `lz4 create 9@8 "1"="2"`},
		{"v1 set, log append time", oldSet(t, 9, 1, Gzip, true, at(8, oldMessage(0, 1, 0, one, two)), at(3, oldMessage(1, 1, 0, two, two))), 8, fmt.Sprintf(`gzip append 8@%d "1"="2" 9@%d "2"="2"`, stamp, stamp)},
	} {
		var w Workspace
		out, err := w.Upgrade([]byte("before"), c.entry, 1<<20)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		b, rest, err := Next(bytes.TrimPrefix(out, []byte("before")))
		if err != nil || len(rest) > 0 || !b.Valid() || b.BaseOffset() != c.first || b.LastOffset() != c.entry.Offset() {
			t.Errorf("%s: %v, %d bytes left, offsets %d to %d", c.what, err, len(rest), b.BaseOffset(), b.LastOffset())
			continue
		}
		if got := described(t, b); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if b.ProducerID() != kafka.NoProducerID || b.ProducerEpoch() != kafka.NoProducerEpoch || b.BaseSequence() != kafka.NoSequence || b.LeaderEpoch() != kafka.NoEpoch {
			t.Errorf("%s: producer %d epoch %d sequence %d, leader epoch %d", c.what, b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LeaderEpoch())
		}
	}
}

// described writes a batch down as a consumer sees it.
func described(t testing.TB, b Batch) string {
	t.Helper()
	kind := "create"
	if b.LogAppendTime() {
		kind = "append"
	}
	out := fmt.Sprintf("%s %s", b.Codec(), kind)
	var w Workspace
	records, err := w.DecompressAll(b.Codec(), b.Records(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	newest := kafka.NoTimestamp
	quoted := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%q", b)
	}
	err = Each(records, b.Count(), func(r *Record) error {
		ts := b.BaseTimestamp() + kafka.WallMs(r.TimestampDelta)
		newest = max(newest, ts)
		out += fmt.Sprintf(" %d@%d %s=%s", b.BaseOffset()+kafka.Offset(r.OffsetDelta), ts, quoted(r.Key), quoted(r.Value))
		return nil
	})
	if err != nil || newest != b.MaxTimestamp() {
		t.Fatalf("%v, newest timestamp %d, header says %d", err, newest, b.MaxTimestamp())
	}
	return out
}

// Entries that no broker should have stored are refused, and what was in dst stays.
func TestUpgradeRefuses(t *testing.T) {
	m := func(offset int64) Old { return oldMessage(offset, 0, 0, nil, nil) }
	for what, o := range map[string]Old{
		"offsets that fall":   oldSet(t, 5, 0, Gzip, false, m(6), m(5)),
		"another last offset": oldSet(t, 7, 0, Gzip, false, m(5), m(6)),
		"negative offsets":    oldSet(t, 1, 1, Gzip, false, oldMessage(0, 1, 0, nil, nil), oldMessage(5, 1, 0, nil, nil)),
		"offsets too far":     oldSet(t, 1<<40, 0, Gzip, false, m(5), m(1<<40)),
		"nothing":             oldSet(t, 7, 0, Gzip, false),
	} {
		var w Workspace
		out, err := w.Upgrade([]byte("before"), o, 1<<20)
		if !errors.Is(err, ErrCorrupt) || string(out) != "before" {
			t.Errorf("%s: %q, %v", what, out, err)
		}
	}
}
