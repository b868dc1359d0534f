package server_test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// threeListeners are the settings of a node whose listener HIDDEN nobody is told of.
var threeListeners = []string{
	"listeners=PLAINTEXT://127.0.0.1:0,HIDDEN://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
	"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,HIDDEN:PLAINTEXT,EXTRA:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL",
	"advertised.listeners=PLAINTEXT://127.0.0.1:0",
}

const bothListen = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"

func (n *node) await(what string, true func() bool) {
	n.t.Helper()
	for end := time.Now().Add(patience); !true(); runtime.Gosched() {
		if time.Now().After(end) {
			n.t.Fatalf("%s\n%s", what, n.log)
		}
	}
}

func (n *node) logged(text string) func() bool {
	return func() bool { return strings.Contains(n.log.String(), text) }
}

// opened waits until a listener is open, or is not, and gives a way to reach it.
func (n *node) opened(name string, open bool) string {
	n.t.Helper()
	n.await(fmt.Sprintf("%s open: %v", name, !open), func() bool { return (n.s.Address(name) != nil) == open })
	if !open {
		return ""
	}
	return n.s.Address(name).String()
}

// listen sets what a broker listens on at run time; "" deletes it.
func (c *client) listen(text string, want kafka.ErrorCode) {
	c.t.Helper()
	op := kmsg.IncrementalAlterConfigOpSet
	if text == "" {
		op = kmsg.IncrementalAlterConfigOpDelete
	}
	c.alter(4, "1", "listeners", text, op, want)
}

// brokers are what Metadata tells of brokers, and of the leader of a topic.
func (c *client) brokers(topic string) string {
	c.t.Helper()
	return c.brokersIn(12, topic)
}

func (c *client) brokersIn(version int16, topic string) string {
	c.t.Helper()
	m := call[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: &topic}}}, version)
	out := ""
	for _, b := range m.Brokers {
		out += fmt.Sprintf("%d %s:%d ", b.NodeID, b.Host, b.Port)
	}
	for _, p := range m.Topics[0].Partitions {
		out += fmt.Sprintf("leader %d %s", p.Leader, kafka.ErrorCode(p.ErrorCode))
		if version == 0 {
			out += fmt.Sprintf(" of %v", p.Replicas)
		}
	}
	return out
}

// Listeners come and go without a restart: a new one serves, one that is gone
// refuses and has closed its connections, those of others live on; after a restart
// what is stored is in force, and deleting it brings back what the properties say.
// Fails if apply does not open or drop, if follow does not tell ports, or if
// register does not apply.
func TestListenersComeAndGo(t *testing.T) {
	n := start(t, threeListeners...)
	c := n.dial()
	c.create("t", 1)
	was := n.opened("HIDDEN", true)
	hidden := dialTo(t, was)
	hidden.alive()
	c.listen("PLAINTEXT://127.0.0.1:0,HIDDEN://127.0.0.1:0,CONTROLLER://127.0.0.1:0,EXTRA://127.0.0.1:0", 0)
	extra := dialTo(t, n.opened("EXTRA", true))
	if got := extra.brokers("t"); got != "leader -1 LISTENER_NOT_FOUND" { // as Kafka: it is not advertised
		t.Errorf("over the new listener: %s", got)
	}
	extra.mustProduce("t", batchOf("over the new listener"))
	hidden.alive()
	c.listen(bothListen+",EXTRA://127.0.0.1:0", 0)
	hidden.closed("the listener is gone")
	n.opened("HIDDEN", false)
	if conn, err := net.Dial("tcp", was); err == nil {
		conn.Close()
		t.Error("the port of a listener that is gone is open")
	}
	c.wantValues("t", 0, "over the new listener")
	extra.alive()
	if v, s, _ := c.describedAs(4, "1", "listeners"); v != bothListen+",EXTRA://127.0.0.1:0" || s != 2 {
		t.Errorf("described as %s from %d", v, s)
	}
	n.restart()
	c = n.dial()
	if n.s.Address("HIDDEN") != nil || n.s.Address("EXTRA") == nil {
		t.Error("after a restart the properties count")
	}
	extra = dialTo(t, n.opened("EXTRA", true))
	extra.wantValues("t", 0, "over the new listener")
	c.listen("", 0)
	extra.closed("the listener is gone")
	dialTo(t, n.opened("HIDDEN", true)).alive()
	n.opened("EXTRA", false)
	c.alive()
	if strings.Contains(n.log.String(), "level=ERROR") {
		t.Error(n.log)
	}
}

// Over a listener that is not advertised there are no brokers and no leaders, said as
// each version of Kafka's answers says it. Fails without a case of version in
// describe, if the pager asks for an error, or if anyBroker takes any.
func TestAskedOverAListenerThatIsNotAdvertised(t *testing.T) {
	n := start(t, threeListeners...)
	c := n.dial()
	c.create("t", 1)
	hidden := dialTo(t, n.opened("HIDDEN", true))
	for version, want := range map[int16]string{
		0: "leader -1 LEADER_NOT_AVAILABLE of []", 5: "leader -1 LEADER_NOT_AVAILABLE", 6: "leader -1 LISTENER_NOT_FOUND",
	} {
		if got := hidden.brokersIn(version, "t"); got != want {
			t.Errorf("version %d: %s, want %s", version, got, want)
		}
	}
	if got := c.brokersIn(0, "t"); !strings.HasSuffix(got, "leader 1 NONE of [1]") {
		t.Errorf("over the listener that is: %s", got)
	}
	if r := call[*kmsg.DescribeClusterResponse](hidden, &kmsg.DescribeClusterRequest{EndpointType: 1}, 2); r.ControllerID != -1 || len(r.Brokers) != 0 {
		t.Errorf("%+v", r)
	}
	p := call[*kmsg.DescribeTopicPartitionsResponse](hidden, &kmsg.DescribeTopicPartitionsRequest{ResponsePartitionLimit: 9}, 0).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != -1 {
		t.Errorf("%+v", p)
	}
}

// What Kafka refuses is refused, by both requests, and nothing opens or closes; nor
// does it when a change is only validated. Fails without checkListeners.
func TestListenersAreChecked(t *testing.T) {
	n := start(t, threeListeners...)
	c := n.dial()
	for _, text := range []string{
		"CONTROLLER://127.0.0.1:0", "PLAINTEXT://127.0.0.1:0", bothListen + ",OTHER://127.0.0.1:0", bothListen + ",SECURE://127.0.0.1:0",
		bothListen + ",EXTRA://127.0.0.1", bothListen + ",PLAINTEXT://127.0.0.1:0", bothListen + ",EXTRA://127.0.0.1:1,HIDDEN://127.0.0.1:1",
	} {
		c.listen(text, kafka.ErrInvalidRequest)
		r := replacementOf("1", "listeners", text)
		wantCode(t, text, call[*kmsg.AlterConfigsResponse](c, r, 2).Resources[0].ErrorCode, kafka.ErrInvalidRequest)
	}
	c.alter(4, "1", "listener.security.protocol.map", "PLAINTEXT:SSL,HIDDEN:PLAINTEXT,CONTROLLER:PLAINTEXT", 0, kafka.ErrInvalidRequest)
	c.alter(4, "1", "principal.builder.class", "x.Y", 0, kafka.ErrInvalidRequest)
	c.alter(4, "", "listeners", bothListen, 0, kafka.ErrInvalidRequest)
	only := alterationOf(4, "1", "listeners", bothListen+",EXTRA://127.0.0.1:0", 0)
	only.ValidateOnly = true
	wantCode(t, "validate only", call[*kmsg.IncrementalAlterConfigsResponse](c, only, 1).Resources[0].ErrorCode, 0)
	// A later change that is carried out shows that none of the above was.
	c.alter(4, "1", "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,HIDDEN:PLAINTEXT,NEW:PLAINTEXT,CONTROLLER:PLAINTEXT", 0, 0)
	c.listen("PLAINTEXT://127.0.0.1:0,HIDDEN://127.0.0.1:0,CONTROLLER://127.0.0.1:0,NEW://127.0.0.1:0", 0)
	n.opened("NEW", true)
	for _, name := range []string{"EXTRA", "OTHER", "SECURE"} {
		n.opened(name, false)
	}
	dialTo(t, n.opened("HIDDEN", true)).alive()
}

func replacementOf(broker, key, value string) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = 4, broker
	s := kmsg.NewAlterConfigsRequestResourceConfig()
	s.Name, s.Value = key, &value
	r.Configs = append(r.Configs, s)
	req.Resources = append(req.Resources, r)
	return req
}

// A port that is in use is told in the log, and the node goes on, also at its next
// start; it is tried again when the setting changes. Fails if openPort's error ends
// the node, or if apply keeps a listener that has failed.
func TestListenerWhosePortIsInUse(t *testing.T) {
	n := start(t, threeListeners...)
	c := n.dial()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	extra := bothListen + ",EXTRA://" + taken.Addr().String()
	c.listen(extra, 0)
	n.await("nothing is said", n.logged("a listener cannot be opened; free its port"))
	n.opened("HIDDEN", false)
	c.alive()
	n.restart()
	n.await("nothing is said after a restart", func() bool { return strings.Count(n.log.String(), "a listener cannot be opened") == 2 })
	c = n.dial()
	must(t, taken.Close())
	c.listen(bothListen, 0)
	c.listen(extra, 0)
	dialTo(t, n.opened("EXTRA", true)).alive()
}

// Limits of a listener are those of the one that was added, and the listener of
// other brokers is protected as soon as clients have another. Fails if limitsOf
// reads the listeners of the properties.
func TestLimitsOfAListenerThatWasAdded(t *testing.T) {
	n := start(t, threeListeners[1], threeListeners[2])
	c := n.dial()
	c.alter(4, "1", "listener.name.extra.max.connections", "1", 0, 0)
	c.listen(bothListen+",EXTRA://127.0.0.1:0", 0)
	address := n.opened("EXTRA", true)
	extra := dialTo(t, address)
	extra.alive()
	dialTo(t, address)
	n.await("the limit of the listener lets a second connection in", func() bool { return n.s.Held() == 1 })
	c.alter(4, "1", "max.connections", "2", 0, 0)
	n.dial().alive() // of other brokers, perhaps
	extra.closed("a client makes room")
}

// Without advertised.listeners a listener that was added is told to others from the
// next start on, and none can be removed. An address changes at a start only. Fails
// if reached takes what the properties say, if apply moves a listener that is served,
// or if drop leaves one open that is only held.
func TestListenersThatAreAdvertised(t *testing.T) {
	n := start(t, threeListeners[1])
	c := n.dial()
	c.create("t", 1)
	c.listen("PLAINTEXT://127.0.0.2:0,CONTROLLER://127.0.0.3:0,EXTRA://127.0.0.1:0", 0)
	if got := dialTo(t, n.opened("EXTRA", true)).brokers("t"); got != "leader -1 LISTENER_NOT_FOUND" {
		t.Errorf("over a listener of which nobody has been told: %s", got)
	}
	n.await("nothing is said", n.logged("keeps its address until the next start"))
	c.listen(bothListen, kafka.ErrInvalidRequest)
	c.listen("", kafka.ErrInvalidRequest)
	c.alive()
	was := n.addr
	n.restart()
	if conn, err := net.Dial("tcp", was); err == nil {
		conn.Close()
		t.Error("the address that the properties say is open as well")
	}
	for _, name := range []string{"PLAINTEXT", "EXTRA"} {
		address := n.opened(name, true)
		if got := dialTo(t, address).brokers("t"); got != "1 "+address+" leader 1 NONE" {
			t.Errorf("over %s at %s: %s", name, address, got)
		}
	}
	if host, _, _ := net.SplitHostPort(n.addr); host != "127.0.0.2" || !strings.HasPrefix(n.ctl, "127.0.0.1:") {
		t.Errorf("clients at %s, controllers at %s", n.addr, n.ctl)
	}
}

// Stored settings that do not go together with a changed properties file do not
// count, and the log says so; they can be deleted. Fails if want takes them.
func TestStoredListenersThatDoNotFit(t *testing.T) {
	n := start(t, threeListeners...)
	n.dial().listen(bothListen+",EXTRA://127.0.0.1:0", 0)
	n.opened("EXTRA", true)
	must(t, n.stop())
	n.c = configOf(t, n.dir, threeListeners[0], "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,HIDDEN:PLAINTEXT,CONTROLLER:PLAINTEXT", threeListeners[2])
	n.up()
	n.opened("EXTRA", false)
	dialTo(t, n.opened("HIDDEN", true)).alive()
	if !n.logged("do not go together with the properties file")() {
		t.Errorf("nothing is said\n%s", n.log)
	}
	c := n.dial()
	c.alter(4, "1", "max.connections", "500", 0, kafka.ErrInvalidRequest) // as Kafka
	c.listen("", 0)
	c.alter(4, "1", "max.connections", "500", 0, 0)
}
