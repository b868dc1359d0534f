package server_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/seglog/logdir"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

// Fails if deleteTopics does not look at delete.topic.enable.
func TestDeletionCanBeTurnedOff(t *testing.T) {
	n := start(t, "delete.topic.enable=false")
	c := n.dial()
	c.create("t", 1)
	for version, want := range map[int16]kafka.ErrorCode{2: kafka.ErrInvalidRequest, 5: kafka.ErrTopicDeletionDisabled} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis, req.TopicNames = 10_000, []string{"t"}
		resp := call[*kmsg.DeleteTopicsResponse](c, req, version)
		wantCode(t, "delete", resp.Topics[0].ErrorCode, want)
	}
	c.mustProduce("t", batchOf("a"))
}

// A node that cannot authorize, or ask a policy, must not let through what the
// operator wanted checked. Fails if supported does not look at these keys.
func TestWhatCannotBeCheckedIsRefused(t *testing.T) {
	for _, key := range []string{"authorizer.class.name", "create.topic.policy.class.name", "alter.config.policy.class.name"} {
		c := configOf(t, t.TempDir(), key+"=org.example.Class")
		_, err := server.Start(server.Options{Config: c, FS: vfs.OS{}, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Fatalf("%s: %v", key, err)
		}
	}
}

// The directory.id of a log directory is what a voter and a replica are known
// by. One that was formatted before Kafka 3.7 has none and gets one for good; a
// copied directory, a reserved id, and metadata in a directory that is not the
// metadata directory refuse. Each part fails without its line in identify.
func TestEveryDirectoryHasAnIDOfItsOwn(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	fs := vfs.OS{}
	c := configOf(t, a, "log.dirs="+a+","+b)
	open := func() (*server.Storage, error) {
		st, err := server.LockStorage(fs, c)
		must(t, err)
		defer st.Unlock()
		return st, st.Open(fs, c)
	}
	edit := func(dir string, id kafka.DirectoryID) {
		m, err := logdir.ReadMetaProperties(fs, dir)
		must(t, err)
		m.DirectoryID = id
		must(t, logdir.WriteMetaProperties(fs, dir, m, time.Now()))
	}
	st, err := open()
	must(t, err)
	first := st.MetadataID

	edit(a, kafka.DirectoryID{})
	st, err = open()
	must(t, err)
	given := st.MetadataID
	if given == first || given == (kafka.DirectoryID{}) {
		t.Errorf("a directory without id gets %s", given)
	}
	if st, err = open(); err != nil || st.MetadataID != given || st.Dirs[0].ID != given {
		t.Errorf("and at the next start %+v, %v", st, err)
	}
	for what, spoil := range map[string]func(){
		"same directory.id": func() { edit(b, given) },
		"reserved":          func() { edit(b, kafka.DirectoryLost) },
		"metadata.log.dir":  func() { must(t, fs.MkdirAll(b+"/__cluster_metadata-0")) },
	} {
		edit(b, kafka.DirectoryID(server.NewUUID()))
		must(t, os.RemoveAll(b+"/__cluster_metadata-0"))
		spoil()
		if _, err := open(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
