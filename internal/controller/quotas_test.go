package controller

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// quota makes one entry: parts are type=name, or type alone for the default
// entity; ops are key=value, or key alone to remove it.
func quotaEntry(parts string, ops map[string]float64, remove ...string) kmsg.AlterClientQuotasRequestEntry {
	e := kmsg.NewAlterClientQuotasRequestEntry()
	for _, p := range strings.Fields(parts) {
		part := kmsg.NewAlterClientQuotasRequestEntryEntity()
		kind, name, named := strings.Cut(p, "=")
		if part.Type = kind; named {
			part.Name = &name
		}
		e.Entity = append(e.Entity, part)
	}
	for key, value := range ops {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Value = key, value
		e.Ops = append(e.Ops, op)
	}
	for _, key := range remove {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Remove = key, true
		e.Ops = append(e.Ops, op)
	}
	return e
}

func (h *harness) quotas(validateOnly bool, entries ...kmsg.AlterClientQuotasRequestEntry) *kmsg.AlterClientQuotasResponse {
	h.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries, req.ValidateOnly = entries, validateOnly
	replies := h.step(Request{Body: req})
	if len(replies) != 1 {
		h.t.Fatalf("%d replies", len(replies))
	}
	return replies[0].Body.(*kmsg.AlterClientQuotasResponse)
}

// HC-158: null is the default entity, empty is an error, and what Apache Kafka
// 4.4 answers to the rest. Each line fails without its check.
func TestHC158QuotaEntities(t *testing.T) {
	h := quietHarness(t, false)
	rate := map[string]float64{"producer_byte_rate": 1000}
	for _, q := range []struct {
		entity string
		ops    map[string]float64
		remove string
		says   string // with INVALID_REQUEST; "" is accepted
	}{
		{"user", rate, "", ""},
		{"user=", rate, "", "Empty user not supported"},
		{"user=a client-id", map[string]float64{"consumer_byte_rate": 5}, "", ""},
		{"ip=127.0.0.1 user=a", map[string]float64{"connection_creation_rate": 5}, "", "combination"},
		{"user=a user=b", rate, "", ""},
		{"nope=x", rate, "", "Unhandled client quota entity type: nope"},
		{"", rate, "", "Invalid empty client quota entity"},
		{"user=a", map[string]float64{"producer_byte_rate": 0}, "", "greater than 0"},
		{"user=a", map[string]float64{"producer_byte_rate": -1}, "", "greater than 0"},
		{"user=a", map[string]float64{"producer_byte_rate": 1.5}, "", "fractional"},
		{"user=a", map[string]float64{"producer_byte_rate": 1.0000001}, "", ""},
		{"user=a", map[string]float64{"producer_byte_rate": 1e30}, "", "too large"},
		{"user=a", map[string]float64{"producer_byte_rate": math.NaN()}, "", "greater than 0"},
		{"user=a", map[string]float64{"request_percentage": 1.5}, "", ""},
		{"user=a", map[string]float64{"controller_mutation_rate": .5}, "", ""},
		{"user=a", map[string]float64{"connection_creation_rate": 5}, "", "Invalid configuration key"},
		{"user=a", map[string]float64{"nope": 5}, "", "Invalid configuration key nope"},
		{"user=a", nil, "nope", ""},
		{"user=a", rate, "producer_byte_rate", "Duplicate quota key"},
		{"user=a", nil, "", ""},
		{"ip=127.0.0.1", map[string]float64{"connection_creation_rate": 5}, "", ""},
		{"ip=127.0.0.1", map[string]float64{"connection_creation_rate": 5e9}, "", "too large"},
		{"ip=127.0.0.1", rate, "", "Invalid configuration key"},
		{"ip", map[string]float64{"connection_creation_rate": 5}, "", ""},
		{"ip=::1", map[string]float64{"connection_creation_rate": 5}, "", ""},
		{"ip=localhost", map[string]float64{"connection_creation_rate": 5}, "", ""},
		{"ip=300.1.1.1", map[string]float64{"connection_creation_rate": 5}, "", "not a valid IP"},
		{"ip=a/b", map[string]float64{"connection_creation_rate": 5}, "", "not a valid IP"},
		{"ip=", map[string]float64{"connection_creation_rate": 5}, "", "Empty ip not supported"},
	} {
		var remove []string
		if q.remove != "" {
			remove = append(remove, q.remove)
		}
		at := h.next()
		e := h.quotas(true, quotaEntry(q.entity, q.ops, remove...)).Entries[0]
		want := kafka.NoError
		if q.says != "" {
			want = kafka.ErrInvalidRequest
		}
		if kafka.ErrorCode(e.ErrorCode) != want || (e.ErrorMessage == nil) != (want == 0) || e.ErrorMessage != nil && !strings.Contains(*e.ErrorMessage, q.says) {
			t.Errorf("%q %v −%q: %+v %v", q.entity, q.ops, q.remove, e, e.ErrorMessage)
		}
		if h.next() != at {
			t.Fatalf("%q was written on validate only", q.entity)
		}
	}
}

// Entities stand for themselves; one that is named twice is refused and nothing
// of it written; what is there already makes no record. Fails if quotaChanges
// does not count, or changedQuotas compares nothing.
func TestQuotasAreStored(t *testing.T) {
	h := quietHarness(t, false)
	rate := map[string]float64{"producer_byte_rate": 9}
	resp := h.quotas(false, quotaEntry("user=a client-id=c", rate), quotaEntry("user=d", rate), quotaEntry("client-id=c user=b", rate), quotaEntry("user=d", map[string]float64{"consumer_byte_rate": 9}), quotaEntry("user=", rate))
	codes := []kafka.ErrorCode{0, kafka.ErrInvalidRequest, 0, kafka.ErrInvalidRequest}
	if len(resp.Entries) != len(codes) {
		t.Fatalf("%+v", resp.Entries)
	}
	for i, want := range codes {
		if kafka.ErrorCode(resp.Entries[i].ErrorCode) != want {
			t.Errorf("entry %d: %+v", i, resp.Entries[i])
		}
	}
	a, d := quotaChanges(&kmsg.AlterClientQuotasRequest{Entries: []kmsg.AlterClientQuotasRequestEntry{quotaEntry("client-id=c user=a", nil)}}), quotaChanges(&kmsg.AlterClientQuotasRequest{Entries: []kmsg.AlterClientQuotasRequestEntry{quotaEntry("user=d", nil)}})
	if q := h.tip.Quota(a[0].entity); q == nil || len(q.Limits) != 1 || q.Limits[0].Value != 9 {
		t.Fatalf("stored is %+v", q)
	}
	if q := h.tip.Quota(d[0].entity); q != nil {
		t.Fatalf("stored of what was refused: %+v", q)
	}
	at := h.next()
	h.quotas(false, quotaEntry("user=a client-id=c", rate, "consumer_byte_rate"))
	if h.next() != at {
		t.Error("a record that changes nothing")
	}
	h.quotas(false, quotaEntry("user=a client-id=c", nil, "producer_byte_rate"))
	if q := h.tip.Quota(a[0].entity); q != nil {
		t.Errorf("left after removal: %+v", q)
	}
	var many []kmsg.AlterClientQuotasRequestEntry
	for i := range MaxRecordsPerOperation + 1 {
		many = append(many, quotaEntry(fmt.Sprint("user=u", i), rate))
	}
	at = h.next()
	if r := h.quotas(false, many...); kafka.ErrorCode(r.Entries[0].ErrorCode) != kafka.ErrPolicyViolation || h.next() != at {
		t.Errorf("HC-041: %+v, %d records", r.Entries[0], h.next()-at)
	}
}
