package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"moldau/internal/kafka"
)

const testNow kafka.WallMs = 1_795_986_000_000

func lenient() *Rules {
	return &Rules{MaxBatchBytes: 1 << 20, MaxRecordBytes: 1<<31 - 1, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 3_600_000}
}

// produced builds what a client would send.
func produced(t testing.TB, codec Codec, records ...Record) Batch {
	t.Helper()
	bl := NewBuilder(nil, 0, -1)
	for _, r := range records {
		bl.Add(testNow+kafka.WallMs(r.TimestampDelta), r.Key, r.Value, r.Headers...)
	}
	return compressed(t, bl.Finish(), codec)
}

func compressed(t testing.TB, b Batch, codec Codec) Batch {
	t.Helper()
	body, err := Compress(nil, codec, defaultLevel(codec), b.Records())
	if err != nil {
		t.Fatal(err)
	}
	return withBody(b, codec, body)
}

func withBody(b Batch, codec Codec, body []byte) Batch {
	out := Batch(append(append([]byte{}, b[:HeaderSize]...), body...))
	binary.BigEndian.PutUint32(out[posLength:], uint32(len(out)-PrefixSize))
	binary.BigEndian.PutUint16(out[posAttributes:], uint16(out.Attributes()&^attrCodecMask|int16(codec)))
	out.seal()
	return out
}

func someRecords(n int) []Record {
	var rs []Record
	for i := 0; i < n; i++ {
		rs = append(rs, Record{Key: fmt.Appendf(nil, "k%d", i), Value: bytes.Repeat([]byte{byte(i)}, i%97), TimestampDelta: int64(i % 7),
			Headers: []Header{{Key: "h", Value: []byte{1, 2}}, {Key: "n"}}})
	}
	rs[0].Key, rs[0].Value = nil, nil
	return rs
}

func TestProducedAcceptsEveryCodec(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		for _, n := range []int{1, 2, 1000} {
			var w Workspace
			in := produced(t, codec, someRecords(n)...)
			before := bytes.Clone(in)
			out, r := w.Produced(in, 13, lenient(), testNow)
			if r.Code != 0 {
				t.Fatalf("%s, %d records: %v %s", codec, n, r.Code, r.Message)
			}
			if !bytes.Equal(before, out) || &out[0] != &in[0] {
				t.Errorf("%s, %d records: stored bytes differ from the sent ones", codec, n)
			}
			all, err := w.DecompressAll(out.Codec(), out.Records(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			if err := Each(all, out.Count(), func(r *Record) error {
				if r.OffsetDelta != int32(got) || len(r.Headers) != 2 || r.Headers[1].Value != nil || (got == 0) != (r.Key == nil) {
					return fmt.Errorf("record %d is %+v", got, *r)
				}
				got++
				return nil
			}); err != nil || got != n {
				t.Fatal(err, got)
			}
		}
	}
}

// HC-162: fails if a decoder stops after the first frame, e.g. with
// gzip's Multistream(false).
func TestHC162UnusualCompressedStreams(t *testing.T) {
	plain := produced(t, None, someRecords(1000)...)
	raw := plain.Records()
	cut := len(raw) / 3
	var gz, lz, zs bytes.Buffer
	for _, part := range [][]byte{raw[:cut], raw[cut:], nil} {
		g := gzip.NewWriter(&gz)
		g.Write(part)
		g.Close()
		z, _ := zstd.NewWriter(&zs)
		z.Write(part)
		z.Close()
	}
	l := lz4.NewWriter(&lz)
	l.Apply(lz4.BlockSizeOption(lz4.Block4Mb), lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(raw))))
	l.Write(raw)
	l.Close()
	xerial := append(append([]byte{}, xerialHeader...), 0, 0, 0, 1, 0, 0, 0, 1)
	for rest := raw; len(rest) > 0; {
		n := min(len(rest), 777)
		block := snappy.Encode(nil, rest[:n])
		xerial = binary.BigEndian.AppendUint32(xerial, uint32(len(block)))
		xerial = append(xerial, block...)
		rest = rest[n:]
	}
	for name, b := range map[string]Batch{
		"gzip members":      withBody(plain, Gzip, gz.Bytes()),
		"zstd frames":       withBody(plain, Zstd, zs.Bytes()),
		"lz4 4 MiB blocks":  withBody(plain, LZ4, lz.Bytes()),
		"snappy raw":        withBody(plain, Snappy, snappy.Encode(nil, raw)),
		"snappy odd blocks": withBody(plain, Snappy, xerial),
	} {
		var w Workspace
		if _, r := w.Produced(b, 13, lenient(), testNow); r.Code != 0 {
			t.Errorf("%s: %v %s", name, r.Code, r.Message)
		}
	}
}

func TestProducedRejects(t *testing.T) {
	good := func() Batch { return produced(t, None, someRecords(3)...) }
	patch := func(f func(b Batch)) Batch {
		b := good()
		f(b)
		b.seal()
		return b
	}
	type row struct {
		name    string
		bytes   []byte
		rules   func(*Rules)
		version int16
		want    kafka.ErrorCode
	}
	for _, c := range []row{
		{name: "nothing", want: kafka.ErrInvalidRecord},
		{name: "cut short", bytes: good()[:70], want: kafka.ErrInvalidRecord},
		{name: "two batches", bytes: append(good(), good()...), want: kafka.ErrInvalidRecord},
		{name: "magic 1", bytes: patch(func(b Batch) { b[posMagic] = 1 }), want: kafka.ErrInvalidRecord},
		{name: "crc", bytes: func() []byte { b := good(); b[len(b)-1] ^= 1; return b }(), want: kafka.ErrCorruptMessage},
		{name: "length field", bytes: patch(func(b Batch) { binary.BigEndian.PutUint32(b[posLength:], 1<<31) }), want: kafka.ErrCorruptMessage},
		{name: "base offset", bytes: patch(func(b Batch) { b.SetBaseOffset(5) }), want: kafka.ErrInvalidRecord},
		{name: "count", bytes: patch(func(b Batch) { binary.BigEndian.PutUint32(b[posCount:], 4) }), want: kafka.ErrInvalidRecord},
		{name: "count below", bytes: patch(func(b Batch) {
			binary.BigEndian.PutUint32(b[posCount:], 2)
			binary.BigEndian.PutUint32(b[posLastDelta:], 1)
		}), want: kafka.ErrInvalidRecord},
		{name: "control", bytes: patch(func(b Batch) { b[posAttributes+1] |= attrControl }), want: kafka.ErrInvalidRecord},
		{name: "codec 7", bytes: patch(func(b Batch) { b[posAttributes+1] |= 7 }), want: kafka.ErrInvalidRecord},
		{name: "not gzip", bytes: patch(func(b Batch) { b[posAttributes+1] |= 1 }), want: kafka.ErrInvalidRecord},
		{name: "sequence", bytes: patch(func(b Batch) { binary.BigEndian.PutUint64(b[posProducerID:], 7) }), want: kafka.ErrInvalidRecord},
		{name: "too large", bytes: good(), rules: func(r *Rules) { r.MaxBatchBytes = len(good()) - 1 }, want: kafka.ErrMessageTooLarge},
		{name: "zstd in v6", bytes: produced(t, Zstd, someRecords(3)...), version: 6, want: kafka.ErrUnsupportedCompressionType},
		{name: "no key", bytes: good(), rules: func(r *Rules) { r.Compacted = true }, want: kafka.ErrInvalidRecord},
		{name: "future", bytes: produced(t, None, Record{TimestampDelta: 3_600_001}), want: kafka.ErrInvalidTimestamp},
		{name: "past", bytes: produced(t, None, Record{TimestampDelta: -11}), rules: func(r *Rules) { r.BeforeMaxMs = 10 }, want: kafka.ErrInvalidTimestamp},
		{name: "LogAppendTime from a client", bytes: patch(func(b Batch) { b[posAttributes+1] |= attrLogAppendTime }),
			rules: func(r *Rules) { r.LogAppendTime = true }, want: kafka.ErrInvalidTimestamp},
		{name: "record too large after decompression", bytes: produced(t, Gzip, Record{Value: make([]byte, 5000)}),
			rules: func(r *Rules) { r.MaxRecordBytes = 4000 }, want: kafka.ErrInvalidRecord},
	} {
		var w Workspace
		rules := lenient()
		if c.rules != nil {
			c.rules(rules)
		}
		if c.version == 0 {
			c.version = 13
		}
		if _, r := w.Produced(c.bytes, c.version, rules, testNow); r.Code != c.want {
			t.Errorf("%s: %v (%s), want %v", c.name, r.Code, r.Message, c.want)
		}
	}
}

// HC-154: the stored size, header included, is what max.message.bytes limits.
// Fails if the comparison uses >= or leaves the header out.
func TestHC154LimitIsTheWholeBatch(t *testing.T) {
	b := produced(t, None, someRecords(20)...)
	for limit, want := range map[int]kafka.ErrorCode{len(b) - 1: kafka.ErrMessageTooLarge, len(b): 0, len(b) + 1: 0} {
		rules := lenient()
		rules.MaxBatchBytes = limit
		var w Workspace
		if _, r := w.Produced(bytes.Clone(b), 13, rules, testNow); r.Code != want {
			t.Errorf("limit %d for %d bytes: %v", limit, len(b), r.Code)
		}
	}
	// 10:1 compressible, recompressed to nothing: checked again.
	rules := lenient()
	rules.Recompress, rules.Codec, rules.MaxBatchBytes = true, None, 2000
	var w Workspace
	if _, r := w.Produced(produced(t, Zstd, Record{Value: make([]byte, 5000)}), 13, rules, testNow); r.Code != kafka.ErrMessageTooLarge {
		t.Errorf("grown batch: %v", r.Code)
	}
}

func TestTimestampsArePatched(t *testing.T) {
	var w Workspace
	b := produced(t, None, someRecords(9)...)
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(testNow+3_000_000)) // a lie
	b.seal()
	out, r := w.Produced(b, 13, lenient(), testNow)
	if r.Code != 0 || out.MaxTimestamp() != testNow+6 || !out.Valid() {
		t.Errorf("%v: max timestamp %d, valid %v", r, out.MaxTimestamp(), out.Valid())
	}
	rules := lenient()
	rules.LogAppendTime = true
	out, r = w.Produced(b, 13, rules, testNow+77)
	if r.Code != 0 || out.MaxTimestamp() != testNow+77 || !out.LogAppendTime() || !out.Valid() {
		t.Errorf("%v: %d %v %v", r, out.MaxTimestamp(), out.LogAppendTime(), out.Valid())
	}
}

func TestRecompression(t *testing.T) {
	for from := None; from <= Zstd; from++ {
		for to := None; to <= Zstd; to++ {
			var w Workspace
			rules := lenient()
			rules.Recompress, rules.Codec, rules.Level = true, to, defaultLevel(to)
			in := produced(t, from, someRecords(100)...)
			out, r := w.Produced(in, 13, rules, testNow)
			if r.Code != 0 || out.Codec() != to || !out.Valid() || out.Size() != len(out) || out.Count() != 100 {
				t.Fatalf("%s → %s: %v %s", from, to, r.Code, r.Message)
			}
			if same := &in[0] == &out[0]; same != (from == to) {
				t.Errorf("%s → %s: stored in place: %v", from, to, same)
			}
			a, _ := w.DecompressAll(in.Codec(), in.Records(), 1<<20)
			b, _ := w.DecompressAll(out.Codec(), out.Records(), 1<<20)
			if !bytes.Equal(a, b) {
				t.Errorf("%s → %s: records changed", from, to)
			}
		}
	}
}

func TestWrongInnerOffsetsAreRenumbered(t *testing.T) {
	plain := produced(t, None, someRecords(3)...)
	var body []byte
	i := int32(5)
	Each(plain.Records(), 3, func(r *Record) error {
		r.OffsetDelta = i
		i += 2
		body = r.appendTo(body)
		return nil
	})
	packed, _ := Compress(nil, LZ4, 9, body)
	var w Workspace
	out, r := w.Produced(withBody(plain, LZ4, packed), 13, lenient(), testNow)
	if r.Code != 0 {
		t.Fatal(r)
	}
	all, _ := w.DecompressAll(LZ4, out.Records(), 1<<20)
	n := int32(0)
	if err := Each(all, 3, func(r *Record) error {
		if r.OffsetDelta != n {
			return fmt.Errorf("delta %d, want %d", r.OffsetDelta, n)
		}
		n++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A bomb: 64 MiB of zeros in a few KiB. The walk keeps memory flat; fails if
// checkRecords decompresses everything at once.
func TestDecompressionBombStaysFlat(t *testing.T) {
	plain := produced(t, None, Record{Value: make([]byte, 64<<20)})
	for _, codec := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		b := compressed(t, plain, codec)
		var w Workspace
		rules := lenient()
		rules.MaxBatchBytes = 16 << 20
		per := testing.AllocsPerRun(1, func() {
			if _, r := w.Produced(b, 13, rules, testNow); r.Code != 0 {
				t.Fatal(codec, r)
			}
		})
		if w.window == nil || len(w.window) != windowBytes || per > 2000 {
			t.Errorf("%s: %v allocations, window %d", codec, per, len(w.window))
		}
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	var w Workspace
	b := produced(t, None, someRecords(100)...)
	rules := lenient()
	if n := testing.AllocsPerRun(100, func() { w.Produced(b, 13, rules, testNow) }); n != 0 {
		t.Errorf("%v allocations to validate an uncompressed batch", n)
	}
}

func TestBuilderRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := 0; round < 200; round++ {
		bl := NewBuilder(nil, kafka.Offset(rng.Int64N(1<<40)), kafka.Epoch(rng.Int32N(99)))
		var want []string
		for i := 0; i < 1+rng.IntN(20); i++ {
			key, value := make([]byte, rng.IntN(300)), make([]byte, rng.IntN(300))
			bl.Add(kafka.WallMs(rng.Int64N(1<<41)), key, value)
			want = append(want, fmt.Sprint(len(key), len(value)))
		}
		b, rest, err := Next(bl.Finish())
		if err != nil || len(rest) != 0 || !b.Valid() || b.NextOffset() != b.BaseOffset()+kafka.Offset(len(want)) {
			t.Fatal(err, len(rest))
		}
		i := 0
		if err := b.EachRecord(func(r *Record) error {
			if got := fmt.Sprint(len(r.Key), len(r.Value)); got != want[i] {
				return errors.New(got + " not " + want[i])
			}
			i++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzProduced(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		f.Add([]byte(produced(f, codec, someRecords(5)...)), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, reseal bool) {
		var w Workspace
		in = bytes.Clone(in)
		if b, _, err := Next(in); err == nil && reseal {
			b.seal()
		}
		for _, to := range []Codec{None, Zstd} {
			rules := lenient()
			rules.Recompress, rules.Codec, rules.Level = to != None, to, 3
			out, r := w.Produced(in, 13, rules, testNow)
			if r.Code == 0 && (!out.Valid() || out.Size() != len(out) || out.Count() < 1) {
				t.Fatal("accepted a broken batch")
			}
			if r.Code != 0 && r.Message == "" {
				t.Fatal("rejection without words")
			}
		}
		_ = Each(in, 3, func(r *Record) error { return nil })
	})
}

func TestRejectionsNameTheRecords(t *testing.T) {
	var w Workspace
	rules := lenient()
	rules.Compacted = true
	_, r := w.Produced(produced(t, None, someRecords(3)...), 13, rules, testNow)
	if len(r.Records) != 1 || r.Records[0].Index != 0 || !strings.Contains(r.Records[0].Message, "without key") {
		t.Errorf("%+v", r)
	}
}

func BenchmarkProduced(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("none/%dB", size), func(b *testing.B) {
			var rs []Record
			for i := 0; i < (64<<10)/size; i++ {
				rs = append(rs, Record{Value: make([]byte, size)})
			}
			in := produced(b, None, rs...)
			var w Workspace
			rules := lenient()
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				w.Produced(in, 13, rules, testNow)
			}
		})
	}
}

// Fails if Rewind leaves anything of what was added, or a codec makes a batch
// that cannot be read, or longer.
func TestBuilderRewindsAndCompresses(t *testing.T) {
	for _, codec := range []Codec{None, Gzip, Snappy, LZ4, Zstd} {
		for _, pad := range []int{0, 1000} {
			build := func(rewind bool) Batch {
				bl := NewBuilder(nil, 5, 2)
				bl.Codec = codec
				if m := bl.Mark(); rewind {
					bl.Add(1, []byte("lost"), nil)
					bl.Rewind(m)
				}
				bl.Add(100, []byte("k"), make([]byte, pad))
				if m := bl.Mark(); rewind {
					bl.Add(900, []byte("lost"), make([]byte, 2*pad))
					bl.Rewind(m)
				}
				bl.Add(101, []byte("l"), nil)
				return bl.Finish()
			}
			b := build(true)
			if !bytes.Equal(b, build(false)) {
				t.Errorf("%s: the mark shows", codec)
			}
			if want := codec != None && pad > 0; (b.Codec() == codec) != (want || codec == None) || !b.Valid() || b.Size() != len(b) || want && len(b) > pad {
				t.Errorf("%s: %s, %d bytes", codec, b.Codec(), len(b))
			}
			var w Workspace
			records, err := w.DecompressAll(b.Codec(), b.Records(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			if err := Each(records, b.Count(), func(r *Record) error { keys = append(keys, string(r.Key)); return nil }); err != nil || strings.Join(keys, "") != "kl" {
				t.Error(codec, keys, err)
			}
		}
	}
}
