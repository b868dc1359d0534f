package record

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"moldau/internal/batch"
)

// goldenRecord is one record of a log that Apache Kafka 4.4 wrote.
type goldenRecord struct {
	path       string
	control    bool
	key, value []byte
}

// goldenRecords reads every record of the logs whose folder begins with topic.
func goldenRecords(t testing.TB, topic string) []goldenRecord {
	t.Helper()
	var out []goldenRecord
	err := filepath.WalkDir("testdata/golden", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(filepath.Base(filepath.Dir(path)), topic) {
			return err
		}
		if name := filepath.Base(path); !strings.Contains(name, ".log") && !strings.Contains(name, ".checkpoint") {
			return nil // quorum-state and the like
		}
		buf, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for len(buf) > 0 {
			var b batch.Batch
			if b, buf, err = batch.Next(buf); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if err := b.EachRecord(func(r *batch.Record) error {
				out = append(out, goldenRecord{path, b.Control(), bytes.Clone(r.Key), bytes.Clone(r.Value)})
				return nil
			}); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatalf("no golden records of %s", topic)
	}
	return out
}

// copyFields copies v through its exported fields, deeply, so that nothing
// hidden can carry bytes from the decoder to the encoder.
func copyFields(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(copyFields(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(copyFields(v.Field(i)))
			}
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(copyFields(v.Index(i)))
			}
		}
	default:
		out.Set(v)
	}
	return out
}

func copyMessage(m Message) Message { return copyFields(reflect.ValueOf(m)).Interface().(Message) }

// change sets a scalar, string or slice to another value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() ^ 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(v.Uint() ^ 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Array:
		change(v.Index(v.Len() - 1))
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		} else {
			v.SetZero()
		}
	case reflect.Struct:
		change(v.Field(0))
	}
}

// checkRoundTrip: decode → copy through exported fields → encode gives the
// same bytes; Size agrees; any changed field shows.
func checkRoundTrip(t *testing.T, path string, m Message, version int16, want []byte, encode func(Message) []byte) {
	t.Helper()
	c := copyMessage(m)
	if got := encode(c); !bytes.Equal(got, want) {
		t.Fatalf("%s: %s version %d:\n got %x\nwant %x", path, m.Kind(), version, got, want)
	}
	if size, n := Size(m, version), len(Append(nil, m, version)); size != n {
		t.Fatalf("%s: %s version %d: Size %d, encoded %d", path, m.Kind(), version, size, n)
	}
	for i := range reflect.TypeOf(m).Elem().NumField() {
		c := copyMessage(m)
		f := reflect.ValueOf(c).Elem().Field(i)
		name := reflect.TypeOf(m).Elem().Field(i).Name
		if name == "UnknownTags" {
			continue
		}
		change(f)
		got, unsupported := tryEncode(c, encode)
		if !unsupported && bytes.Equal(got, want) && !ignorable(m, name, version) {
			t.Errorf("%s: %s version %d: changing %s does not change the bytes", path, m.Kind(), version, name)
		}
	}
}

func tryEncode(m Message, encode func(Message) []byte) (b []byte, unsupported bool) {
	defer func() { unsupported = recover() != nil }()
	return encode(m), false
}

// ignorable lists the fields that a version may drop silently, and those that
// AppendControl sets itself.
func ignorable(m Message, field string, version int16) bool {
	switch m.(type) {
	case *LeaderChange, *SnapshotHeader, *SnapshotFooter, *KRaftVersion, *Voters:
		return field == "Version"
	case *OffsetCommitValue:
		return field == "ExpireTimestamp" || version < 4 && field == "TopicID" || version < 3 && field == "LeaderEpoch"
	}
	return false
}

// Fails if one tagged field is written at its default, or one is forgotten.
func TestGoldenMetadataRoundTrip(t *testing.T) {
	kinds := map[string]int{}
	for _, r := range goldenRecords(t, ClusterMetadata) {
		if r.control {
			ct, m, v, err := DecodeControl(r.key, r.value)
			if err != nil {
				t.Fatalf("%s: %v", r.path, err)
			}
			if key := ControlKey(ct); !bytes.Equal(key, r.key) {
				t.Fatalf("%s: control key %x, want %x", r.path, key, r.key)
			}
			checkRoundTrip(t, r.path, m, v, r.value, func(m Message) []byte { return AppendControl(nil, m, v) })
			kinds[m.Kind()]++
			continue
		}
		m, v, err := DecodeMetadata(r.value)
		if err != nil {
			t.Fatalf("%s: %v", r.path, err)
		}
		checkRoundTrip(t, r.path, m, v, r.value, func(m Message) []byte { return AppendMetadata(nil, m, v) })
		if n := MetadataSize(m, v); n != len(r.value) {
			t.Fatalf("%s: %s: MetadataSize %d, want %d", r.path, m.Kind(), n, len(r.value))
		}
		kinds[m.Kind()]++
	}
	for _, want := range []string{"RegisterBrokerRecord", "PartitionRecord", "PartitionChangeRecord", "VotersRecord",
		"LeaderChangeMessage", "SnapshotHeaderRecord", "UserScramCredentialRecord", "ClientQuotaRecord"} {
		if kinds[want] == 0 {
			t.Errorf("no golden %s; have %v", want, kinds)
		}
	}
}

// ClusterMetadata names the folder of the metadata log.
const ClusterMetadata = "__cluster_metadata"

func TestGoldenCoordinatorRoundTrip(t *testing.T) {
	for _, c := range []struct {
		topic string
		log   CoordinatorLog
	}{{"__consumer_offsets", GroupLog}, {"__transaction_state", TransactionLog}, {"__share_group_state", ShareLog}} {
		values := 0
		for _, r := range goldenRecords(t, c.topic) {
			if r.control {
				_, m, v, err := DecodeControl(r.key, r.value)
				if err != nil {
					t.Fatalf("%s: %v", r.path, err)
				}
				checkRoundTrip(t, r.path, m, v, r.value, func(m Message) []byte { return AppendControl(nil, m, v) })
				continue
			}
			id, key, err := DecodeKey(c.log, r.key)
			if err != nil {
				t.Fatalf("%s: %v", r.path, err)
			}
			checkRoundTrip(t, r.path, key, 0, r.key, func(m Message) []byte { return AppendKey(nil, m) })
			if r.value == nil {
				continue
			}
			values++
			m, v, err := DecodeValue(c.log, id, r.value)
			if err != nil {
				t.Fatalf("%s: %v", r.path, err)
			}
			checkRoundTrip(t, r.path, m, v, r.value, func(m Message) []byte { return AppendValue(nil, m, v) })
		}
		if values == 0 {
			t.Errorf("%s: no values", c.topic)
		}
	}
}
