package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// register registers a broker and gives error code and epoch of the answer.
func (h *harness) register(id, incarnation int64, previous int64) (int16, kafka.BrokerEpoch) {
	num := func(name string, def int64) int64 {
		switch name {
		case "id":
			return id
		case "inc":
			return incarnation
		case "previous":
			return previous
		}
		return def
	}
	r := h.step(Request{Body: registerRequest(num, nil)})[0].Body.(*kmsg.BrokerRegistrationResponse)
	return r.ErrorCode, kafka.BrokerEpoch(r.BrokerEpoch)
}

// HC-043: sessions that end at the same instant are judged one after the
// other. Fails if all expired brokers are fenced against the same image.
func TestHC043BrokersExpireTogether(t *testing.T) {
	for _, elr := range []bool{false, true} {
		h := quietHarness(t, elr)
		h.run("register id=1", "register id=2", "register id=3", "heartbeat id=1", "heartbeat id=2", "heartbeat id=3")
		h.step(Request{Body: createTopics(12, 3, "t")})
		h.advance(5 * time.Second)
		h.run("heartbeat id=3") // 1 and 2 will end together
		h.advance(5 * time.Second)
		h.tip.TopicByName("t").Each(func(p metadata.Partition) bool {
			if p.Leader != 3 || len(p.ISR) != 1 {
				t.Errorf("elr %v: partition %d: leader %d, ISR %v", elr, p.ID, p.Leader, p.ISR)
			}
			return true
		})
		checkLeaders(t, h.tip)
	}
}

// HC-048: the same process registers again and keeps epoch and state. Fails if
// every registration gets a new epoch.
func TestHC048SameIncarnationKeepsItsEpoch(t *testing.T) {
	h := quietHarness(t, false)
	_, first := h.register(1, 1, -1)
	h.run("heartbeat id=1")
	h.step(Request{Body: createTopics(3, 1, "t")})
	code, again := h.register(1, 1, -1)
	if code != 0 || again != first || h.tip.Broker(1).Fenced || h.tip.Counts(1).Leaders != 3 {
		t.Errorf("code %d, epoch %d then %d, fenced %v, %d leaderships", code, first, again, h.tip.Broker(1).Fenced, h.tip.Counts(1).Leaders)
	}
	h.advance(10 * time.Second)
	if _, other := h.register(1, 2, int64(first)); other <= first {
		t.Errorf("a new incarnation got epoch %d after %d", other, first)
	}
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch = 1, int64(first)
	if r := h.step(Request{Body: req})[0].Body.(*kmsg.BrokerHeartbeatResponse); r.ErrorCode != int16(kafka.ErrStaleBrokerEpoch) {
		t.Errorf("heartbeat of the old incarnation: %d", r.ErrorCode)
	}
}

// HC-049: how soon a restarted broker may come back. Fails if a clean shutdown
// leaves a session, or if fenced brokers get one when a controller starts.
func TestHC049RestartedBrokerComesBack(t *testing.T) {
	duplicate := int16(kafka.ErrDuplicateBrokerRegistration)
	h := quietHarness(t, false)
	h.run("register id=1", "heartbeat id=1")
	if code, _ := h.register(1, 2, -1); code != duplicate {
		t.Errorf("after kill -9 at once: %d", code)
	}
	h.advance(10 * time.Second)
	if code, _ := h.register(1, 2, -1); code != 0 {
		t.Errorf("after the session: %d", code)
	}
	h.run("heartbeat id=1", "heartbeat id=1 shutdown")
	if code, _ := h.register(1, 3, -1); code != 0 {
		t.Errorf("after a clean shutdown: %d", code)
	}
	h.commit()
	h.resign()
	h.step(BecameLeader{Epoch: 2})
	if code, _ := h.register(1, 4, -1); code != 0 {
		t.Errorf("fenced at the start of the controller: %d", code)
	}
}

// A reply that reads the tip is given at once by the core; what it rests on is
// visible in the order of effects: records before replies. Trap 1's waiting is
// the caller's.
func TestTrap1SecondCreateSeesTheTip(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1", "heartbeat id=1")
	h.step(Request{Body: createTopics(1, 1, "t")})
	r := h.step(Request{Body: createTopics(1, 1, "t")})[0].Body.(*kmsg.CreateTopicsResponse)
	if r.Topics[0].ErrorCode != int16(kafka.ErrTopicAlreadyExists) {
		t.Errorf("error %d", r.Topics[0].ErrorCode)
	}
	h.resign() // nothing was committed
	h.step(BecameLeader{Epoch: 2})
	h.run("register id=1", "heartbeat id=1")
	r = h.step(Request{Body: createTopics(1, 1, "t")})[0].Body.(*kmsg.CreateTopicsResponse)
	if r.Topics[0].ErrorCode != 0 {
		t.Errorf("after the revert: error %d", r.Topics[0].ErrorCode)
	}
}

func heartbeatOf(h *harness, id kafka.NodeID) *kmsg.BrokerHeartbeatRequest {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = int32(id), int64(h.tip.Broker(id).Epoch), int64(h.next()-1)
	return req
}

// fencedOf gives which of the brokers are fenced.
func fencedOf(h *harness, ids ...kafka.NodeID) (out []kafka.NodeID) {
	for _, id := range ids {
		if h.tip.Broker(id).Fenced {
			out = append(out, id)
		}
	}
	return out
}

// HC-050: what counts is when a heartbeat arrived. Fails if touch counts from
// the time of the step, if Contacts are ignored, or without stallGrace.
func TestHC050BusyControllerFencesNobody(t *testing.T) {
	setUp := func() *harness {
		h := quietHarness(t, false)
		h.run("register id=1", "register id=2", "register id=3", "heartbeat id=1", "heartbeat id=2", "heartbeat id=3")
		return h
	}
	arrived := func(h *harness, at kafka.Mono, ids ...kafka.NodeID) (c Contacts) {
		for _, id := range ids {
			c.List = append(c.List, Contact{Broker: id, Epoch: h.tip.Broker(id).Epoch, At: at})
		}
		return c
	}
	t.Run("heartbeats in the queue", func(t *testing.T) {
		h := setUp()
		began := h.now.Mono
		h.now.Mono = began.Add(12 * time.Second)
		h.step(arrived(h, began.Add(10*time.Second), 1, 2)) // 3 was silent; the loop stood still from 0 to 12
		h.step(DeadlineReached{})
		h.advance(2 * time.Second)
		if got := fencedOf(h, 1, 2, 3); !slices.Equal(got, []kafka.NodeID{3}) {
			t.Errorf("fenced: %v", got)
		}
		h.advance(6 * time.Second) // 20: contact was at 10, the session is 9
		if got := fencedOf(h, 1, 2, 3); len(got) != 3 {
			t.Errorf("fenced after their sessions: %v", got)
		}
	})
	t.Run("the process stood still", func(t *testing.T) {
		h := setUp()
		h.now.Mono = h.now.Mono.Add(12 * time.Second)
		h.step(DeadlineReached{})
		if got := fencedOf(h, 1, 2, 3); len(got) != 0 {
			t.Fatalf("fenced at once: %v", got)
		}
		h.run("heartbeat id=1", "heartbeat id=2")
		h.advance(stallGrace + time.Millisecond)
		if got := fencedOf(h, 1, 2, 3); !slices.Equal(got, []kafka.NodeID{3}) {
			t.Errorf("fenced after the grace: %v", got)
		}
	})
	t.Run("an old heartbeat is decided late", func(t *testing.T) {
		h := setUp()
		at := h.now.Mono
		h.now.Mono = at.Add(5 * time.Second)
		h.step(Request{Body: heartbeatOf(h, 1), Arrived: at.Add(time.Second)})
		h.advance(4*time.Second + 500*time.Millisecond)
		if got := fencedOf(h, 1); len(got) != 0 {
			t.Error("fenced before 10 s")
		}
		h.advance(time.Second)
		if got := fencedOf(h, 1); len(got) != 1 {
			t.Error("not fenced after 10 s")
		}
	})
}

// A broker whose process dies is fenced at once, one that only reconnects is
// not. Fails if the event is ignored, if a heartbeat does not take it back, or
// if one that arrived before the loss does.
func TestBrokerConnectionLost(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1", "register id=2", "heartbeat id=1", "heartbeat id=2")
	h.step(Request{Body: createTopics(4, 2, "t")})
	lost := func(id kafka.NodeID) { h.step(BrokerConnectionLost{Broker: id, Epoch: h.tip.Broker(id).Epoch}) }

	lost(1)
	h.advance(ConnectionLostGrace - time.Millisecond)
	if h.tip.Broker(1).Fenced {
		t.Fatal("fenced before the grace ended")
	}
	h.run("heartbeat id=1")
	h.advance(5 * time.Second)
	h.run("heartbeat id=2")
	if h.tip.Broker(1).Fenced {
		t.Fatal("it had reconnected")
	}

	h.step(BrokerConnectionLost{Broker: 1, Epoch: h.tip.Broker(1).Epoch - 1}) // of an older incarnation
	before := h.now.Mono
	h.advance(time.Second)
	if h.tip.Broker(1).Fenced {
		t.Fatal("fenced for a former incarnation's connection")
	}

	lost(1)
	h.step(Request{Body: heartbeatOf(h, 1), Arrived: before}) // was in the queue when the process died
	h.advance(ConnectionLostGrace)
	if !h.tip.Broker(1).Fenced || h.tip.Counts(1).Leaders != 0 || h.tip.Counts(2).Leaders != 4 {
		t.Fatal("not fenced after the grace")
	}
	h.step(Request{Body: heartbeatOf(h, 1), Arrived: before})
	if !h.tip.Broker(1).Fenced {
		t.Fatal("unfenced by a heartbeat of the dead")
	}
	if code, _ := h.register(1, 2, -1); code != 0 {
		t.Errorf("the restarted process must wait: %d", code)
	}
	h.run("heartbeat id=1")
	if h.tip.Broker(1).Fenced {
		t.Error("not unfenced after the restart")
	}
}

// HC-051: the offset that all others must reach is set once. Fails if every
// heartbeat of the stopping broker moves it.
func TestHC051ShutdownTargetStays(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1", "register id=2", "heartbeat id=1", "heartbeat id=2")
	h.step(Request{Body: createTopics(4, 2, "t")})
	h.run("heartbeat id=1 shutdown")
	target := h.next() - 1
	for i := range 5 { // the log goes on growing
		h.step(Request{Body: createTopics(1, 1, fmt.Sprint("busy", i))})
		h.run("heartbeat id=1 shutdown")
	}
	h.run(fmt.Sprintf("heartbeat id=2 offset=%d", target-1))
	if r := h.shutdown(1); r.ShouldShutdown {
		t.Error("broker 2 does not know yet who leads")
	}
	h.run(fmt.Sprintf("heartbeat id=2 offset=%d", target))
	if r := h.shutdown(1); !r.ShouldShutdown || !h.tip.Broker(1).Fenced {
		t.Errorf("%+v", r)
	}
}

func (h *harness) shutdown(id kafka.NodeID) *kmsg.BrokerHeartbeatResponse {
	req := heartbeatOf(h, id)
	req.WantShutdown = true
	return h.step(Request{Body: req})[0].Body.(*kmsg.BrokerHeartbeatResponse)
}

// HC-052: another cluster's broker, and one whose directory another has, are
// refused. Fails if either check is taken away.
func TestHC052WrongClusterOrDirectory(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1")
	for name, c := range map[string]struct {
		change func(*kmsg.BrokerRegistrationRequest)
		want   kafka.ErrorCode
	}{
		"cluster":   {func(r *kmsg.BrokerRegistrationRequest) { r.ClusterID = "other" }, kafka.ErrInconsistentClusterID},
		"directory": {func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = [][16]byte{{0xd0, 10}} }, kafka.ErrInvalidRegistration},
		"reserved":  {func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = [][16]byte{{15: 1}} }, kafka.ErrInvalidRegistration},
	} {
		req := registerRequest(func(n string, def int64) int64 {
			if n == "id" {
				return 2
			}
			return def
		}, nil)
		c.change(req)
		r := h.step(Request{Body: req})[0].Body.(*kmsg.BrokerRegistrationResponse)
		if kafka.ErrorCode(r.ErrorCode) != c.want || h.tip.Broker(2) != nil {
			t.Errorf("%s: error %s", name, kafka.ErrorCode(r.ErrorCode))
		}
	}
}

// Trap 15: sessions follow the monotonic clock. Fails if any of them reads the
// wall clock.
func TestTrap15WallClockSteps(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1", "heartbeat id=1")
	for _, day := range []kafka.WallMs{86_400_000, -2 * 86_400_000} {
		h.now.Wall += day
		h.step(DeadlineReached{})
		if h.tip.Broker(1).Fenced {
			t.Fatal("fenced by a step of the wall clock")
		}
	}
	h.advance(9 * time.Second)
	if !h.tip.Broker(1).Fenced {
		t.Error("not fenced after its session")
	}
}

// The broker in the process of a leader that died is fenced after a short while
// by the next one, unless it speaks up. Fails without deadLeaderGrace, or if a
// heartbeat does not give it a whole session.
func TestBrokerOfTheDeadLeader(t *testing.T) {
	for _, alive := range []bool{false, true} {
		h := quietHarness(t, false)
		h.run("register id=1", "register id=2", "heartbeat id=1", "heartbeat id=2")
		h.commit()
		h.resign()
		lost := kafka.NodeID(1)
		h.step(BecameLeader{Epoch: 2, Lost: &lost})
		if alive {
			h.run("heartbeat id=1")
		}
		h.advance(deadLeaderGrace + time.Second)
		if got := fencedOf(h, 1, 2); len(got) == 0 != alive || len(got) > 1 {
			t.Errorf("alive %v: fenced %v", alive, got)
		}
	}
}
