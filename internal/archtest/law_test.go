package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "moldau/internal/"

// floors are the packages from the ground up. A package may import those of
// lower floors, and of its own floor only those that come before it.
var floors = []struct {
	name     string
	packages []string
}{
	{"vocabulary", []string{"kafka", "wire", "batch", "record", "producerstate", "config"}},
	{"leaves", []string{"vfs", "seglog/logdir", "seglog", "peer"}},
	{"pure cores", []string{"raft", "raftwire", "metadata", "controller", "lifecycle", "replica", "session", "coordinator", "group"}},
	{"shells", []string{"quorum", "raftnet", "partition", "statemachine"}},
	{"edge", []string{"network", "handler", "bench", "server", "cli"}},
}

// pure packages decide or describe; they see no file, socket, clock or goroutine.
var pure = append(append([]string{}, floors[0].packages...), floors[2].packages...)

// testOnly packages are not part of the product.
var testOnly = []string{"archtest", "sim", "sim/cmd", "sim/groups", "sim/groups/cmd", "record/gen", "bench/compare", "bench/compare/cmd"}

// apart are the floors whose packages never import each other.
var apart = []string{"shells"}

type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "moldau/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// place gives a package's floor and its number on it.
func place(name string) (floor, number int) {
	for f := range floors {
		if n := slices.Index(floors[f].packages, name); n >= 0 {
			return f, n
		}
	}
	return -1, -1
}

func TestImportsRunUpwardOnly(t *testing.T) {
	for _, p := range packages(t) {
		name, internal := strings.CutPrefix(p.ImportPath, module)
		if !internal || slices.Contains(testOnly, name) {
			continue
		}
		floor, number := place(name)
		if floor < 0 {
			t.Errorf("%s has no place in the house; give it one in floors", name)
			continue
		}
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			f, n := place(dep)
			switch {
			case f < 0:
				t.Errorf("%s imports %s, which is not part of the product", name, dep)
			case f > floor, f == floor && n > number:
				t.Errorf("%s (%s) imports %s (%s): imports run upward only", name, floors[floor].name, dep, floors[f].name)
			case f == floor && slices.Contains(apart, floors[f].name):
				t.Errorf("%s imports %s: %s never import each other", name, dep, floors[f].name)
			}
		}
	}
}

// forbidden imports of pure packages. Compressors and codecs of libraries are
// allowed: they are functions of their input.
var impure = []string{"os", "os/exec", "net", "net/http", "sync", "sync/atomic", "syscall", "io/fs", "log", "log/slog", "context", "crypto/rand", "golang.org/x/sys/unix", module + "vfs", module + "seglog"}

func TestPureCoresImportNoWorld(t *testing.T) {
	for _, p := range packages(t) {
		name, _ := strings.CutPrefix(p.ImportPath, module)
		if !slices.Contains(pure, name) {
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains(impure, imp) {
				t.Errorf("%s is pure, but imports %s", name, imp)
			}
		}
	}
}
