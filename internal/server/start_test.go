package server_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

func TestProduceAndFetchAcrossARestart(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	if o := c.mustProduce("t", batchOf("a", "b")); o != 0 {
		t.Fatalf("offset %d", o)
	}
	if o := c.mustProduce("t", batchOf("c")); o != 2 {
		t.Fatalf("offset %d", o)
	}
	c.wantValues("t", 0, "a", "b", "c")
	n.restart()
	c = n.dial()
	c.wantValues("t", 0, "a", "b", "c")
	if o := c.mustProduce("t", batchOf("d")); o != 3 {
		t.Fatalf("offset %d after the restart", o)
	}
}

// HC-049: after a kill the node serves again without waiting for the session
// of its former self. The kill is a copy of the folder, taken while the node
// runs. Fails if a combined node gives its own broker id a session when it
// becomes active: the start would take broker.session.timeout.ms, 9 s.
func TestHC049KillAndRestartServesAtOnce(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 3)
	c.mustProduce("t", batchOf("a"))
	copied := t.TempDir()
	must(t, os.CopyFS(copied, os.DirFS(n.dir)))
	must(t, n.stop())
	must(t, os.Remove(filepath.Join(n.dir, ".kafka_cleanshutdown")))
	for _, dir := range []string{copied, n.dir} {
		began := time.Now()
		again := startIn(t, vfs.OS{}, dir)
		took := time.Since(began)
		t.Logf("ready after %v", took)
		if took > 8*time.Second {
			t.Fatalf("ready after %v: it has waited for its own ghost", took)
		}
		c := again.dial()
		c.wantValues("t", 0, "a")
		c.mustProduce("t", batchOf("b"))
		must(t, again.stop())
	}
}

// HC-008: one epoch over many writes, one after each restart. Fails if a sole
// voter checks for followers that fetch.
func TestHC008OneEpochOverManyWrites(t *testing.T) {
	n := start(t)
	c := n.dial()
	first := c.epoch()
	for i := range 100 {
		c.create(fmt.Sprint("t", i), 1)
	}
	if e := c.epoch(); e != first {
		t.Fatalf("epoch %d after %d", e, first)
	}
	n.restart()
	c = n.dial()
	second := c.epoch()
	if second <= first {
		t.Fatalf("epoch %d after a restart, %d before", second, first)
	}
	c.create("more", 1)
	if e := c.epoch(); e != second {
		t.Fatalf("epoch %d after %d", e, second)
	}
}

// HC-148: whoever connects before the node is ready waits and is then told the
// whole truth. Fails if client listeners are opened before Unfenced.
func TestHC148NobodyIsToldTooEarly(t *testing.T) {
	n := start(t)
	c := n.dial()
	for i := range 50 {
		c.create(fmt.Sprint("t", i), 2)
	}
	addr := n.addr
	for range 5 {
		must(t, n.stop())
		s, err := server.Start(server.Options{Config: n.c, FS: n.fs, Log: slog.New(slog.NewTextHandler(n.log, nil))})
		must(t, err)
		n.s = s
		c := dialTo(t, addr) // at once, most likely before it is ready
		resp := call[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 1)
		if len(resp.Topics) != 50 || len(resp.Brokers) != 1 {
			t.Fatalf("%d topics, %d brokers", len(resp.Topics), len(resp.Brokers))
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if p.Leader != 1 || p.ErrorCode != 0 {
					t.Fatalf("%s-%d: leader %d, %s", *topic.Topic, p.Partition, p.Leader, kafka.ErrorCode(p.ErrorCode))
				}
			}
		}
		c.mustProduce("t7", batchOf("x"))
		<-s.Ready()
	}
}

// Trap 10 within one process: a second node on the folder refuses and names the
// holder. Fails if LockStorage does not lock.
func TestTrap10SecondNodeRefuses(t *testing.T) {
	n := start(t)
	_, err := server.Start(server.Options{Config: configOf(t, n.dir), FS: vfs.OS{}, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Fatalf("%v", err)
	}
	n.dial().alive()
}

// A port that is in use is said with its listener, before anything is
// formatted, and nothing is left locked.
func TestPortInUse(t *testing.T) {
	n := start(t)
	dir := t.TempDir()
	taken := "listeners=PLAINTEXT://" + n.addr + ",CONTROLLER://127.0.0.1:0"
	_, err := server.Start(server.Options{Config: configOf(t, dir, taken), FS: vfs.OS{}, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "PLAINTEXT") {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(dir + "/meta.properties"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was formatted: %v", err)
	}
	startIn(t, vfs.OS{}, dir).dial().alive()
}

// settled waits until no more goroutines run than at the beginning.
func settled(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d at first:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// Stop at any phase of a start ends every goroutine, lets go of ports and locks,
// and is not taken for a failure. Fails if Stop leaves the deadlines of a store
// that was never loaded.
func TestStopAtAnyPhaseOfTheStart(t *testing.T) {
	dir := t.TempDir()
	c := configOf(t, dir)
	before := runtime.NumGoroutine()
	stopIt := func(s *server.Server) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-s.Failed():
			t.Fatalf("a stop was taken for a failure: %v", err)
		default:
		}
		settled(t, before)
	}
	for i := range 40 {
		s, err := server.Start(server.Options{Config: c, FS: vfs.OS{}, Log: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
		must(t, err)
		for range i * 2000 {
			runtime.Gosched()
		}
		stopIt(s)
	}
	s, err := server.Start(server.Options{Config: c, FS: vfs.OS{}, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	<-s.Ready()
	stopIt(s)
}

// A stop while clients wait leaves nothing behind.
func TestStopWhileFetchesWait(t *testing.T) {
	before := runtime.NumGoroutine()
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	for range 20 {
		w := n.dial()
		w.send(fetchRequest(1<<30, 1, want{topic: "t"}), 11)
	}
	must(t, n.stop())
	settled(t, before)
	n.up()
	n.dial().wantValues("t", 0)
}

// Trap 11: what a node leaves in log.dirs is only what Kafka knows.
func TestTrap11NoForeignFolders(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2)
	c.create("gone", 1)
	c.mustProduce("t", batchOf("a"))
	c.remove("gone")
	must(t, n.stop())
	list, err := os.ReadDir(n.dir)
	must(t, err)
	for _, e := range list {
		name := e.Name()
		known := slices.Contains([]string{"t-0", "t-1", "__cluster_metadata-0"}, name) || strings.HasPrefix(name, "gone-0.") && strings.HasSuffix(name, "-delete")
		if e.IsDir() && !known {
			t.Errorf("foreign folder %s", name)
		}
	}
}

// HC-007, a failing metadata disk ends the process. Fails if quorum goes on
// after a failed fsync.
func TestHC007FailedMetadataFsyncIsFatal(t *testing.T) {
	fsys := vfs.NewFault(vfs.OS{})
	n := startIn(t, fsys, t.TempDir())
	c := n.dial()
	c.create("t", 1)
	fsys.Fail(vfs.Rule{Kinds: vfs.OpSync, Match: "*.log", Times: -1, Err: os.ErrInvalid})
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "u", 1, 1
	req.Topics = append(req.Topics, topic)
	c.send(req, 7)
	select {
	case err := <-n.s.Failed():
		t.Log(err)
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	fsys.Heal()
}
