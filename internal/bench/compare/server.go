package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"moldau/internal/bench"
)

// Server is a way to run one kind of broker.
type Server struct {
	// Name is kafka or moldau, Title what the report calls it.
	Name, Title string
	// format prepares an empty folder.
	format func(ctx context.Context, dir string, port int) error
	// command is the broker in the foreground: its process is the broker's.
	command func(dir string) *exec.Cmd
}

// Kafka runs Apache Kafka through the script test/kafka/kafka.
func Kafka(script string) Server {
	return Server{
		Name: "kafka", Title: "Apache Kafka 4.4",
		format: func(ctx context.Context, dir string, port int) error {
			out, err := exec.CommandContext(ctx, script, "format", dir, fmt.Sprint(port)).CombinedOutput()
			if err != nil {
				return fmt.Errorf("format Apache Kafka: %w\n%s", err, out)
			}
			return nil
		},
		command: func(dir string) *exec.Cmd { return exec.Command(script, "exec", dir) },
	}
}

// Moldau runs the binary at path, which formats its folder itself.
func Moldau(path string) Server {
	return Server{
		Name: "moldau", Title: "moldau",
		format: func(_ context.Context, dir string, port int) error {
			return os.WriteFile(filepath.Join(dir, "server.properties"), []byte(moldauProperties(dir, port)), 0o600)
		},
		command: func(dir string) *exec.Cmd {
			return exec.Command(path, "server", "--config", filepath.Join(dir, "server.properties"))
		},
	}
}

// moldauProperties are the same settings that the script gives to Apache Kafka.
func moldauProperties(dir string, port int) string {
	return strings.Join([]string{
		"process.roles=broker,controller",
		"node.id=1",
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", port, port+1),
		fmt.Sprintf("advertised.listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", port, port+1),
		"controller.listener.names=CONTROLLER",
		fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", port+1),
		"log.dirs=" + filepath.Join(dir, "data"),
		"group.initial.rebalance.delay.ms=0",
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
	}, "\n") + "\n"
}

// readyTimeout bounds every wait for a server.
const readyTimeout = 3 * time.Minute

// node is a running server.
type node struct {
	cmd     *exec.Cmd
	address string
	log     string
	started time.Time
	exited  chan struct{} // closed when the process is gone
}

// start starts the server in dir and returns at once.
func (s Server) start(dir string, port int) (*node, error) {
	n := &node{
		cmd: s.command(dir), address: fmt.Sprintf("127.0.0.1:%d", port),
		log: filepath.Join(dir, s.Name+".out"), exited: make(chan struct{}),
	}
	out, err := os.OpenFile(n.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	n.cmd.Stdout, n.cmd.Stderr = out, out
	n.started = time.Now()
	if err := n.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Title, err)
	}
	go func() {
		_ = n.cmd.Wait() // a signal is how these end
		close(n.exited)
	}()
	return n, nil
}

// ready waits until check passes on a connection and returns the time since the
// start.
func (n *node) ready(ctx context.Context, check func(*probe) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		begin := time.Now()
		err := tryProbe(ctx, n.address, check)
		if err == nil {
			return time.Since(n.started), nil
		}
		// Looking must not keep the server from getting ready: rest several times
		// as long as the look took.
		rest := max(probeInterval, 4*time.Since(begin))
		select {
		case <-n.exited:
			return 0, fmt.Errorf("the server ended while it started:\n%s", n.tail())
		case <-ctx.Done():
			return 0, fmt.Errorf("the server is not ready after %v: %w\n%s", readyTimeout, err, n.tail())
		case <-time.After(rest):
		}
	}
}

// tail is the end of the server's log.
func (n *node) tail() string {
	text, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// end sends a signal and returns how long the process took to be gone. A server
// that outlives the timeout is killed.
func (n *node) end(signal syscall.Signal) (time.Duration, error) {
	begin := time.Now()
	if err := n.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-n.exited:
		return time.Since(begin), nil
	case <-time.After(readyTimeout):
		_ = n.cmd.Process.Kill()
		<-n.exited
		return 0, fmt.Errorf("the server did not stop within %v:\n%s", readyTimeout, n.tail())
	}
}

// target is the node as the benchmarks see it.
func (n *node) target() bench.Target {
	return bench.Target{Brokers: []string{n.address}, BrokerPID: n.cmd.Process.Pid}
}

// idle measures CPU (percent of one core) and resident memory while nothing
// happens.
func (n *node) idle(ctx context.Context, d time.Duration) (percent float64, rssBytes int64, err error) {
	p := bench.Process{PID: n.cmd.Process.Pid}
	before, err := p.Usage()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := sleep(ctx, d); err != nil {
		return 0, 0, err
	}
	after, err := p.Usage()
	if err != nil {
		return 0, 0, err
	}
	return 100 * (after.CPU - before.CPU).Seconds() / time.Since(begin).Seconds(), after.RSSBytes, nil
}

// sleep waits, or returns why it could not.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
