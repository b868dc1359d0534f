package controller

import (
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
