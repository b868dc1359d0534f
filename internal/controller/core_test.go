package controller

import (
	"fmt"
	"math/rand"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

func quietHarness(t testing.TB, elr bool) *harness {
	h := newHarness(t, elr)
	h.quiet = true
	h.step(BecameLeader{Epoch: 1})
	return h
}

// run gives commands to the harness.
func (h *harness) run(lines ...string) {
	for _, l := range lines {
		h.command(l)
	}
}

func createTopics(partitions int32, rf int16, names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	for _, n := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = n, partitions, rf
		req.Topics = append(req.Topics, t)
	}
	return req
}

// Trap 3: the epoch of a new incarnation is the offset at which the decision
// was made, not that of its registration record, which comes after the
// clean-up. Fails if the epoch is taken after the clean-up records, or if a
// broker is unfenced before it has seen the record itself.
func TestTrap3BrokerEpochIsNextOffset(t *testing.T) {
	h := quietHarness(t, true)
	h.run("register id=1", "heartbeat id=1", "register id=2", "heartbeat id=2")
	req := createTopics(100, 2, "t")
	h.step(Request{Body: req})
	h.advance(10 * time.Second)
	decided := h.next()
	h.run("register id=2 inc=2")
	b := h.tip.Broker(2)
	if b.Epoch != kafka.BrokerEpoch(decided) {
		t.Errorf("epoch %d, want %d", b.Epoch, decided)
	}
	last := h.next() - 1
	if last == decided {
		t.Fatal("there was nothing to clean up")
	}
	h.run(fmt.Sprintf("heartbeat id=2 offset=%d", last-1))
	if !h.tip.Broker(2).Fenced {
		t.Error("unfenced before it saw its registration")
	}
	h.run(fmt.Sprintf("heartbeat id=2 offset=%d", last))
	if h.tip.Broker(2).Fenced {
		t.Error("still fenced")
	}
}

// HC-041: too much in one operation is refused before anything is written;
// the controller goes on. Fails if the bound is taken away.
func TestHC041OversizedOperations(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1", "heartbeat id=1")
	many := make([]string, 9000)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	end := h.next()
	for name, req := range map[string]*kmsg.CreateTopicsRequest{
		"one topic of a million": createTopics(1_000_000, 1, "t"),
		"9,000 topics":           createTopics(1, 1, many...), // 18,000 records
		"sum overflows int32":    createTopics(1<<31-1, 1, "a", "b", "c"),
	} {
		resp := h.step(Request{Body: req})[0].Body.(*kmsg.CreateTopicsResponse)
		if len(resp.Topics) != len(req.Topics) {
			t.Errorf("%s: %d results", name, len(resp.Topics))
		}
		for _, r := range resp.Topics {
			if r.ErrorCode != int16(kafka.ErrPolicyViolation) {
				t.Fatalf("%s: %s: error %d", name, r.Topic, r.ErrorCode)
			}
		}
	}
	for i := range 3 {
		h.step(Request{Body: createTopics(5000, 1, fmt.Sprint("big", i))})
	}
	before := h.next()
	unregister := kmsg.NewPtrUnregisterBrokerRequest()
	unregister.BrokerID = 1
	if r := h.step(Request{Body: unregister})[0].Body.(*kmsg.UnregisterBrokerResponse); r.ErrorCode != int16(kafka.ErrPolicyViolation) {
		t.Errorf("unregister: error %d", r.ErrorCode)
	}
	if h.next() != before || before-end != 3*5001 {
		t.Errorf("log grew from %d to %d to %d", end, before, h.next())
	}
	// Fencing is no user operation: it is split into bounded batches.
	h.advance(10 * time.Second)
	if b := h.tip.Broker(1); !b.Fenced || h.tip.Counts(1).Leaders != 0 {
		t.Error("the broker was not fenced")
	}
}

// HC-165: validate-only answers alike and writes nothing.
func TestHC165ValidateOnly(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1", "heartbeat id=1")
	h.step(Request{Body: createTopics(1, 1, "t")})
	for _, l := range []string{
		`CreateTopics 7 {"ValidateOnly":true,"Topics":[{"Topic":"n","NumPartitions":1,"ReplicationFactor":1}]}`,
		`CreatePartitions 3 {"ValidateOnly":true,"Topics":[{"Topic":"t","Count":4}]}`,
		`IncrementalAlterConfigs 1 {"ValidateOnly":true,"Resources":[{"ResourceType":"TOPIC","ResourceName":"t","Configs":[{"Name":"retention.ms","Op":"SET","Value":"1"}]}]}`,
		`AlterConfigs 2 {"ValidateOnly":true,"Resources":[{"ResourceType":"TOPIC","ResourceName":"t","Configs":[{"Name":"retention.ms","Value":"1"}]}]}`,
		`UpdateFeatures 1 {"ValidateOnly":true,"FeatureUpdates":[{"Feature":"group.version","MaxVersionLevel":1,"UpgradeType":1}]}`,
	} {
		before := h.next()
		h.command(l)
		if h.next() != before {
			t.Errorf("%s wrote %d records", l, h.next()-before)
		}
	}
}

// Decision 9: a combined node that becomes active does not take its own former
// self for alive, yet fences it if it does not come back.
func TestOwnGhostDoesNotDelayRegistration(t *testing.T) {
	for _, c := range []struct {
		id   int
		want int16
	}{{9, 0}, {1, int16(kafka.ErrDuplicateBrokerRegistration)}} {
		h := quietHarness(t, false)
		h.run(fmt.Sprintf("register id=%d", c.id), fmt.Sprintf("heartbeat id=%d", c.id))
		h.commit()
		h.resign()
		h.step(BecameLeader{Epoch: 2})
		num := func(name string, def int64) int64 {
			return map[string]int64{"id": int64(c.id), "inc": 2, "mv": 33, "dirs": 1}[name] + map[bool]int64{true: def}[name == "firstdir" || name == "previous"]
		}
		resp := h.step(Request{Body: registerRequest(num, nil)})[0].Body.(*kmsg.BrokerRegistrationResponse)
		if resp.ErrorCode != c.want {
			t.Errorf("broker %d: error %d, want %d", c.id, resp.ErrorCode, c.want)
		}
	}
	h := quietHarness(t, false)
	h.run("register id=9", "heartbeat id=9")
	h.commit()
	h.resign()
	h.step(BecameLeader{Epoch: 2})
	h.advance(10 * time.Second)
	if !h.tip.Broker(9).Fenced {
		t.Error("the ghost was never fenced")
	}
}

// HC-042: a transaction that the last leader left open is aborted.
func TestHC042OpenTransactionIsAborted(t *testing.T) {
	h := quietHarness(t, false)
	for _, m := range []record.Message{&record.BeginTransaction{}, &record.Topic{Name: "half", TopicID: kafka.TopicID{1}}} {
		d := metadata.NewDelta(h.tip)
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
		h.tail = append(h.tail, VersionedRecord{m, 0})
		h.tip = d.Apply(metadata.Provenance{EndOffset: h.next()})
	}
	h.commit()
	h.resign()
	h.step(BecameLeader{Epoch: 2})
	if h.tip.InTransaction() || h.tip.TopicByName("half").Exists() {
		t.Error("the transaction was not aborted")
	}
}

// HC-040, Trap 2: whatever was appended and not committed leaves no trace after
// Resigned: the state equals a replay of the committed log, and the core goes
// on as a new one would. Fails if the core keeps anything that the log should
// decide.
func TestHC040RevertEqualsReplayOfCommittedLog(t *testing.T) {
	commands := []string{
		"register id=1", "register id=2 rack=a", "register id=3 rack=b", "register id=1 inc=2",
		"heartbeat id=1", "heartbeat id=2", "heartbeat id=3", "heartbeat id=1", "heartbeat id=2", "heartbeat id=3",
		"heartbeat id=1 shutdown", "heartbeat id=2 fence", "advance ms=700", "advance ms=9500",
		`DeleteTopics 5 {"TopicNames":["t1"]}`, `CreatePartitions 3 {"Topics":[{"Topic":"t2","Count":5}]}`,
		`IncrementalAlterConfigs 1 {"Resources":[{"ResourceType":"TOPIC","ResourceName":"t2","Configs":[{"Name":"min.insync.replicas","Op":"SET","Value":"2"}]}]}`,
		`UnregisterBroker 0 {"BrokerID":3}`, `AllocateProducerIDs 0 {"BrokerID":1,"BrokerEpoch":5}`,
	}
	for seed := range int64(40) {
		rnd := rand.New(rand.NewSource(seed))
		h := quietHarness(t, seed%2 == 0)
		epoch := kafka.Epoch(1)
		topics := 0
		for range 120 {
			switch k := rnd.Intn(len(commands) + 6); {
			case k < len(commands):
				h.command(commands[k])
			case k < len(commands)+3:
				topics++
				h.step(Request{Body: createTopics(int32(1+rnd.Intn(4)), int16(1+rnd.Intn(3)), fmt.Sprint("t", topics))})
			case k < len(commands)+5:
				h.commit()
			default:
				h.resign()
				checkReplay(t, h)
				epoch++
				fresh := New(h.core.opts)
				fresh.Step(h.now, BecameLeader{Epoch: epoch}, h.tip, h.next(), &Effects{})
				h.step(BecameLeader{Epoch: epoch})
				if got, want := fmt.Sprintf("%+v", *h.core), fmt.Sprintf("%+v", *fresh); stripPointers(got) != stripPointers(want) || !reflect.DeepEqual(h.core.sessions, fresh.sessions) {
					t.Fatalf("the core remembers something:\n got %s\nwant %s", got, want)
				}
			}
			checkLeaders(t, h.tip)
		}
	}
}

var pointer = regexp.MustCompile(`0x[0-9a-f]+`)

func stripPointers(s string) string { return pointer.ReplaceAllString(s, "") }

// checkReplay replays the committed log into an empty image.
func checkReplay(t *testing.T, h *harness) {
	t.Helper()
	d := metadata.NewDelta(metadata.Empty())
	for _, r := range h.log {
		m, _, err := record.DecodeMetadata(record.AppendMetadata(nil, r.Message, r.Version))
		if err == nil {
			err = d.Replay(m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if d.Apply(metadata.Provenance{}).Hash() != h.tip.Hash() {
		t.Fatal("the state after Resigned is not that of the committed log")
	}
}

// checkLeaders: a leader is alive and in sync, and nobody else is fenced in.
func checkLeaders(t *testing.T, img *metadata.Image) {
	t.Helper()
	img.EachTopic(func(topic metadata.Topic) bool {
		topic.Each(func(p metadata.Partition) bool {
			if p.Leader == kafka.NoNode {
				return true
			}
			b := img.Broker(p.Leader)
			if b == nil || b.Fenced || !slices.Contains(p.ISR, p.Leader) {
				t.Fatalf("%s-%d is led by %d: broker %+v, partition %+v", topic.Name(), p.ID, p.Leader, b, p)
			}
			return true
		})
		return true
	})
}

// Replicas of a partition go to different racks, leaders are spread evenly.
func TestPlacementIsRackAwareAndEven(t *testing.T) {
	h := quietHarness(t, false)
	for id := 1; id <= 6; id++ {
		h.run(fmt.Sprintf("register id=%d rack=%c", id, 'a'+id%3), fmt.Sprintf("heartbeat id=%d", id))
	}
	h.step(Request{Body: createTopics(600, 3, "t")})
	h.tip.TopicByName("t").Each(func(p metadata.Partition) bool {
		racks := map[string]bool{}
		for _, n := range p.Replicas {
			racks[h.tip.Broker(n).Rack] = true
		}
		if len(racks) != 3 {
			t.Fatalf("partition %d: replicas %v in %d racks", p.ID, p.Replicas, len(racks))
		}
		return true
	})
	for id := kafka.NodeID(1); id <= 6; id++ {
		if c := h.tip.Counts(id); c.Leaders < 95 || c.Leaders > 105 || c.Replicas < 290 || c.Replicas > 310 {
			t.Errorf("broker %d: %+v", id, c)
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	h := quietHarness(b, false)
	h.run("register id=1", "heartbeat id=1")
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = 1, int64(h.tip.Broker(1).Epoch), 100
	var out Effects
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		h.core.Step(h.now, Request{Body: req}, h.tip, h.next(), &out)
	}
}
