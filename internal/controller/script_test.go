package controller

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print into them")

var noOps = regexp.MustCompile(`batch at \d+\n  NoOpRecord v0\n`)

// TestScripts runs testdata/*.txt: a command line, "----", what it prints, and
// an empty line. -rewrite fills in the output, to be read before committing.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runScript(t, f) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, strings.Contains(string(text), "# ELR is on."))
	var result strings.Builder
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			result.WriteString(line + "\n")
			continue
		}
		var want strings.Builder
		if i+1 < len(lines) && lines[i+1] == "----" {
			for i += 2; i < len(lines) && lines[i] != ""; i++ {
				want.WriteString(lines[i] + "\n")
			}
		}
		h.out.Reset()
		h.command(line)
		result.WriteString(line + "\n----\n" + h.out.String())
		result.WriteString("\n")
		if i+1 < len(lines) && lines[i+1] == "" {
			i++ // written already
		}
		if !*rewrite && h.out.String() != want.String() {
			t.Errorf("%s:%d: %s\ngot:\n%swant:\n%s", file, i+1, line, h.out.String(), want.String())
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.TrimRight(result.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// command runs one line: a word and key=value pairs, or a request as
// "Name version {json}".
func (h *harness) command(line string) {
	word, rest, _ := strings.Cut(line, " ")
	args := map[string]string{}
	for _, a := range strings.Fields(rest) {
		k, v, _ := strings.Cut(a, "=")
		args[k] = v
	}
	num := func(name string, def int64) int64 {
		if args[name] == "" {
			return def
		}
		n, err := strconv.ParseInt(args[name], 10, 64)
		if err != nil {
			h.t.Fatalf("%s: %v", line, err)
		}
		return n
	}
	switch word {
	case "leader":
		h.step(BecameLeader{Epoch: kafka.Epoch(num("epoch", 1))})
	case "commit":
		h.commit()
	case "resign":
		h.resign()
	case "advance":
		h.advance(time.Duration(num("ms", 0)) * time.Millisecond)
		if args["noops"] == "hidden" {
			kept := noOps.ReplaceAllString(h.out.String(), "")
			h.out.Reset()
			h.out.WriteString(kept)
		}
	case "register":
		h.step(Request{Token: 1, Body: registerRequest(num, args)})
	case "heartbeat":
		req := kmsg.NewPtrBrokerHeartbeatRequest()
		req.BrokerID = int32(num("id", 1))
		b := h.tip.Broker(kafka.NodeID(req.BrokerID))
		if b != nil {
			req.BrokerEpoch = int64(b.Epoch)
		}
		req.BrokerEpoch = num("epoch", req.BrokerEpoch)
		req.CurrentMetadataOffset = num("offset", int64(h.next()-1))
		_, req.WantFence = args["fence"]
		_, req.WantShutdown = args["shutdown"]
		if v, ok := args["offline"]; ok {
			req.OfflineLogDirs = [][16]byte{dirID(h.t, v)}
		}
		h.step(Request{Token: 2, Body: req})
	case "alterpartition":
		h.step(Request{Token: 4, Body: h.alterRequest(num, args)})
	case "assign":
		h.step(Request{Token: 5, Body: h.assignRequest(num, args)})
	case "partitions":
		h.printPartitions()
	case "brokers":
		h.tip.EachBroker(func(b *metadata.Broker) bool {
			h.printf("%d epoch=%d fenced=%v shutting-down=%v\n", b.ID, b.Epoch, b.Fenced, b.InControlledShutdown)
			return true
		})
	default:
		h.request(word, rest)
	}
}

func dirID(t testing.TB, s string) (d [16]byte) {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	d[0], d[1] = 0xd0, byte(n)
	return d
}

func registerRequest(num func(string, int64) int64, args map[string]string) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = 4
	req.ClusterID = "cluster"
	if v, ok := args["cluster"]; ok {
		req.ClusterID = v
	}
	req.BrokerID = int32(num("id", 1))
	req.IncarnationID = [16]byte{1, byte(num("inc", 1))}
	req.PreviousBrokerEpoch = num("previous", -1)
	if v, ok := args["rack"]; ok {
		req.Rack = &v
	}
	for i := range num("dirs", 1) {
		req.LogDirs = append(req.LogDirs, [16]byte{0xd0, byte(num("firstdir", int64(req.BrokerID)*10) + i)})
	}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "h", 9092
	req.Listeners = append(req.Listeners, l)
	for _, f := range []kmsg.BrokerRegistrationRequestFeature{{Name: "metadata.version", MinSupportedVersion: 7, MaxSupportedVersion: int16(num("mv", 33))},
		{Name: "eligible.leader.replicas.version", MaxSupportedVersion: 1}, {Name: "group.version", MaxSupportedVersion: 1}} {
		req.Features = append(req.Features, f)
	}
	return req
}

// request decodes "Name version {json}" into the kmsg struct.
func (h *harness) request(name, rest string) {
	version, body, _ := strings.Cut(rest, " ")
	v, err := strconv.Atoi(version)
	if err != nil {
		h.t.Fatalf("%s %s: %v", name, rest, err)
	}
	for key := range int16(kmsg.MaxKey + 1) {
		if kmsg.NameForKey(key) != name {
			continue
		}
		req := kmsg.RequestForKey(key)
		if err := json.Unmarshal([]byte(body), req); err != nil {
			h.t.Fatalf("%s: %v", body, err)
		}
		req.SetVersion(int16(v))
		h.step(Request{Token: 3, Body: req})
		return
	}
	h.t.Fatalf("unknown command or request %q", name)
}

func (h *harness) printPartitions() {
	h.tip.EachTopic(func(t metadata.Topic) bool {
		t.Each(func(p metadata.Partition) bool {
			h.printf("%s-%d leader=%d epoch=%d/%d replicas=%v isr=%v elr=%v last=%v recovery=%d\n",
				t.Name(), p.ID, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.Replicas, p.ISR, p.ELR, p.LastKnownELR, p.Recovery)
			return true
		})
		return true
	})
}

// alterRequest asks as a leader would: with its own broker epoch and those that
// it knows of the others.
func (h *harness) alterRequest(num func(string, int64) int64, args map[string]string) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = 3
	req.BrokerID = int32(num("broker", 1))
	req.BrokerEpoch = int64(h.tip.Broker(kafka.NodeID(req.BrokerID)).Epoch)
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.LeaderEpoch, p.PartitionEpoch = int32(num("leaderepoch", 0)), int32(num("partitionepoch", 0))
	for _, n := range strings.Split(args["isr"], ",") {
		id, err := strconv.Atoi(n)
		if err != nil {
			h.t.Fatal(err)
		}
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		m.BrokerID = int32(id)
		if b := h.tip.Broker(kafka.NodeID(id)); b != nil {
			m.BrokerEpoch = int64(b.Epoch) - num("stale", 0)
		}
		p.NewEpochISR = append(p.NewEpochISR, m)
	}
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID = h.tip.TopicByName(args["topic"]).ID()
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (h *harness) assignRequest(num func(string, int64) int64, args map[string]string) *kmsg.AssignReplicasToDirsRequest {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID = int32(num("broker", 1))
	req.BrokerEpoch = int64(h.tip.Broker(kafka.NodeID(req.BrokerID)).Epoch)
	p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
	p.Partition = int32(num("partition", 0))
	t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
	t.TopicID = h.tip.TopicByName(args["topic"]).ID()
	t.Partitions = append(t.Partitions, p)
	d := kmsg.NewAssignReplicasToDirsRequestDirectory()
	d.ID = dirID(h.t, args["dir"])
	d.Topics = append(d.Topics, t)
	req.Directories = append(req.Directories, d)
	return req
}
