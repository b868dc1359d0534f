package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// paths of the programs under test; set by TestMain.
var moldauBinary, kafkaScript string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if kafkaScript, err = filepath.Abs("../kafka/kafka"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if moldauBinary = os.Getenv("MOLDAU"); moldauBinary == "" {
		dir, err := os.MkdirTemp("", "moldau-interop")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		moldauBinary = filepath.Join(dir, "moldau")
		build := exec.Command("go", "build", "-o", moldauBinary, "./cmd/moldau")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build moldau: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// node is a folder with a server.properties that either server can be started
// on: process, when one runs.
type node struct {
	dir       string
	port, ctl int
	more      int  // for a listener that comes later
	foreign   bool // its folder is elsewhere, and formatted
	proc      *process
}

// process is a server that runs.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string // file of its output
	ended chan struct{}
	err   error
}

// Ports below those that Linux gives to connections, 32768 and up: a client's
// could take the place of a server that is down, or connect to itself.
const (
	firstPort = 10_000
	portCount = 22_000
)

var portsGiven atomic.Int32

// freePort gives a port on which nobody listens; each once, and other processes
// begin elsewhere.
func freePort(t testing.TB) int {
	t.Helper()
	for range portCount {
		p := firstPort + (os.Getpid()*7919+int(portsGiven.Add(1)))%portCount
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p)); err == nil {
			l.Close()
			return p
		}
	}
	t.Fatal("no port is free")
	return 0
}

// clusterID of nodes that Apache Kafka formats.
const clusterID = "aW50ZXJvcC1jbHVzdGVyLQ"

// newNode writes the properties of a combined node; extra lines win.
func newNode(t testing.TB, extra ...string) *node {
	t.Helper()
	return nodeIn(t, t.TempDir(), extra...)
}

func nodeIn(t testing.TB, dir string, extra ...string) *node {
	t.Helper()
	n := &node{dir: dir, port: freePort(t), ctl: freePort(t), more: freePort(t)}
	lines := []string{
		"process.roles=broker,controller", "node.id=1",
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", n.port, n.ctl),
		"controller.listener.names=CONTROLLER",
		fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", n.ctl),
		"log.dirs=" + n.data(),
		"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=5",
		"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
	}
	text := strings.Join(append(lines, extra...), "\n") + "\n"
	if err := os.WriteFile(n.properties(), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.cleanup(t) })
	return n
}

// add writes more lines to the properties; the last one of a key counts.
func (n *node) add(t testing.TB, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(n.properties(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
}

func (n *node) data() string       { return filepath.Join(n.dir, "data") }
func (n *node) properties() string { return filepath.Join(n.dir, "server.properties") }
func (n *node) addr() string       { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// startMoldau starts moldau on the folder and waits until it serves.
func (n *node) startMoldau(t testing.TB) {
	t.Helper()
	n.launch(t, "moldau", exec.Command(moldauBinary, "server", "--config", n.properties()))
	n.await(t)
}

// startKafka starts Apache Kafka on the folder and waits until it serves. It
// formats an empty one.
func (n *node) startKafka(t testing.TB) {
	t.Helper()
	needKafka(t)
	if _, err := os.Stat(filepath.Join(n.data(), "meta.properties")); err != nil && !n.foreign {
		tool(t, "storage", "format", "-c", n.properties(), "-t", clusterID, "--standalone")
	}
	cmd := exec.Command(kafkaScript, "exec", n.dir)
	cmd.Env = append(os.Environ(), "KAFKA_HEAP=512m")
	n.launch(t, "kafka", cmd)
	n.await(t)
}

func (n *node) launch(t testing.TB, name string, cmd *exec.Cmd) {
	t.Helper()
	if n.proc != nil {
		t.Fatalf("%s is still running", n.proc.name)
	}
	logName := filepath.Join(n.dir, fmt.Sprintf("%s-%d.log", name, time.Now().UnixNano()))
	f, err := os.Create(logName)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, cmd: cmd, log: logName, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		f.Close()
		close(p.ended)
	}()
	n.proc = p
}

// await returns when the node answers with a broker and a leader for each of
// its partitions.
func (n *node) await(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for time.Now().Before(deadline) {
		select {
		case <-n.proc.ended:
			t.Fatalf("%s ended while it started: %v\n%s", n.proc.name, n.proc.err, n.tail())
		case <-time.After(20 * time.Millisecond):
		}
		if n.serves() {
			return
		}
	}
	t.Fatalf("%s does not serve after 90 s\n%s", n.proc.name, n.tail())
}

func (n *node) serves() bool {
	c, err := dialRaw(n.addr())
	if err != nil {
		return false
	}
	defer c.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	resp, err := c.ask(req)
	if err != nil {
		return false
	}
	m := resp.(*kmsg.MetadataResponse)
	for _, topic := range m.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
	}
	return len(m.Brokers) > 0
}

// tail gives the end of the log of the server that runs or ran last.
func (n *node) tail() string {
	b, _ := os.ReadFile(n.proc.log)
	return lastLines(string(b), 40)
}

// stop ends the server with SIGTERM. A moldau that logged an error fails the test.
func (n *node) stop(t testing.TB) {
	t.Helper()
	p := n.proc
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("%s: %v\n%s", p.name, err, n.tail())
	}
	select {
	case <-p.ended:
	case <-time.After(60 * time.Second):
		t.Errorf("%s does not stop\n%s", p.name, n.tail())
		p.cmd.Process.Kill()
		<-p.ended
	}
	if p.name == "moldau" && p.err != nil {
		t.Errorf("moldau stopped with %v\n%s", p.err, n.tail())
	}
	n.finish(t)
}

// kill ends the server with SIGKILL.
func (n *node) kill(t testing.TB) {
	t.Helper()
	n.proc.cmd.Process.Kill()
	<-n.proc.ended
	n.finish(t)
}

func (n *node) finish(t testing.TB) {
	p := n.proc
	n.proc = nil
	if p.name != "moldau" {
		return
	}
	b, _ := os.ReadFile(p.log)
	for _, line := range strings.Split(string(b), "\n") {
		if strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "panic:") || strings.Contains(line, "DATA RACE") || strings.HasPrefix(line, "fatal error:") {
			t.Errorf("moldau's log: %s", line)
		}
	}
}

func (n *node) cleanup(t testing.TB) {
	if n.proc == nil {
		return
	}
	if t.Failed() {
		t.Logf("log of %s:\n%s", n.proc.name, n.tail())
	}
	n.stop(t)
}

// needKafka skips tests of a run without a JVM.
func needKafka(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Fatal("java is not installed; run with -short to leave out the tests that need it")
	}
}

// runTool runs one of Apache Kafka's tools and gives what it prints.
func runTool(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, kafkaScript, args...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = ctx.Err()
	}
	return out.String(), err
}

// tool runs a tool that must succeed.
func tool(t testing.TB, args ...string) string {
	t.Helper()
	return toolWithInput(t, "", args...)
}

func toolWithInput(t testing.TB, input string, args ...string) string {
	t.Helper()
	needKafka(t)
	out, err := runTool(input, args...)
	if err != nil {
		t.Fatalf("kafka %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// client makes a franz-go client that does not retry forever.
func (n *node) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(n.addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryTimeout(20 * time.Second),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func execCommand(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "KAFKA_HEAP=256m")
	return cmd
}

var errStillRuns = errors.New("it still runs")

// runFor runs a command that should end by itself.
func runFor(cmd *exec.Cmd, d time.Duration) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(d):
		cmd.Process.Kill()
		<-ended
		return errStillRuns
	}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
