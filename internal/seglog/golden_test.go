package seglog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

var dumpBatch = regexp.MustCompile(`baseOffset: (\d+) lastOffset: (\d+) .*?position: (\d+) .*?size: (\d+) `)

// heads walks a whole log and gives the lines of Kafka's dump tool that matter.
func heads(t *testing.T, l *Log) map[kafka.Offset][]string {
	out := map[kafka.Offset][]string{}
	for _, s := range l.list() {
		h, err := l.env.Files.acquire(s, l.Dir())
		ok(t, err)
		w := newWalker(h.file, 0, s.size.Load(), make([]byte, scanChunk))
		for w.pos < w.size {
			e, err := w.next()
			ok(t, err)
			out[s.base] = append(out[s.base], fmt.Sprintf("%d %d %d %d", e.base, e.last, e.pos, e.size))
		}
		h.unpin()
	}
	return out
}

func copyFolder(t *testing.T, from string) *vfs.Mem {
	m := memFS(t)
	ok(t, m.MkdirAll("/data/t-0"))
	files, err := os.ReadDir(from)
	ok(t, err)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		ok(t, err)
		name := "/data/t-0/" + strings.TrimSuffix(f.Name(), ".bin")
		patchNew(t, m, name)
		patch(t, m, name, func([]byte) []byte { return data })
	}
	return m
}

// Folders that Apache Kafka 4.4 wrote open, cleanly and by recovery, with the
// batches that its dump tool printed, and their indexes are rebuilt to the same
// bytes.
func TestGoldenFolders(t *testing.T) {
	folders, _ := filepath.Glob("testdata/golden/*")
	if len(folders) < 4 {
		t.Fatal("golden folders are missing")
	}
	for _, folder := range folders {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/clean=%v", filepath.Base(folder), clean), func(t *testing.T) {
				m := copyFolder(t, folder)
				b := newBed(t, m)
				b.cfg.IndexIntervalBytes = 4096
				b.clean = clean
				b.open()
				if len(b.rep.Cuts) > 0 {
					t.Errorf("%+v", b.rep)
				}
				got := heads(t, b.l)
				compareDumps(t, folder, got)
				if !clean {
					compareIndexes(t, folder, m)
				}
				ok(t, b.l.Close())
			})
		}
	}
}

func compareDumps(t *testing.T, folder string, got map[kafka.Offset][]string) {
	dumps, _ := filepath.Glob(folder + "/*.log.dump")
	if len(dumps) == 0 {
		t.Fatal("no dumps")
	}
	for _, name := range dumps {
		text, err := os.ReadFile(name)
		ok(t, err)
		base, _ := strconv.ParseInt(filepath.Base(name)[:20], 10, 64)
		var want []string
		for _, g := range dumpBatch.FindAllStringSubmatch(string(text), -1) {
			want = append(want, strings.Join(g[1:], " "))
		}
		if strings.Join(want, "\n") != strings.Join(got[kafka.Offset(base)], "\n") {
			t.Errorf("%s: Kafka says\n%v\nwe see\n%v", name, want, got[kafka.Offset(base)])
		}
	}
}

func compareIndexes(t *testing.T, folder string, m *vfs.Mem) {
	for _, ext := range []string{extIndex, extTime, extTxn} {
		files, _ := filepath.Glob(folder + "/*" + ext)
		for _, name := range files {
			want, err := os.ReadFile(name)
			ok(t, err)
			got, err := vfs.ReadFile(m, "/data/t-0/"+filepath.Base(name))
			if len(want) == 0 && err != nil {
				continue
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: rebuilt as %x, Kafka has %x (%v)", name, got, want, err)
			}
		}
	}
}
