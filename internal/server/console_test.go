package server_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// HC-159: without a receiver of client metrics, the telemetry APIs are not
// listed, so that nobody pushes. Apache Kafka 4.4 lists them only with a plug-in
// either, though settings of subscriptions are stored. Fails if a line for 71 or
// 72 comes into the table before there is somebody to take what is pushed.
func TestHC159TelemetryIsNotListed(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.alter(16, "m", "metrics", "*", 0, 0)
	for _, addr := range []string{n.addr, n.ctl} {
		for _, k := range call[*kmsg.ApiVersionsResponse](dialTo(t, addr), legal(18, 4, kafka.TopicID{}), 4).ApiKeys {
			if k.ApiKey == 71 || k.ApiKey == 72 {
				t.Errorf("%s is listed on %s", kmsg.NameForKey(k.ApiKey), addr)
			}
		}
	}
}

// What a user interface asks of a cluster without security, transactions and
// moving replicas, it is told that there are none; nothing is left unanswered.
func TestWhatConsolesAsk(t *testing.T) {
	n := start(t)
	c := n.dial()
	for v := int16(1); v <= 3; v++ {
		wantCode(t, "DescribeAcls", call[*kmsg.DescribeACLsResponse](c, kmsg.NewPtrDescribeACLsRequest(), v).ErrorCode, kafka.ErrSecurityDisabled)
		wantCode(t, "DescribeDelegationToken", call[*kmsg.DescribeDelegationTokenResponse](c, kmsg.NewPtrDescribeDelegationTokenRequest(), v).ErrorCode, kafka.ErrDelegationTokenRequestNotAllowed)
	}
	if r := call[*kmsg.ListPartitionReassignmentsResponse](c, kmsg.NewPtrListPartitionReassignmentsRequest(), 0); r.ErrorCode != 0 || len(r.Topics) != 0 {
		t.Errorf("%+v", r)
	}
	if r := call[*kmsg.DescribeUserSCRAMCredentialsResponse](c, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), 0); r.ErrorCode != 0 || len(r.Results) != 0 {
		t.Errorf("%+v", r)
	}
	for v := int16(0); v <= 2; v++ {
		list := kmsg.NewPtrListTransactionsRequest()
		list.StateFilters = []string{"Ongoing", "Odd"}
		if r := call[*kmsg.ListTransactionsResponse](c, list, v); r.ErrorCode != 0 || len(r.TransactionStates) != 0 || len(r.UnknownStateFilters) != 1 {
			t.Errorf("%+v", r)
		}
	}
}
