package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// A stall of the controller gives time to brokers whose heartbeats may lie
// unread, not to one that has closed its connection. Fails if fenceExpired does
// not ask for lost.
func TestLostBrokerGetsNoStallGrace(t *testing.T) {
	h := quietHarness(t, false)
	h.run("register id=1", "register id=2", "heartbeat id=1", "heartbeat id=2")
	h.step(BrokerConnectionLost{Broker: 1, Epoch: h.tip.Broker(1).Epoch})
	h.now.Mono = h.now.Mono.Add(5 * time.Second)
	h.step(DeadlineReached{})
	if got := fencedOf(h, 1, 2); !slices.Equal(got, []kafka.NodeID{1}) {
		t.Errorf("fenced: %v", got)
	}
}

// A controller that votes is not unregistered. Fails if unregisterController
// does not ask for the voters.
func TestVoterIsNotUnregistered(t *testing.T) {
	h := quietHarness(t, false)
	voters := []kafka.NodeID{8, 9}
	h.core.opts.Voters = func() []kafka.NodeID { return voters }
	reg := kmsg.NewPtrControllerRegistrationRequest()
	reg.ControllerID = 8
	h.step(Request{Body: reg})
	unregister := func() kafka.ErrorCode {
		req := kmsg.NewPtrUnregisterControllerRequest()
		req.ControllerID = 8
		return kafka.ErrorCode(h.step(Request{Body: req})[0].Body.(*kmsg.UnregisterControllerResponse).ErrorCode)
	}
	if code := unregister(); code != kafka.ErrInvalidRequest || h.tip.Controller(8) == nil {
		t.Errorf("a voter: %s", code)
	}
	voters = voters[1:]
	if code := unregister(); code != kafka.NoError || h.tip.Controller(8) != nil {
		t.Errorf("after its removal: %s", code)
	}
}
