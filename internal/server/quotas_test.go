package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// setQuota sets one quota of an entity, given as type=name, or type alone for the
// default entity.
func (c *client) setQuota(entity, key string, value float64) *kmsg.AlterClientQuotasResponseEntry {
	c.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	e := kmsg.NewAlterClientQuotasRequestEntry()
	for _, p := range strings.Fields(entity) {
		part := kmsg.NewAlterClientQuotasRequestEntryEntity()
		kind, name, named := strings.Cut(p, "=")
		if part.Type = kind; named {
			part.Name = &name
		}
		e.Entity = append(e.Entity, part)
	}
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value, op.Remove = key, value, value == 0
	e.Ops = append(e.Ops, op)
	req.Entries = append(req.Entries, e)
	r := call[*kmsg.AlterClientQuotasResponse](c, req, 1)
	if len(r.Entries) != 1 {
		c.t.Fatalf("%d answers for %s", len(r.Entries), entity)
	}
	return &r.Entries[0]
}

// quotas describes what filters match; a filter is type, type=name or type=*.
func (c *client) quotas(strict bool, filters ...string) string {
	c.t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = strict
	for _, f := range filters {
		q := kmsg.NewDescribeClientQuotasRequestComponent()
		kind, name, named := strings.Cut(f, "=")
		switch q.EntityType = kind; {
		case name == "*":
			q.MatchType = kmsg.QuotasMatchTypeAny
		case named:
			q.MatchType, q.Match = kmsg.QuotasMatchTypeExact, &name
		default:
			q.MatchType = kmsg.QuotasMatchTypeDefault
		}
		req.Components = append(req.Components, q)
	}
	r := call[*kmsg.DescribeClientQuotasResponse](c, req, 1)
	wantCode(c.t, "DescribeClientQuotas", r.ErrorCode, 0)
	if r.ErrorMessage != nil {
		c.t.Errorf("a message without an error: %q", *r.ErrorMessage)
	}
	var out []string
	for _, e := range r.Entries {
		s := ""
		for _, p := range e.Entity {
			s += p.Type
			if p.Name != nil {
				s += "=" + *p.Name
			}
			s += " "
		}
		for _, v := range e.Values {
			s += fmt.Sprintf("%s:%g", v.Key, v.Value)
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// HC-158 over the wire: the default entity is null and never a name, also of a
// user who is called <default>; filters; what is stored outlives the node. Fails
// if match takes a null for a name, or strict lets other types through.
func TestHC158QuotasAreDescribed(t *testing.T) {
	n := start(t)
	c := n.dial()
	set := func(entity string, value float64) {
		t.Helper()
		e := c.setQuota(entity, map[bool]string{true: "connection_creation_rate", false: "producer_byte_rate"}[strings.HasPrefix(entity, "ip")], value)
		wantCode(t, entity, e.ErrorCode, 0)
	}
	for i, entity := range []string{"user", "user=<default>", "user=u", "user=u client-id", "user=u client-id=c", "user client-id", "client-id=c", "ip=10.0.0.1", "ip", "ip=localhost"} {
		set(entity, float64(i+1))
	}
	for _, q := range []struct {
		strict  bool
		filters string
		want    string
	}{
		{false, "user", "client-id user producer_byte_rate:6, user producer_byte_rate:1"},
		{true, "user", "user producer_byte_rate:1"},
		{true, "user=<default>", "user=<default> producer_byte_rate:2"},
		{false, "user=u", "client-id user=u producer_byte_rate:4, client-id=c user=u producer_byte_rate:5, user=u producer_byte_rate:3"},
		{true, "user=u", "user=u producer_byte_rate:3"},
		{true, "user=* client-id=c", "client-id=c user=u producer_byte_rate:5"},
		{false, "client-id=c", "client-id=c producer_byte_rate:7, client-id=c user=u producer_byte_rate:5"},
		{true, "client-id user", "client-id user producer_byte_rate:6"},
		{false, "ip=*", "ip connection_creation_rate:9, ip=10.0.0.1 connection_creation_rate:8, ip=localhost connection_creation_rate:10"},
		{false, "user=nobody", ""},
		{true, "", ""},
	} {
		if got := c.quotas(q.strict, strings.Fields(q.filters)...); got != q.want {
			t.Errorf("%q strict %v: %s, want %s", q.filters, q.strict, got, q.want)
		}
	}
	if e := c.setQuota("user=", "producer_byte_rate", 1); kafka.ErrorCode(e.ErrorCode) != kafka.ErrInvalidRequest || e.ErrorMessage == nil {
		t.Errorf("an empty name: %+v", e)
	}
	if e := c.setQuota("ip=no.such.host.invalid", "connection_creation_rate", 1); kafka.ErrorCode(e.ErrorCode) != kafka.ErrInvalidRequest || *e.Entity[0].Name != "no.such.host.invalid" {
		t.Errorf("a host that nobody knows: %+v", e)
	}
	all := c.quotas(false)
	if strings.Count(all, ",") != 9 {
		t.Errorf("all: %s", all)
	}
	n.restart()
	c = n.dial()
	if again := c.quotas(false); again != all {
		t.Errorf("after a restart: %s", again)
	}
	set("user=u", 0)
	if got := c.quotas(true, "user=u"); got != "" {
		t.Errorf("after removal: %s", got)
	}
}

// DescribeProducers tells what the log knows: last sequence, epoch and time, also
// after a restart; and who is asked in vain.
func TestDescribeProducers(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2)
	id := c.producerID()
	for i := range int32(3) {
		wantCode(t, "produce", c.produce("t", sequenced(id, 0, i, "x")).ErrorCode, 0)
	}
	ask := func() []kmsg.DescribeProducersResponseTopic {
		req := kmsg.NewPtrDescribeProducersRequest()
		for _, name := range []string{"t", "nobody", "a b"} {
			q := kmsg.NewDescribeProducersRequestTopic()
			q.Topic, q.Partitions = name, []int32{0, 1, 2}
			req.Topics = append(req.Topics, q)
		}
		return call[*kmsg.DescribeProducersResponse](c, req, 0).Topics
	}
	for range 2 {
		r := ask()
		p := r[0].Partitions
		if len(p[0].ActiveProducers) != 1 || len(p[1].ActiveProducers) != 0 || p[1].ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
		if a := p[0].ActiveProducers[0]; a.ProducerID != id || a.ProducerEpoch != 0 || a.LastSequence != 2 || a.LastTimestamp <= 0 || a.CoordinatorEpoch != -1 || a.CurrentTxnStartOffset != -1 {
			t.Errorf("%+v", a)
		}
		wantCode(t, "no such partition", p[2].ErrorCode, kafka.ErrUnknownTopicOrPartition)
		wantCode(t, "no such topic", r[1].Partitions[0].ErrorCode, kafka.ErrUnknownTopicOrPartition)
		wantCode(t, "no topic's name", r[2].Partitions[0].ErrorCode, kafka.ErrInvalidTopicException)
		n.restart()
		c = n.dial()
	}
}
