package server_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

// A node whose directory.id is not that of the voter would wait for a leader for
// ever: it must refuse and name the file. Fails without votes.
func TestDirectoryThatDoesNotVoteRefuses(t *testing.T) {
	n := start(t)
	must(t, n.stop())
	name := n.dir + "/meta.properties"
	before, err := os.ReadFile(name)
	must(t, err)
	var lines [][]byte
	for _, line := range bytes.Split(before, []byte("\n")) {
		if bytes.HasPrefix(line, []byte("directory.id=")) {
			line = []byte("directory.id=" + kafka.DirectoryID{3: 7}.String())
		}
		lines = append(lines, line)
	}
	must(t, os.WriteFile(name, bytes.Join(lines, []byte("\n")), 0o644))
	s, err := server.Start(server.Options{Config: configOf(t, n.dir), FS: vfs.OS{}, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		s.Stop(t.Context())
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), "meta.properties") || !strings.Contains(err.Error(), n.dir) {
		t.Fatal(err)
	}
	must(t, os.WriteFile(name, before, 0o644))
	startIn(t, vfs.OS{}, n.dir).dial().alive()
}
