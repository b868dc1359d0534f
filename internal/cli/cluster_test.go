package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A node that ends says why where the operator looks. Fails if lastLine does not
// read the end of a long log.
func TestLastLineOfALog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	for _, text := range []string{"", "one", "one\ntwo\n", strings.Repeat("line\n", 5000) + "two\n\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "two"}[strings.Contains(text, "two")]
		if text == "one" {
			want = "one"
		}
		if got := lastLine(name); got != want {
			t.Errorf("%.20q: %q", text, got)
		}
	}
}
