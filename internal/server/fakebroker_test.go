package server_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/handler"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/server"
)

// fakeBroker speaks for broker 99 over a controller listener.
type fakeBroker struct {
	*client
	n     *node
	epoch int64
}

func (n *node) fakeBroker() *fakeBroker { return &fakeBroker{client: dialTo(n.t, n.ctl), n: n} }

func (f *fakeBroker) registration(incarnation byte) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.IncarnationID, req.PreviousBrokerEpoch = 99, f.n.s.ClusterID(), [16]byte{9, incarnation}, -1
	req.LogDirs = [][16]byte{{0xd9, 9}}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "127.0.0.1", 1
	req.Listeners = append(req.Listeners, l)
	for _, s := range server.Features() {
		m := kmsg.NewBrokerRegistrationRequestFeature()
		m.Name, m.MinSupportedVersion, m.MaxSupportedVersion = s.Name, s.Min, s.Max
		req.Features = append(req.Features, m)
	}
	return req
}

func (f *fakeBroker) register(incarnation byte) kafka.ErrorCode {
	f.t.Helper()
	resp := call[*kmsg.BrokerRegistrationResponse](f.client, f.registration(incarnation), 4)
	if resp.ErrorCode == 0 {
		f.epoch = resp.BrokerEpoch
	}
	return kafka.ErrorCode(resp.ErrorCode)
}

func (f *fakeBroker) beat(epoch int64) *kmsg.BrokerHeartbeatResponse {
	f.t.Helper()
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch = 99, epoch
	req.CurrentMetadataOffset = int64(f.n.s.Image().Provenance().EndOffset)
	return call[*kmsg.BrokerHeartbeatResponse](f.client, req, 2)
}

// until waits for the committed metadata to be so.
func (n *node) until(what string, ok func(*metadata.Image) bool) {
	n.t.Helper()
	tick, end := time.NewTicker(time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !ok(n.s.Image()) {
		select {
		case <-tick.C:
		case <-end:
			n.t.Fatalf("never: %s\n%s", what, n.log)
		}
	}
}

// HC-048, over the wire: the same process keeps its epoch, a new one gets
// another, and the old one's heartbeats are stale. A process that dies is fenced
// long before its session ends, and may come back at once (HC-049).
func TestHC048BrokerOverTheControllerListener(t *testing.T) {
	n := start(t, "broker.session.timeout.ms=3600000")
	f := n.fakeBroker()
	wrong := f.registration(1)
	wrong.ClusterID = "another cluster, surely"
	if r := call[*kmsg.BrokerRegistrationResponse](f.client, wrong, 4); kafka.ErrorCode(r.ErrorCode) != kafka.ErrInconsistentClusterID {
		t.Errorf("HC-052: %s", kafka.ErrorCode(r.ErrorCode))
	}
	if code := f.register(1); code != 0 {
		t.Fatal(code)
	}
	first := f.epoch
	if r := f.beat(first); r.ErrorCode != 0 || r.IsFenced {
		t.Fatalf("%+v", r)
	}
	if code := f.register(1); code != 0 || f.epoch != first || n.s.Image().Broker(99).Fenced {
		t.Errorf("the same process: %s, epoch %d then %d", code, first, f.epoch)
	}
	if code := f.register(2); code != kafka.ErrDuplicateBrokerRegistration {
		t.Errorf("another process: %s", code)
	}
	other := n.fakeBroker()
	if r := other.beat(first); r.IsFenced {
		t.Error("fenced over another connection")
	}
	f.conn.Close() // not the connection of the newest heartbeat
	if r := other.beat(first); r.IsFenced {
		t.Error("fenced for a connection that it had left")
	}
	other.conn.Close()
	n.until("a broker whose process died is fenced", func(img *metadata.Image) bool { return img.Broker(99).Fenced })
	f = n.fakeBroker()
	if code := f.register(2); code != 0 || f.epoch <= first {
		t.Errorf("restarted: %s, epoch %d after %d", code, f.epoch, first)
	}
	if r := f.beat(first); kafka.ErrorCode(r.ErrorCode) != kafka.ErrStaleBrokerEpoch {
		t.Errorf("heartbeat of the dead process: %s", kafka.ErrorCode(r.ErrorCode))
	}
	if r := f.beat(f.epoch); r.ErrorCode != 0 || r.IsFenced {
		t.Errorf("%+v", r)
	}
	ids := kmsg.NewPtrAllocateProducerIDsRequest()
	ids.BrokerID, ids.BrokerEpoch = 99, f.epoch
	if r := call[*kmsg.AllocateProducerIDsResponse](f.client, ids, 0); r.ErrorCode != 0 || r.ProducerIDLen != 1000 {
		t.Errorf("%+v", r)
	}
}

// The controller's listener takes what brokers forward, and UnregisterBroker
// reaches it from clients too.
func TestForwardedRequests(t *testing.T) {
	n := start(t)
	f := n.fakeBroker()
	if code := f.register(1); code != 0 {
		t.Fatal(code)
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.SetVersion(7)
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "forwarded", NumPartitions: 2, ReplicationFactor: 1}}
	e := handler.Wrap(create, handler.Caller{Host: "10.0.0.1", Principal: handler.Anonymous()})
	inner, err := handler.Unwrap(call[*kmsg.EnvelopeResponse](f.client, e, 0), create)
	must(t, err)
	if r := inner.(*kmsg.CreateTopicsResponse); r.Topics[0].ErrorCode != 0 || !n.s.Image().TopicByName("forwarded").Exists() {
		t.Errorf("%+v", r)
	}
	gone := kmsg.NewPtrUnregisterBrokerRequest()
	gone.BrokerID = 99
	if r := call[*kmsg.UnregisterBrokerResponse](n.dial(), gone, 0); r.ErrorCode != 0 || n.s.Image().Broker(99) != nil {
		t.Errorf("%+v", r)
	}
	if r := f.beat(f.epoch); kafka.ErrorCode(r.ErrorCode) != kafka.ErrStaleBrokerEpoch {
		t.Errorf("heartbeat of an unregistered broker: %s", kafka.ErrorCode(r.ErrorCode))
	}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "forwarded", Partitions: []int32{0}}}
	if r := call[*kmsg.ElectLeadersResponse](n.dial(), elect, 2); kafka.ErrorCode(r.Topics[0].Partitions[0].ErrorCode) != kafka.ErrElectionNotNeeded {
		t.Errorf("%+v", r)
	}
}

// A topic with a replica on a broker to which nothing is copied has its leader
// alone in sync, and says so; acks=all is then the leader's alone. Fails if the
// leader does not ask, or asks only once while the controller is away.
func TestLeaderIsAloneInSync(t *testing.T) {
	n := start(t)
	f := n.fakeBroker()
	if code := f.register(1); code != 0 {
		t.Fatal(code)
	}
	if r := f.beat(f.epoch); r.IsFenced {
		t.Fatalf("%+v", r)
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "wide", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{
		{Partition: 0, Replicas: []int32{1, 99}}, {Partition: 1, Replicas: []int32{99, 1}}}}}
	if r := call[*kmsg.CreateTopicsResponse](n.dial(), create, 7); r.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	n.until("the leader is alone in sync where it leads", func(img *metadata.Image) bool {
		p, ok := img.TopicByName("wide").Partition(0)
		return ok && p.Leader == 1 && len(p.ISR) == 1 && p.ISR[0] == 1 && len(p.Replicas) == 2
	})
	if p, _ := n.s.Image().TopicByName("wide").Partition(1); p.Leader != 99 || len(p.ISR) != 2 {
		t.Errorf("what another broker leads is its business: %+v", p)
	}
}
