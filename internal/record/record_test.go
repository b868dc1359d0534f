package record

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// everyMessage gives an empty message of every schema.
func everyMessage() []Message {
	var out []Message
	for t := range MetadataType(64) {
		if m := newMetadata(t); m != nil {
			out = append(out, m)
		}
	}
	for id := range int16(64) {
		for _, f := range []func(int16) Message{groupKey, groupValue, transactionKey, transactionValue, shareKey, shareValue} {
			if m := f(id); m != nil {
				out = append(out, m)
			}
		}
	}
	return append(out, NewEndTxnMarker(), NewLeaderChange(), NewSnapshotHeader(), NewSnapshotFooter(), NewKRaftVersion(),
		NewVoters(), NewAbortedTxn(), NewConsumerProtocolAssignment(), NewConsumerProtocolSubscription(), NewDefaultPrincipalData())
}

// randomize fills exported fields with random values, sometimes none.
func randomize(rnd *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rnd.Intn(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(rnd.Uint64()) >> rnd.Intn(64))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(rnd.Uint64() & 0xff)
	case reflect.Float64:
		v.SetFloat(rnd.Float64())
	case reflect.String:
		v.SetString([]string{"", "a", "grüppe", string(make([]byte, 200))}[rnd.Intn(4)])
	case reflect.Array:
		for i := range v.Len() {
			randomize(rnd, v.Index(i), depth)
		}
	case reflect.Pointer:
		if rnd.Intn(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			randomize(rnd, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem() == reflect.TypeOf(TaggedField{}) {
			if rnd.Intn(4) == 0 {
				v.Set(reflect.ValueOf([]TaggedField{{Tag: 20, Data: []byte("x")}, {Tag: 300, Data: []byte{}}}))
			}
			return
		}
		if n := rnd.Intn(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
		}
		for i := range v.Len() {
			randomize(rnd, v.Index(i), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			randomize(rnd, v.Field(i), depth)
		}
	}
}

// Every schema in every version: encode, decode, encode again. A field that
// the version does not have is left out by trying again with it zeroed.
func TestEverySchemaRoundTrips(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	for _, m := range everyMessage() {
		lo, hi := m.Versions()
		encoded := 0
		for version := lo; version <= hi; version++ {
			for range 200 {
				c := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
				c.setDefaults()
				randomize(rnd, reflect.ValueOf(c).Elem(), 0)
				buf, unsupported := tryEncode(c, func(m Message) []byte { return Append(nil, m, version) })
				if unsupported {
					continue
				}
				encoded++
				if Size(c, version) != len(buf) {
					t.Fatalf("%s v%d: Size %d of %d", m.Kind(), version, Size(c, version), len(buf))
				}
				d := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
				rest, err := Decode(buf, d, version)
				if err != nil || len(rest) > 0 {
					t.Fatalf("%s v%d: %v, %d bytes left of %x", m.Kind(), version, err, len(rest), buf)
				}
				if again := Append(nil, d, version); !bytes.Equal(again, buf) {
					t.Fatalf("%s v%d:\n got %x\nwant %x", m.Kind(), version, again, buf)
				}
			}
		}
		if encoded == 0 {
			t.Errorf("%s: nothing encoded", m.Kind())
		}
	}
}

func TestUnknownTypeAndVersion(t *testing.T) {
	for _, c := range []struct {
		name  string
		value []byte
		want  error
	}{
		{"type 99", []byte{1, 99, 0, 0}, ErrUnsupported},
		{"NoOp version 1", []byte{1, 20, 1, 0}, ErrUnsupported},
		{"frame 2", []byte{2, 20, 0, 0}, ErrUnsupported},
		{"empty", nil, ErrCorrupt},
		{"cut", []byte{1, 20, 0}, ErrCorrupt},
		{"garbage after", []byte{1, 20, 0, 0, 7}, ErrCorrupt},
		{"a billion brokers", []byte{1, 3, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0xff, 0xff, 0xff, 0xff, 7}, ErrCorrupt},
	} {
		if _, _, err := DecodeMetadata(c.value); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// Fails if the writer drops a field that the version does not carry.
func TestFieldOfLaterVersionIsNotDropped(t *testing.T) {
	p := NewPartition()
	p.EligibleLeaderReplicas = append(p.EligibleLeaderReplicas, 1)
	if _, unsupported := tryEncode(p, func(m Message) []byte { return AppendMetadata(nil, m, 1) }); !unsupported {
		t.Error("ELR was dropped in version 1")
	}
}

// HC-045: formatting and walking any record must not fail.
func FuzzDecodeMetadata(f *testing.F) {
	for _, r := range goldenRecords(f, ClusterMetadata) {
		f.Add(r.value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		m, v, err := DecodeMetadata(value)
		if err != nil {
			return
		}
		again := AppendMetadata(nil, m, v)
		m2, v2, err := DecodeMetadata(again)
		if err != nil || v2 != v || !bytes.Equal(AppendMetadata(nil, m2, v2), again) {
			t.Fatalf("not stable: %x: %v", again, err)
		}
	})
}

func FuzzDecodeControl(f *testing.F) {
	for _, r := range goldenRecords(f, ClusterMetadata) {
		if r.control {
			f.Add(r.key, r.value)
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if _, m, v, err := DecodeControl(key, value); err == nil {
			AppendControl(nil, m, v)
		}
	})
}

func FuzzDecodeCoordinator(f *testing.F) {
	for log, topic := range map[CoordinatorLog]string{GroupLog: "__consumer_offsets", TransactionLog: "__transaction_state", ShareLog: "__share_group_state"} {
		for _, r := range goldenRecords(f, topic) {
			f.Add(int8(log), r.key, r.value)
		}
	}
	f.Fuzz(func(t *testing.T, log int8, key, value []byte) {
		id, k, err := DecodeKey(CoordinatorLog(log), key)
		if err != nil {
			return
		}
		AppendKey(nil, k)
		if m, v, err := DecodeValue(CoordinatorLog(log), id, value); err == nil {
			AppendValue(nil, m, v)
		}
	})
}

func FuzzDecodeFileData(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 1, 'a', 255, 255, 255, 255, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, buf []byte) {
		for _, m := range []Message{NewAbortedTxn(), NewConsumerProtocolAssignment(), NewConsumerProtocolSubscription(), NewDefaultPrincipalData()} {
			if v, err := DecodeVersioned(buf, m); err == nil {
				AppendVersioned(nil, m, v)
			}
		}
	})
}

// The committed code is what gen writes. Fails if schema.txt or gen changes
// without go generate.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "./gen", "-out", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_gen.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no generated files", err)
	}
	for _, f := range files {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Base(f)); !bytes.Equal(got, want) {
			t.Errorf("%s is stale; run go generate", filepath.Base(f))
		}
	}
}

func BenchmarkDecodePartitionChange(b *testing.B) {
	m := NewPartitionChange()
	m.Leader = 3
	m.ISR = append(m.ISR, 1, 2, 3)
	value := AppendMetadata(nil, m, 2)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := DecodeMetadata(value); err != nil {
			b.Fatal(err)
		}
	}
}

// Records that are decoded with a Room are the same, and share no memory. Fails
// if carve hands out a piece twice.
func TestRoomDecodesTheSame(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	var room Room
	var got, want []Message
	for range 2000 {
		m := newMetadata(MetadataType(2 + rnd.Intn(4)))
		if m == nil {
			continue
		}
		_, hi := m.Versions()
		randomize(rnd, reflect.ValueOf(m).Elem(), 0)
		b := AppendMetadata(nil, m, hi)
		a, _, err1 := DecodeMetadata(b)
		c, _, err2 := room.DecodeMetadata(b)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		want, got = append(want, a), append(got, c)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("record %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}
