package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", Short: "A cluster of several nodes on this machine, for trying things",
		Args: cobra.NoArgs, RunE: help,
	}
	cmd.AddCommand(newClusterStart())
	return cmd
}

// layout is where the nodes of a local cluster are.
type layout struct {
	dir   string
	nodes int
	port  int // of the first node's clients; its controller listens one above, the next node ten above
}

func newClusterStart() *cobra.Command {
	var l layout
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Lay out a cluster, unless it is there, and run it",
		Long: `Lays out the nodes of a cluster, each a broker and a controller, in a directory,
and runs each as a process of its own until SIGINT or SIGTERM. A directory that
holds one already is started again.

Kill one of the processes that it names, and look at the others:
  moldau quorum describe`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.nodes < 1 || l.nodes > 9 {
				return errors.New("--nodes is from 1 to 9")
			}
			dir, err := filepath.Abs(l.dir) // the files must not depend on where the command was run
			if err != nil {
				return err
			}
			l.dir = dir
			if err := l.make(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return l.run(ctx, cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&l.nodes, "nodes", 3, "how many")
	cmd.Flags().StringVar(&l.dir, "dir", "moldau-cluster", "`directory` of the cluster")
	cmd.Flags().IntVar(&l.port, "port", 9092, "first port; each node takes two, the next node begins ten above")
	return cmd
}

func (l *layout) node(id int) string       { return filepath.Join(l.dir, fmt.Sprint(id)) }
func (l *layout) file(id int) string       { return filepath.Join(l.node(id), "server.properties") }
func (l *layout) clients(id int) string    { return fmt.Sprintf("127.0.0.1:%d", l.port+10*(id-1)) }
func (l *layout) controller(id int) string { return fmt.Sprintf("127.0.0.1:%d", l.port+10*(id-1)+1) }

// make writes the properties and formats the directories of nodes that have none.
func (l *layout) make() error {
	if _, err := os.Stat(l.file(1)); err == nil {
		return l.complete()
	}
	cluster := server.NewUUID().String()
	var configs []*config.Server
	var voters []raft.Voter
	for id := 1; id <= l.nodes; id++ {
		if err := os.MkdirAll(l.node(id), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(l.file(id), []byte(l.properties(id)), 0o644); err != nil {
			return err
		}
		c, err := loadConfig(l.file(id), nil)
		if err != nil {
			return err
		}
		configs = append(configs, c)
		voters = append(voters, raft.Voter{
			Key:       raft.ReplicaKey{ID: kafka.NodeID(id), Dir: kafka.DirectoryID(server.NewUUID())},
			Endpoints: []kafka.Endpoint{{Name: "CONTROLLER", Host: "127.0.0.1", Port: uint16(l.port + 10*(id-1) + 1)}}, MaxKRaft: 1,
		})
	}
	set, err := raft.NewVoterSet(voters...)
	if err != nil {
		return err
	}
	records, err := server.ClusterFeatures("", nil)
	if err != nil {
		return err
	}
	for _, c := range configs {
		if err := server.Format(server.FormatOptions{FS: vfs.OS{}, Config: c, ClusterID: cluster, Initial: set, Records: records, Now: time.Now()}); err != nil {
			return err
		}
	}
	return nil
}

// complete checks a layout that is there.
func (l *layout) complete() error {
	for id := 1; id <= l.nodes; id++ {
		if _, err := os.Stat(l.file(id)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s holds a cluster of fewer than %d nodes; give another --dir, or remove it", l.dir, l.nodes)
		} else if err != nil {
			return err
		}
	}
	c, err := loadConfig(l.file(1), nil)
	if err == nil && c.Listeners[0].Address() != l.clients(1) {
		err = fmt.Errorf("%s holds a cluster at %s; give --port %d, or another --dir", l.dir, c.Listeners[0].Address(), c.Listeners[0].Port)
	}
	return err
}

func (l *layout) properties(id int) string {
	var boot []string
	for n := 1; n <= l.nodes; n++ {
		boot = append(boot, l.controller(n))
	}
	copies, enough := min(l.nodes, 3), min(l.nodes, 2)
	return fmt.Sprintf(`process.roles=broker,controller
node.id=%d
listeners=PLAINTEXT://%s,CONTROLLER://%s
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=%s
log.dirs=%s
offsets.topic.replication.factor=%d
transaction.state.log.replication.factor=%d
transaction.state.log.min.isr=%d
share.coordinator.state.topic.replication.factor=%d
share.coordinator.state.topic.min.isr=%d
group.initial.rebalance.delay.ms=0
`, id, l.clients(id), l.controller(id), strings.Join(boot, ","), filepath.Join(l.node(id), "data"), copies, copies, enough, copies, enough)
}

// run starts a process for each node and waits until all have ended.
func (l *layout) run(ctx context.Context, w io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The nodes end with the thread that has started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var wait sync.WaitGroup
	var out sync.Mutex
	var ended atomic.Int32
	say := func(format string, a ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Fprintf(w, format+"\n", a...)
	}
	for id := 1; id <= l.nodes; id++ {
		log, err := os.OpenFile(filepath.Join(l.node(id), "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, self, "server", "--config", l.file(id))
		cmd.Stdout, cmd.Stderr = log, log
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		// A terminal's interrupt goes to the whole group; the nodes stop by ours,
		// and if this process is killed they stop, too.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		err = errors.Join(cmd.Start(), log.Close())
		if err != nil {
			return err
		}
		say("node %d: clients %s, controller %s, process %d, log %s", id, l.clients(id), l.controller(id), cmd.Process.Pid, log.Name())
		wait.Go(func() {
			err := cmd.Wait()
			if ctx.Err() == nil {
				say("node %d has ended (%v): %s\n  start it again with: moldau server --config %s", id, err, lastLine(log.Name()), l.file(id))
				ended.Add(1)
			}
		})
	}
	say("\nTry:  moldau quorum describe --bootstrap-server %s", l.clients(1))
	wait.Wait()
	if int(ended.Load()) == l.nodes {
		return errors.New("all nodes have ended")
	}
	return nil
}

// lastLine is the end of a node's log: why it has ended.
func lastLine(name string) string {
	const most = 4096
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if at, err := f.Seek(0, io.SeekEnd); err == nil && at > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	} else {
		_, _ = f.Seek(0, io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(f, most))
	text := strings.TrimSpace(string(b))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
