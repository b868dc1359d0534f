package server_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func joinRequest(group string, protocols ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, "consumer", 10_000, 10_000
	for _, p := range protocols {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: p})
	}
	return req
}

// HC-145: new versions can carry strings for which the records of the log have
// no room. Kafka's decoders refuse them. Fails, with the process, without
// checkStrings or joinNew's bound.
func TestHC145StringsTooLongForTheLog(t *testing.T) {
	_, good := startGroups(t, "group.initial.rebalance.delay.ms=0")
	long := strings.Repeat("x", 1<<15)
	instance := joinRequest("g", "range")
	instance.InstanceID = &long
	kind := joinRequest("g", "range")
	kind.ProtocolType = long
	metadata := commitRequest("g", "t", 0, 1)
	metadata.Topics[0].Partitions[0].Metadata = &long
	for what, req := range map[string]kmsg.Request{
		"group of a commit": commitRequest(long, "t", 0, 1),
		"group of a join":   joinRequest(long, "range"),
		"instance id":       instance, "protocol type": kind, "protocol": joinRequest("g", "range", long),
		"metadata of a commit": metadata,
	} {
		c := dialTo(t, good.conn.RemoteAddr().String())
		c.send(req, 8)
		c.closed(what)
	}
	most := long[1:]
	instance.InstanceID = &most
	r := again(good, instance, 5, func(r *kmsg.JoinGroupResponse) int16 { return r.ErrorCode })
	wantCode(t, "an instance id that leaves no room", r.ErrorCode, kafka.ErrInvalidRequest)
	good.commit(most, "t", 7)
	if n := good.committedTo(most, "t"); n != 7 {
		t.Errorf("the longest id has %d", n)
	}
}
