package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// local is a running "moldau cluster start".
type local struct {
	cmd   *exec.Cmd
	nodes []int // process ids
}

var startedNode = regexp.MustCompile(`^node \d+: .* process (\d+), log`)

// startLocal starts it in the directory above dir, which must not matter.
func startLocal(t *testing.T, dir string, port int) *local {
	t.Helper()
	l := &local{cmd: exec.Command(moldau, "cluster", "start", "--nodes", "3", "--dir", filepath.Base(dir), "--port", fmt.Sprint(port))}
	l.cmd.Dir = filepath.Dir(dir)
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.cmd.Process.Kill(); l.cmd.Wait() })
	lines := bufio.NewScanner(out)
	for len(l.nodes) < 3 && lines.Scan() {
		if m := startedNode.FindStringSubmatch(lines.Text()); m != nil {
			pid, _ := strconv.Atoi(m[1])
			l.nodes = append(l.nodes, pid)
		}
	}
	if len(l.nodes) != 3 {
		t.Fatalf("%d nodes started", len(l.nodes))
	}
	go io.Copy(io.Discard, out)
	return l
}

// end sends a signal and waits until the command and its nodes have ended.
func (l *local) end(t *testing.T, c *cluster, s syscall.Signal) {
	t.Helper()
	if err := l.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Wait(); s == syscall.SIGTERM && err != nil {
		t.Errorf("ended with %v", err)
	}
	c.until("the nodes' end", func() error {
		for _, pid := range l.nodes {
			if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return fmt.Errorf("process %d runs", pid)
			}
		}
		return nil
	})
}

// A cluster for trying things serves, starts again from its directory, and
// leaves no process behind, also if its parent is killed.
func TestClusterStart(t *testing.T) {
	c := &cluster{t: t}
	dir, port := filepath.Join(t.TempDir(), "three"), freePorts(t, 22) // two of each ten
	cl, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("127.0.0.1:%d", port)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	all := metadataRequest()
	all.Topics = nil
	k := &creator{c: c, cl: cl}
	for i, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM} {
		l := startLocal(t, dir, port)
		c.until("topics of all starts", func() error {
			if code, err := k.create(fmt.Sprintf("start-%d", i)); err != nil || code != 0 && code != 36 {
				return fmt.Errorf("create: code %d, %v", code, err)
			}
			resp, err := ask[*kmsg.MetadataResponse](cl, all)
			if err == nil && len(resp.Topics) != i+1 {
				err = fmt.Errorf("%d topics, want %d", len(resp.Topics), i+1)
			}
			return err
		})
		l.end(t, c, s)
	}
}
