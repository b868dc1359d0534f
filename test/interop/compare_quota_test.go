package interop

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaOf names an entity: type=name, or type alone for the default one.
func quotaOf(entity string) (parts []kmsg.AlterClientQuotasRequestEntryEntity) {
	for _, p := range strings.Fields(entity) {
		part := kmsg.NewAlterClientQuotasRequestEntryEntity()
		kind, name, named := strings.Cut(p, "=")
		if part.Type = kind; named {
			part.Name = &name
		}
		parts = append(parts, part)
	}
	return parts
}

func setQuota(validate bool, entity, key string, value float64) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		e := kmsg.NewAlterClientQuotasRequestEntry()
		e.Entity = quotaOf(entity)
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Value, op.Remove = key, value, value == 0
		e.Ops = append(e.Ops, op)
		return &kmsg.AlterClientQuotasRequest{Entries: []kmsg.AlterClientQuotasRequestEntry{e}, ValidateOnly: validate}
	}
}

func describeQuotas(strict bool, filters ...kmsg.DescribeClientQuotasRequestComponent) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		return &kmsg.DescribeClientQuotasRequest{Components: filters, Strict: strict}
	}
}

func filter(kind string, match kmsg.QuotasMatchType, name ...string) kmsg.DescribeClientQuotasRequestComponent {
	f := kmsg.NewDescribeClientQuotasRequestComponent()
	f.EntityType, f.MatchType = kind, match
	for _, n := range name {
		f.Match = &n
	}
	return f
}

// quotaCases are HC-158. Addresses are not this host's: Kafka would hold the
// suite itself to its quotas.
func quotaCases() []compareCase {
	const exact, def, any = kmsg.QuotasMatchTypeExact, kmsg.QuotasMatchTypeDefault, kmsg.QuotasMatchTypeAny
	var cases []compareCase
	for _, q := range []struct {
		entity, key string
		value       float64
	}{
		{"user", "producer_byte_rate", 1000}, {"user=", "producer_byte_rate", 1000}, {"user=a client-id", "consumer_byte_rate", 5},
		{"ip=10.9.8.7 user=a", "connection_creation_rate", 5}, {"user=a user=b", "producer_byte_rate", 7}, {"nope=x", "producer_byte_rate", 7},
		{"", "producer_byte_rate", 7}, {"user=a", "producer_byte_rate", -1}, {"user=a", "producer_byte_rate", 1.5}, {"user=a", "producer_byte_rate", 1e30},
		{"user=a", "request_percentage", 1.5}, {"user=a", "controller_mutation_rate", 0.5}, {"user=a", "connection_creation_rate", 5},
		{"user=a", "nope", 5}, {"user=a", "nope", 0}, {"ip=10.9.8.7", "connection_creation_rate", 5e9}, {"ip=10.9.8.7", "producer_byte_rate", 5},
		{"ip=300.1.1.1", "connection_creation_rate", 5}, {"ip=no.such.host.invalid", "connection_creation_rate", 5}, {"ip=", "connection_creation_rate", 5},
	} {
		cases = append(cases, compareCase{name: "AlterClientQuotas " + q.entity + " " + q.key, from: 0, to: 1, req: setQuota(true, q.entity, q.key, q.value)})
	}
	for i, entity := range []string{"user", "user=u", "client-id=c", "client-id", "user=u client-id=c", "user=u client-id", "user client-id", "user=<default>", "ip=10.9.8.7", "ip"} {
		key := "consumer_byte_rate"
		if strings.HasPrefix(entity, "ip") {
			key = "connection_creation_rate"
		}
		cases = append(cases, compareCase{name: "AlterClientQuotas store " + entity, from: 1, to: 1, req: setQuota(false, entity, key, float64(1_000_000+i)), settle: true})
	}
	for name, filters := range map[string][]kmsg.DescribeClientQuotasRequestComponent{
		"all": nil, "user": {filter("user", exact, "u")}, "nobody": {filter("user", exact, "nobody")}, "default user": {filter("user", def)},
		"users": {filter("user", any)}, "users with clients": {filter("user", any), filter("client-id", any)}, "clients": {filter("client-id", any)},
		"addresses": {filter("ip", any)}, "addresses and users": {filter("ip", any), filter("user", any)}, "client of user": {filter("user", exact, "u"), filter("client-id", exact, "c")},
		"exact null": {filter("user", exact)}, "default with name": {filter("user", def, "x")}, "any with name": {filter("user", any, "x")},
		"no type": {filter("", any)}, "unknown type": {filter("nope", any)}, "twice": {filter("user", any), filter("user", exact, "u")}, "empty name": {filter("user", exact, "")},
	} {
		cases = append(cases,
			compareCase{name: "DescribeClientQuotas " + name, from: 0, to: 1, req: describeQuotas(false, filters...)},
			compareCase{name: "DescribeClientQuotas strict " + name, from: 0, to: 1, req: describeQuotas(true, filters...)})
	}
	return cases
}

func describeProducers(topic string, partitions ...int32) func(*side, int16) kmsg.Request {
	return func(*side, int16) kmsg.Request {
		return &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: partitions}}}
	}
}

func producerCases() []compareCase {
	written := plain("p").with(func(b *testBatch) { b.producer, b.epoch, b.sequence = 4711, 3, 0 })
	return []compareCase{
		{name: "Produce with an id", from: 9, to: 9, req: produceTo("by-hand", 0, written.bytes())},
		{name: "DescribeProducers", from: 0, to: 0, req: describeProducers("by-hand", 0, 2)},
		{name: "DescribeProducers unknown", from: 0, to: 0, req: describeProducers("nobody", 0)},
		{name: "DescribeProducers illegal", from: 0, to: 0, req: describeProducers("a b", 0)},
		{name: "DescribeProducers nothing", from: 0, to: 0, req: describeProducers("by-hand")},
	}
}
