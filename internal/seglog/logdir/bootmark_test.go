package logdir

import (
	"testing"

	"moldau/internal/vfs"
)

func TestBootMark(t *testing.T) {
	m := vfs.NewMem()
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	intact := func(boot string, want bool) {
		t.Helper()
		if got, err := Intact(m, "/d", boot); err != nil || got != want {
			t.Fatalf("boot %q: intact %v, %v", boot, got, err)
		}
	}
	intact("one", true) // never written to
	for _, boot := range []string{"one", "one", "two"} {
		if err := WriteBootMark(m, "/d", boot); err != nil {
			t.Fatal(err)
		}
		m.CrashProcess()
		intact(boot, true)
		intact("three", false)
		intact("", false)
	}
	for range 2 {
		if err := RemoveBootMark(m, "/d"); err != nil {
			t.Fatal(err)
		}
		intact("three", true)
	}
}
