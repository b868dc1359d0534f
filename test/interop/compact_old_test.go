package interop

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// oldEntry makes a message, or a set that is its value, in format v0 or v1.
func oldEntry(magic, attributes byte, offset, ts int64, key, value []byte) []byte {
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
	out := binary.BigEndian.AppendUint64(nil, uint64(offset))
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

// Where a short LZ4 header has its checksum, and how packOld makes it wrong.
const (
	lz4Checksum = 6
	wrongBits   = 0x55
)

// oldDecompressor also reads what packOld makes.
type oldDecompressor struct{ kgo.Decompressor }

func (d oldDecompressor) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := d.Decompressor.Decompress(src, codec)
	if err != nil && codec == kgo.CodecLz4 {
		src = slices.Clone(src)
		src[lz4Checksum] ^= wrongBits
		return d.Decompressor.Decompress(src, codec)
	}
	return out, err
}

// packOld compresses a set; alternately with LZ4 in format v0, with a header whose
// checksum is wrong, as clients of its time wrote it.
func packOld(t *testing.T, set []byte, magic byte, first int64) (packed []byte, codec byte) {
	t.Helper()
	var out bytes.Buffer
	var z io.WriteCloser = gzip.NewWriter(&out)
	wrong := magic == 0 && first%8 == 1
	if codec = 1; wrong {
		z, codec = lz4.NewWriter(&out), 3
	}
	if _, err := z.Write(set); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if packed = out.Bytes(); wrong {
		packed[lz4Checksum] ^= wrongBits
	}
	return packed, codec
}

// oldLog makes a segment of 80 messages over 30 keys: alone and in compressed sets,
// in format v0, then v1, there with each type of timestamp.
func oldLog(t *testing.T) []byte {
	t.Helper()
	const logAppendTime = 8
	var data []byte
	next := int64(0)
	message := func(magic byte, at int64) []byte {
		key := fmt.Appendf(nil, "key-%02d", next*7%30)
		var value []byte
		if next%5 > 0 {
			value = fmt.Appendf(nil, "value-%d", next)
		}
		next++
		return oldEntry(magic, 0, at, 1_500_000_000_000+next*13%50, key, value)
	}
	for next < 80 {
		magic := byte(next / 40)
		data = append(data, message(magic, next)...)
		first := next
		var set []byte
		for i := range int64(3) {
			at := first + i
			if magic == 1 {
				at = i
			}
			set = append(set, message(magic, at)...)
		}
		packed, attributes := packOld(t, set, magic, first)
		if magic == 1 && first%8 == 1 {
			attributes |= logAppendTime
		}
		data = append(data, oldEntry(magic, attributes, next-1, 1_500_000_000_049, nil, packed)...)
	}
	return data
}

// oldRecords reads what is left of them.
func oldRecords(t *testing.T, n *node, topic string) (out []string) {
	t.Helper()
	end := n.endOffsets(t)[topic+"-0"].end
	cl := n.client(t, kgo.WithDecompressor(oldDecompressor{kgo.DefaultDecompressor()}), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	defer cl.Close()
	for last := int64(-1); last < end-1; {
		fs := cl.PollFetches(within(t, 20*time.Second))
		if err := fs.Err0(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if last = r.Offset; strings.HasPrefix(string(r.Key), "key-") {
				out = append(out, fmt.Sprintf("%d %s=%s (%v) at %d type %d codec %d", r.Offset, r.Key, r.Value, r.Value == nil, r.Timestamp.UnixMilli(), r.Attrs.TimestampType(), r.Attrs.CompressionType()))
			}
		})
	}
	return out
}

// cleanedOld starts the cleaner on the folder with start and gives what is left
// when it has done its work on each old message and the tombstones have gone.
func cleanedOld(t *testing.T, n *node, start func(testing.TB)) []string {
	t.Helper()
	start(t)
	defer n.stop(t)
	producer := n.client(t, kgo.DefaultProduceTopic("table"))
	defer producer.Close()
	for i, deadline := 0, time.Now().Add(90*time.Second); ; i++ {
		r := &kgo.Record{Key: fmt.Appendf(nil, "new-%d", i), Value: []byte("v")} // rolls the active segment
		if err := producer.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		out := oldRecords(t, n, "table")
		values := !slices.ContainsFunc(out, func(s string) bool { return strings.Contains(s, "(true)") })
		if values && len(out) <= 30 {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d records are left:\n%s\n%s", len(out), strings.Join(out, "\n"), n.tail())
		}
		<-time.After(300 * time.Millisecond)
	}
}

// TestOldFormatsAreCompactedAsKafkaDoes: of a log from before Kafka 0.11 moldau's
// cleaner leaves what Kafka's leaves, to the timestamps and their types; Kafka's
// dump tool accepts the segments.
func TestOldFormatsAreCompactedAsKafkaDoes(t *testing.T) {
	needKafka(t)
	n := newNode(t, append(cleaning, "log.index.interval.bytes=200")...)
	n.startMoldau(t)
	keyedTopic(t, n, "table")
	n.stop(t)
	if err := os.WriteFile(filepath.Join(n.data(), "table-0", "00000000000000000000.log"), oldLog(t), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(n.data(), ".kafka_cleanshutdown")); err != nil { // both look at the log itself
		t.Fatal(err)
	}
	kept := filepath.Join(n.dir, "kept")
	if err := os.CopyFS(kept, os.DirFS(n.data())); err != nil {
		t.Fatal(err)
	}
	ours := cleanedOld(t, n, n.startMoldau)
	dumpAll(t, n.data())
	if err := os.RemoveAll(n.data()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, n.data()); err != nil {
		t.Fatal(err)
	}
	kafkas := cleanedOld(t, n, n.startKafka)
	if len(ours) != 24 || !slices.Equal(ours, kafkas) {
		t.Errorf("moldau leaves %d records:\n%s\nApache Kafka %d:\n%s", len(ours), strings.Join(ours, "\n"), len(kafkas), strings.Join(kafkas, "\n"))
	}
}
