package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// network puts every node into a network namespace of its own, all joined by a
// bridge that this process reaches too.
type network struct {
	t      testing.TB
	prefix string // of the names of everything that is made
}

// networks counts those made by this process. The kernel takes a deleted
// namespace and its links apart later, so no two networks share names.
var networks atomic.Int32

// newNetwork skips the test where namespaces cannot be made.
func newNetwork(t testing.TB) *network {
	w := &network{t: t, prefix: fmt.Sprintf("mc%dn%d", os.Getpid()%100000, networks.Add(1))}
	if out, err := exec.Command("ip", "link", "add", w.prefix, "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("network namespaces cannot be made here: %v %s", err, out)
	}
	t.Cleanup(func() { exec.Command("ip", "link", "del", w.prefix).Run() })
	w.ip("addr", "add", "10.77.44.254/24", "dev", w.prefix)
	w.ip("link", "set", w.prefix, "up")
	return w
}

func (w *network) ip(args ...string) {
	w.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func address(id int) string { return fmt.Sprintf("10.77.44.%d", id) }

func (w *network) namespace(id int) string { return fmt.Sprintf("%s-%d", w.prefix, id) }

// place gives a node its namespace and address.
func (w *network) place(n *node) {
	ns := w.namespace(n.id)
	veth := fmt.Sprintf("%sv%d", w.prefix, n.id)
	w.ip("netns", "add", ns)
	w.t.Cleanup(func() {
		exec.Command("ip", "link", "del", veth).Run()
		exec.Command("ip", "netns", "del", ns).Run()
		os.RemoveAll(filepath.Join("/etc/netns", ns))
	})
	w.ip("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", ns)
	w.ip("link", "set", veth, "master", w.prefix, "up")
	w.ip("-n", ns, "addr", "add", address(n.id)+"/24", "dev", "eth0")
	w.ip("-n", ns, "link", "set", "eth0", "up")
	w.ip("-n", ns, "link", "set", "lo", "up")
	n.netns, n.host, n.listen, n.port = ns, address(n.id), address(n.id), 9092
}

// cut keeps packets of one node from another; the other way stays open.
func (w *network) cut(from, to int) {
	w.ip("-n", w.namespace(from), "route", "add", "blackhole", address(to)+"/32")
}

func (w *network) heal(from, to int) {
	w.ip("-n", w.namespace(from), "route", "del", "blackhole", address(to)+"/32")
}

// The active controller is cut off from the other controllers, while all
// brokers reach it: it resigns, and the brokers follow the next one (HC-022).
// Fails if fetches of observers count for check-quorum.
func TestHC022LeaderCutOffFromVoters(t *testing.T) {
	w := newNetwork(t)
	c := newCluster(t, w.place)
	c.start()
	k := c.createTopics()
	cl := c.client()
	c.until("topics before", func() error { return more(k, 50) })
	n := c.leader(cl)
	for _, other := range c.controllers() {
		if other != n {
			w.cut(n.id, other.id)
			w.cut(other.id, n.id)
		}
	}
	at := time.Now()
	gap := k.gap(at)
	before := k.count()
	c.until("topics at the next controller", func() error { return more(k, before+50) })
	for _, other := range c.controllers() {
		if other != n {
			w.heal(n.id, other.id)
			w.heal(other.id, n.id)
		}
	}
	c.until("the former leader caught up", func() error { return caughtUp(c, cl, n) })
	k.check(t)
	t.Logf("from the cut to the next acknowledged change: %v", gap)
}

// Only one direction is cut: what a follower sends does not arrive, or what the
// leader answers. The quorum goes on, and the follower comes back.
func TestAsymmetricCuts(t *testing.T) {
	w := newNetwork(t)
	c := newCluster(t, w.place)
	c.start()
	k := c.createTopics()
	cl := c.client()
	for _, towardsLeader := range []bool{true, false} {
		before := k.count()
		c.until("topics before the cut", func() error { return more(k, before+50) })
		n := c.leader(cl)
		other := c.controllers()[n.id%3]
		from, to := n.id, other.id
		if towardsLeader {
			from, to = other.id, n.id
		}
		at := time.Now()
		w.cut(from, to)
		gap := k.gap(at)
		<-time.After(5 * time.Second) // more than twice what the follower waits for its leader
		before = k.count()
		c.until("topics during the cut", func() error { return more(k, before+50) })
		w.heal(from, to)
		c.until("the follower caught up", func() error { return caughtUp(c, cl, other) })
		t.Logf("node %d led, packets from %d to %d were cut: %v to the next acknowledged change", n.id, from, to, gap)
	}
	k.check(t)
}

// One controller's name does not resolve at first, then it does, and later it
// moves to another address (HC-053). Fails if addresses are resolved once.
func TestHC053NamesThatResolveLate(t *testing.T) {
	w := newNetwork(t)
	hosts := func(ns string, late string) {
		text := "127.0.0.1 localhost\n"
		for id := 1; id <= 6; id++ {
			a := address(id)
			if id == 3 {
				a = late
			}
			if a != "" {
				text += fmt.Sprintf("%s chaos-%d\n", a, id)
			}
		}
		// In place: the namespaces have it mounted over /etc/hosts.
		if err := os.WriteFile(filepath.Join("/etc/netns", ns, "hosts"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	everywhere := func(late string) {
		for id := 1; id <= 6; id++ {
			hosts(w.namespace(id), late)
		}
	}
	c := newCluster(t, func(n *node) {
		w.place(n)
		if err := os.MkdirAll(filepath.Join("/etc/netns", n.netns), 0o755); err != nil {
			t.Fatal(err)
		}
		if n.role == "controller" {
			n.host = fmt.Sprintf("chaos-%d", n.id)
		}
	})
	everywhere("")
	c.start()
	k := c.createTopics()
	cl := c.client()
	c.until("topics without the third", func() error { return more(k, 20) })
	everywhere(address(3))
	third := c.nodes[3]
	c.until("the third caught up", func() error { return caughtUp(c, cl, third) })
	// Now it can be reached, and lead.
	lead := func() {
		t.Helper()
		c.until("the third leads", func() error {
			if c.leader(cl) == third {
				return nil
			}
			out, err := exec.Command("ip", "netns", "exec", c.nodes[4].netns, moldau, "quorum", "handover", "--bootstrap-server", c.nodes[4].address(), "--to", "3").CombinedOutput()
			return fmt.Errorf("%s%v", out, err)
		})
		before := k.count()
		c.until("topics while the third leads", func() error { return more(k, before+20) })
	}
	lead()
	// It moves.
	third.signal(15)
	w.ip("-n", third.netns, "addr", "del", address(3)+"/24", "dev", "eth0")
	w.ip("-n", third.netns, "addr", "add", address(33)+"/24", "dev", "eth0")
	text, err := os.ReadFile(third.file())
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace(string(text), "listeners=CONTROLLER://"+address(3)+":", "listeners=CONTROLLER://"+address(33)+":", 1)
	if err := os.WriteFile(third.file(), []byte(moved), 0o644); err != nil {
		t.Fatal(err)
	}
	third.start()
	before := k.count()
	c.until("topics while it is unreachable", func() error { return more(k, before+20) })
	everywhere(address(33))
	at := time.Now()
	c.until("the third caught up at its new address", func() error { return caughtUp(c, cl, third) })
	lead()
	t.Logf("it led %v after its name was changed", time.Since(at))
	k.check(t)
}
