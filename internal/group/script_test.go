package group

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print into them")

// TestScripts runs testdata/*.txt: a command line, "----", what it prints, and
// an empty line. -rewrite fills in the output, to be read before committing.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, f := range files {
		if name := filepath.Base(f); strings.HasPrefix(name, "hc") || strings.HasPrefix(name, "trap") {
			continue // has a test of its own
		}
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runScript(t, f) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	var result strings.Builder
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			result.WriteString(line + "\n")
			continue
		}
		at := i + 1
		var want strings.Builder
		if i+1 < len(lines) && lines[i+1] == "----" {
			for i += 2; i < len(lines) && lines[i] != ""; i++ {
				want.WriteString(lines[i] + "\n")
			}
		}
		h.out.Reset()
		h.command(line)
		result.WriteString(line + "\n----\n" + h.out.String() + "\n")
		if i+1 < len(lines) && lines[i+1] == "" {
			i++
		}
		if !*rewrite && h.out.String() != want.String() {
			t.Errorf("%s:%d: %s\ngot:\n%swant:\n%s", file, at, line, h.out.String(), want.String())
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.TrimRight(result.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// args are the key=value pairs of a command.
type args map[string]string

func parseArgs(fields []string) args {
	a := args{}
	for _, f := range fields {
		k, v, _ := strings.Cut(f, "=")
		a[k] = v
	}
	return a
}

func (a args) num(name string, def int64) int64 {
	if a[name] == "" {
		return def
	}
	n, err := strconv.ParseInt(a[name], 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (a args) text(name, def string) string {
	if v, ok := a[name]; ok {
		return v
	}
	return def
}

func (a args) list(name string) []string {
	if a[name] == "" {
		return nil
	}
	return strings.Split(a[name], ",")
}

func (a args) maybe(name string) *string {
	if v, ok := a[name]; ok {
		return &v
	}
	return nil
}
