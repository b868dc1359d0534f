package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"moldau/internal/record"
)

// golden copies a metadata log that Apache Kafka wrote into a log directory.
func golden(t *testing.T) string {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "__cluster_metadata-0"), os.DirFS("../quorum/testdata/single")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func runMoldau(t *testing.T, args ...string) string {
	t.Helper()
	cmd := New()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		t.Fatalf("moldau %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// Fails if EachBatch stops early, Image starts at the wrong snapshot, or Diff
// is told the wrong way round.
func TestMetadataCommands(t *testing.T) {
	dir := golden(t)
	for _, c := range []struct {
		args string
		want []string
	}{
		{"log --from 180", []string{"180 epoch 1: PartitionRecord {PartitionID=1 ", "\n308 epoch 1: NoOpRecord {}\n"}},
		{"log --snapshot latest", []string{"snapshot of all below offset ", "FeatureLevelRecord {Name=\"metadata.version\" FeatureLevel=33}", "TopicRecord {Name=\"grows\""}},
		{"image", []string{"feature metadata.version: off → 33 (4.4-IV2)", "controller 1 registered", "topic codecs (", "  codecs-0: replicas [1], in sync [], leader none"}},
		{"diff 185 185", []string{"nothing changed"}},
	} {
		out := runMoldau(t, append([]string{"metadata"}, strings.Fields(c.args+" --dir "+dir)...)...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("metadata %s does not say %q:\n%s", c.args, want, out)
			}
		}
	}
}

// Every record can be printed, empty or odd (HC-045). Fails if writeValue does
// not look for nil pointers.
func TestHC045EveryRecordPrints(t *testing.T) {
	for kind := range record.MetadataType(64) {
		m := record.NewMetadata(kind)
		if m == nil {
			continue
		}
		if s := recordText(m); !strings.HasPrefix(s, m.Kind()) {
			t.Errorf("%T prints as %q", m, s)
		}
		fillPointers(reflect.ValueOf(m).Elem())
		recordText(m)
	}
}

// fillPointers gives every pointer and slice something to hold.
func fillPointers(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 2, 2))
		case f.Kind() == reflect.Struct:
			fillPointers(f)
		}
	}
}
