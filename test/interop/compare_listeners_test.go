package interop

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ported writes a value with a node's ports: BOTH stands for the listeners that it
// has, PORT, CTL and MORE for its ports.
func (n *node) ported(text string) string {
	text = strings.ReplaceAll(text, "BOTH", "PLAINTEXT://127.0.0.1:PORT,CONTROLLER://127.0.0.1:CTL")
	return strings.NewReplacer("PORT", fmt.Sprint(n.port), "CTL", fmt.Sprint(n.ctl), "MORE", fmt.Sprint(n.more)).Replace(text)
}

// alterBroker sets settings of the broker, key=value;key=value, with its own ports.
func alterBroker(text string) func(*side, int16) kmsg.Request {
	return func(s *side, _ int16) kmsg.Request {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
		for _, kv := range strings.Split(s.n.ported(text), ";") {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			key, value, _ := strings.Cut(kv, "=")
			c.Name, c.Value = key, &value
			r.Configs = append(r.Configs, c)
		}
		return &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{r}}
	}
}

// listenerChecks are changes of listeners that are taken or refused, validated only.
// What only one of the two can serve (protocols, ports beyond 65535) is not here.
func listenerChecks() []compareCase {
	const broker, app, sub = kmsg.ConfigResourceTypeBroker, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	var cases []compareCase
	for _, text := range []string{
		"listeners=BOTH,EXTRA://127.0.0.1:MORE", "listeners=BOTH,EXTRA://127.0.0.1:0,NEW://:0", "listeners=BOTH,extra://127.0.0.1:MORE",
		"listeners=PLAINTEXT://127.0.0.1:PORT", "listeners=CONTROLLER://127.0.0.1:CTL", "listeners=EXTRA://127.0.0.1:PORT,CONTROLLER://127.0.0.1:CTL",
		"listeners=BOTH,OTHER://127.0.0.1:MORE", "listeners=BOTH,EXTRA://127.0.0.1:PORT", "listeners=BOTH,EXTRA://127.0.0.2:PORT", "listeners=BOTH,EXTRA://[::1]:PORT",
		"listeners=BOTH,EXTRA://localhost:PORT", "listeners=BOTH,EXTRA://:PORT", "listeners=BOTH,EXTRA://0.0.0.0:MORE", "listeners=BOTH,PLAINTEXT://127.0.0.1:MORE",
		"listeners=BOTH,plaintext://127.0.0.1:MORE", "listeners=BOTH,CONTROLLER://127.0.0.1:CTL", "listeners=BOTH,EXTRA", "listeners=BOTH,EXTRA://127.0.0.1",
		"listeners=BOTH,EXTRA://127.0.0.1:x", "listeners=BOTH,EXTRA://127.0.0.1:99999999999", "listeners=BOTH,EXTRA://ba_d!host:MORE",
		"listeners=BOTH,EXTRA://no.such.host.invalid:MORE", "listeners=BOTH,EXTRA://::1:MORE", "listeners=BOTH,://127.0.0.1:MORE", "listeners=BOTH,", "listeners=",
		"listeners=nonsense", "listeners=PLAINTEXT://127.0.0.1:MORE,CONTROLLER://127.0.0.1:CTL", "listeners=PLAINTEXT://127.0.0.1:PORT,CONTROLLER://127.0.0.1:MORE",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT", "listener.security.protocol.map=PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,X:SASL_SSL",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,X:Y", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,X",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,", "listener.security.protocol.map=", "listener.security.protocol.map=plaintext:plaintext,controller:plaintext",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,plaintext:PLAINTEXT",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,X:PLAINTEXT;listeners=BOTH,X://127.0.0.1:MORE",
		"listener.name.plaintext.foo.bar=x;listeners=BOTH,EXTRA://127.0.0.1:MORE", "listener.name.controller.foo.bar=x;listeners=BOTH,EXTRA://127.0.0.1:MORE",
		"listener.name.extra.foo.bar=x;listeners=BOTH,EXTRA://127.0.0.1:MORE", "listener.name.plaintext.max.connections=90;listeners=BOTH,EXTRA://127.0.0.1:MORE",
		"listener.name.plaintext.sasl.enabled.mechanisms=PLAIN;listeners=BOTH,EXTRA://127.0.0.1:MORE", "listener.name.plaintext.sasl.enabled.mechanisms=PLAIN",
		"listener.name.plaintext.foo.bar=x;max.connections=500", "listener.name.plaintext.foo.bar=x;max.connections.per.ip=500", "inter.broker.listener.name=EXTRA",
	} {
		cases = append(cases, compareCase{name: "check " + text, from: 1, to: 1, req: validateOnly(alterBroker(text))})
	}
	for _, q := range []struct {
		name string
		op   kmsg.IncrementalAlterConfigOp
		key  string
	}{{"append", app, "listeners"}, {"subtract", sub, "listeners"}, {"append to the map", app, "listener.security.protocol.map"}} {
		cases = append(cases, compareCase{name: q.name, from: 1, to: 1, req: validateOnly(alter(broker, "1", q.key, q.op, ptr("EXTRA://127.0.0.1:1")))})
	}
	for _, kv := range [][2]string{{"listeners", "PLAINTEXT://127.0.0.1:1"}, {"listener.security.protocol.map", "PLAINTEXT:PLAINTEXT"}, {"listener.name.plaintext.foo.bar", "x"}} {
		cases = append(cases, compareCase{name: "of all " + kv[0], from: 1, to: 1, req: validateOnly(alter(broker, "", kv[0], kmsg.IncrementalAlterConfigOpSet, &kv[1]))})
	}
	return append(cases, compareCase{name: "AlterConfigs bad", from: 2, to: 2, req: replaceConfigs(broker, "1", "listeners", "CONTROLLER://127.0.0.1:1")})
}

// compareListeners adds a listener at run time to both servers, asks over it, and
// takes it away again.
func compareListeners(t *testing.T, kafka, moldau *side, known []difference) {
	compare(t, kafka, moldau, listenerChecks(), known)
	described := func(name string, source int8) compareCase { // Kafka applies settings after it has answered
		return compareCase{name: "DescribeConfigs " + name, from: 4, to: 4,
			req: describeConfigs(kmsg.ConfigResourceTypeBroker, "1", []string{"listeners", "listener.security.protocol.map"}, true),
			until: func(r kmsg.Response) bool {
				for _, c := range r.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
					if c.Name == "listeners" {
						return int8(c.Source) == source && strings.Contains(*c.Value, "EXTRA") == strings.Contains(name, "added")
					}
				}
				return true
			}}
	}
	cluster := func(*side, int16) kmsg.Request { return &kmsg.DescribeClusterRequest{EndpointType: 1} }
	find := func(_ *side, v int16) kmsg.Request {
		return &kmsg.FindCoordinatorRequest{CoordinatorKey: "g", CoordinatorKeys: []string{"g"}}
	}
	later := []compareCase{
		{name: "add a listener", from: 1, to: 1, req: alterBroker("listeners=BOTH,EXTRA://127.0.0.1:MORE;listener.name.extra.max.connections=50")},
		described("added", 2),
		{name: "Metadata over it", from: 0, to: 13, later: true, req: metadataOf("one", "three", "nobody")},
		{name: "Metadata of all over it", from: 0, to: 13, later: true, req: metadataOf()},
		{name: "DescribeCluster over it", from: 0, to: 2, later: true, req: cluster},
		{name: "FindCoordinator over it", from: 0, to: 6, later: true, req: find},
		{name: "DescribeTopicPartitions over it", from: 0, to: 0, later: true, ordered: true, req: pages(nil, 2000)},
		{name: "Produce over it", from: 3, to: 13, later: true, req: produceTo("one", 0, plain("over it").bytes())},
		{name: "Fetch over it", from: 4, to: 18, later: true, req: fetchOf("one", 0, 1)},
		{name: "what exists keeps its protocol", from: 1, to: 1, req: validateOnly(alterBroker("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTRA:SSL"))},
		{name: "what exists keeps its settings", from: 1, to: 1, req: validateOnly(alterBroker("listener.name.extra.foo.bar=x;max.connections=500"))},
		{name: "what exists may go", from: 1, to: 1, req: validateOnly(alterBroker("listeners=BOTH,NEW://127.0.0.1:0"))},
	}
	compare(t, kafka, moldau, later, known)
	compare(t, kafka, moldau, []compareCase{
		{name: "take it away", from: 1, to: 1, req: alterBroker("listeners=BOTH")},
		described("gone", 2),
	}, known)
	for _, s := range []*side{kafka, moldau} {
		if s.later == nil {
			t.Fatal("no connection over the listener that was added")
		}
		s.later.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := s.later.frame(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection over a listener that is gone: %v", s.n.proc.name, err)
		}
		for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
			c, err := dialRaw(fmt.Sprintf("127.0.0.1:%d", s.n.more))
			if err != nil {
				break
			}
			c.Close()
			if time.Now().After(end) {
				t.Fatalf("%s: the listener that is gone accepts", s.n.proc.name)
			}
		}
	}
	compare(t, kafka, moldau, []compareCase{
		{name: "unset listeners", from: 1, to: 1, settle: true, req: alter(kmsg.ConfigResourceTypeBroker, "1", "listeners", kmsg.IncrementalAlterConfigOpDelete, nil)},
		{name: "unset its limit", from: 1, to: 1, settle: true, req: alter(kmsg.ConfigResourceTypeBroker, "1", "listener.name.extra.max.connections", kmsg.IncrementalAlterConfigOpDelete, nil)},
		described("unset", 4),
	}, known)
}
