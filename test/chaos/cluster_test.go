package chaos

import (
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

var moldau string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if moldau = os.Getenv("MOLDAU"); moldau == "" {
		dir, err := os.MkdirTemp("", "moldau-chaos")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		moldau = filepath.Join(dir, "moldau")
		build := exec.Command("go", "build", "-o", moldau, "./cmd/moldau")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build moldau: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

const clusterID = "Y2hhb3MtY2x1c3Rlci1vbg"

// patience bounds every wait for something that must happen.
const patience = 30 * time.Second

// cluster is controllers 1 to 3 and brokers 4 to 6.
type cluster struct {
	t     testing.TB
	dir   string
	nodes map[int]*node
}

// node is one process, or the place where one ran.
type node struct {
	c          *cluster
	id         int
	role       string
	host       string // by which others know it
	listen     string
	port       int
	dir        string
	directory  string   // directory id of a voter
	properties []string // lines beyond the usual ones
	netns      string   // network namespace to run in
	cmd        *exec.Cmd
	ended      chan struct{}
	launches   int
}

func (n *node) address() string { return net.JoinHostPort(n.host, fmt.Sprint(n.port)) }
func (n *node) file() string    { return filepath.Join(n.dir, "server.properties") }
func (n *node) data() string    { return filepath.Join(n.dir, "data") }

// Ports below those that Linux gives to connections, 32768 and up: a client's
// could take the place of a server that is down, or connect to itself.
const (
	firstPort = 10_000
	portCount = 22_000
)

var portsGiven atomic.Int32

// freePorts gives the first of n ports on which nobody listens; each once, and
// other processes begin elsewhere.
func freePorts(t testing.TB, n int) int {
	t.Helper()
	for range portCount {
		last := firstPort + (os.Getpid()*7919+int(portsGiven.Add(int32(n))))%portCount
		if p := last - n + 1; p >= firstPort && areFree(p, n) {
			return p
		}
	}
	t.Fatal("no ports are free")
	return 0
}

func areFree(first, n int) bool {
	for p := range n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+p))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// newCluster lays out the nodes; place may change where they are.
func newCluster(t testing.TB, place func(*node), properties ...string) *cluster {
	c := &cluster{t: t, dir: t.TempDir(), nodes: map[int]*node{}}
	for id := 1; id <= 6; id++ {
		n := &node{c: c, id: id, role: "controller", host: "127.0.0.1", listen: "127.0.0.1", port: freePorts(t, 1), dir: filepath.Join(c.dir, fmt.Sprint(id)), properties: properties}
		if id > 3 {
			n.role = "broker"
		} else {
			n.directory = strings.TrimSpace(c.moldau("storage", "random-uuid"))
		}
		if place != nil {
			place(n)
		}
		c.nodes[id] = n
	}
	for _, n := range c.nodes {
		n.layOut()
	}
	t.Cleanup(c.stop)
	return c
}

func (c *cluster) controllers() []*node { return []*node{c.nodes[1], c.nodes[2], c.nodes[3]} }
func (c *cluster) brokers() []*node     { return []*node{c.nodes[4], c.nodes[5], c.nodes[6]} }

func (c *cluster) moldau(args ...string) string {
	c.t.Helper()
	out, err := exec.Command(moldau, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("moldau %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// layOut writes the properties and formats the directory.
func (n *node) layOut() {
	c := n.c
	var boot, voters []string
	for _, v := range c.controllers() {
		boot = append(boot, v.address())
		voters = append(voters, fmt.Sprintf("%d@%s:%s", v.id, v.address(), v.directory))
	}
	name := map[string]string{"controller": "CONTROLLER", "broker": "PLAINTEXT"}[n.role]
	lines := append([]string{
		"process.roles=" + n.role, fmt.Sprintf("node.id=%d", n.id), "controller.listener.names=CONTROLLER",
		fmt.Sprintf("listeners=%s://%s:%d", name, n.listen, n.port),
		fmt.Sprintf("advertised.listeners=%s://%s", name, n.address()),
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"controller.quorum.bootstrap.servers=" + strings.Join(boot, ","), "log.dirs=" + n.data(),
		"offsets.topic.replication.factor=1",
	}, n.properties...)
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(n.file(), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		c.t.Fatal(err)
	}
	args := []string{"storage", "format", "-c", n.file(), "-t", clusterID}
	if n.role == "controller" {
		args = append(args, "--initial-controllers", strings.Join(voters, ","))
	}
	c.moldau(args...)
}

func (n *node) start() {
	t := n.c.t
	t.Helper()
	args := []string{moldau, "server", "--config", n.file()}
	if n.netns != "" {
		args = append([]string{"ip", "netns", "exec", n.netns}, args...)
	}
	n.launches++
	log, err := os.Create(filepath.Join(n.dir, fmt.Sprintf("server-%d.log", n.launches)))
	if err != nil {
		t.Fatal(err)
	}
	n.cmd = exec.Command(args[0], args[1:]...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	n.ended = ended
	cmd := n.cmd
	go func() {
		cmd.Wait()
		log.Close()
		close(ended)
	}()
}

// signal sends a signal; SIGKILL and SIGTERM wait for the end.
func (n *node) signal(s syscall.Signal) {
	n.c.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.c.t.Fatalf("node %d: %v", n.id, err)
	}
	if s != syscall.SIGKILL && s != syscall.SIGTERM {
		return
	}
	select {
	case <-n.ended:
		n.cmd = nil
	case <-time.After(patience):
		n.c.t.Fatalf("node %d does not end after %v\n%s", n.id, s, n.tail())
	}
}

// log is everything the node has printed since its last start.
func (n *node) log() string {
	b, _ := os.ReadFile(filepath.Join(n.dir, fmt.Sprintf("server-%d.log", n.launches)))
	return string(b)
}

func (n *node) tail() string {
	s := n.log()
	return s[max(0, len(s)-4000):]
}

// stop ends what runs and looks for what no log may say.
func (c *cluster) stop() {
	for id := 6; id >= 1; id-- {
		if n := c.nodes[id]; n.cmd != nil {
			n.cmd.Process.Signal(syscall.SIGCONT)
			n.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-n.ended:
			case <-time.After(patience):
				c.t.Errorf("node %d does not stop\n%s", id, n.tail())
				n.cmd.Process.Kill()
				<-n.ended
			}
		}
	}
	for id, n := range c.nodes {
		for i := 1; i <= n.launches; i++ {
			b, _ := os.ReadFile(filepath.Join(n.dir, fmt.Sprintf("server-%d.log", i)))
			for line := range strings.Lines(string(b)) {
				if strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "DATA RACE") {
					c.t.Errorf("node %d, start %d: %s", id, i, line)
				}
			}
		}
		if c.t.Failed() {
			c.t.Logf("end of the log of node %d:\n%s", id, n.tail())
		}
	}
}

func (c *cluster) start() {
	c.t.Helper()
	for id := 1; id <= 6; id++ {
		c.nodes[id].start()
	}
	c.awaitBrokers(3)
}

// client talks to all brokers.
func (c *cluster) client() *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, b := range c.brokers() {
		seeds = append(seeds, b.address())
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RequestRetries(0), kgo.RetryTimeout(0),
		kgo.MetadataMinAge(20*time.Millisecond), kgo.RequestTimeoutOverhead(2*time.Second), kgo.DialTimeout(time.Second))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// until tries something until it succeeds.
func (c *cluster) until(what string, f func() error) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %v", what, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// awaitBrokers waits until n brokers are in service, by the word of a broker.
func (c *cluster) awaitBrokers(n int) {
	c.t.Helper()
	cl := c.client()
	c.until("brokers in service", func() error {
		resp, err := ask[*kmsg.MetadataResponse](cl, metadataRequest())
		if err != nil {
			return err
		}
		if len(resp.Brokers) != n {
			return fmt.Errorf("%d of %d", len(resp.Brokers), n)
		}
		return nil
	})
}

func metadataRequest(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		m := kmsg.NewMetadataRequestTopic()
		m.Topic = &name
		req.Topics = append(req.Topics, m)
	}
	return req
}

func ask[R kmsg.Response](cl *kgo.Client, req kmsg.Request) (R, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var none R
	resp, err := cl.Request(ctx, req)
	if err != nil {
		return none, err
	}
	r, ok := resp.(R)
	if !ok {
		return none, errors.New("another kind of answer")
	}
	return r, nil
}

// leader is the active controller, by the word of a broker.
func (c *cluster) leader(cl *kgo.Client) *node {
	c.t.Helper()
	var found *node
	c.until("active controller", func() error {
		req := kmsg.NewPtrDescribeQuorumRequest()
		tp, p := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
		tp.Topic, tp.Partitions = "__cluster_metadata", append(tp.Partitions, p)
		req.Topics = append(req.Topics, tp)
		resp, err := ask[*kmsg.DescribeQuorumResponse](cl, req)
		if err != nil {
			return err
		}
		if resp.ErrorCode != 0 || len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			return fmt.Errorf("DescribeQuorum: %+v", resp)
		}
		if found = c.nodes[int(resp.Topics[0].Partitions[0].LeaderID)]; found == nil || found.cmd == nil {
			return fmt.Errorf("leader %d", resp.Topics[0].Partitions[0].LeaderID)
		}
		return nil
	})
	return found
}
