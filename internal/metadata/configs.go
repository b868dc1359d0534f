package metadata

import (
	"cmp"
	"slices"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// ResourceType is the kind of a resource that has a configuration.
type ResourceType int8

// The kinds of Kafka's ConfigResource.
const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4
	BrokerLoggerResource  ResourceType = 8
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// Resource names something that has a configuration. A broker resource with an
// empty name is the default of all brokers.
type Resource struct {
	Type ResourceType
	Name string
}

func (r Resource) key() string { return string([]byte{byte(r.Type)}) + r.Name }

// Config is one setting.
type Config struct{ Name, Value string }

type resourceConfig struct {
	resource Resource
	configs  []Config // by name
}

func (c *resourceConfig) find(name string) (int, bool) {
	if c == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(c.configs, name, func(c Config, name string) int { return cmp.Compare(c.Name, name) })
}

// Config gives an override of a resource.
func (img *Image) Config(r Resource, name string) (value string, ok bool) {
	c, _ := img.configs.Get(r.key())
	if i, ok := c.find(name); ok {
		return c.configs[i].Value, true
	}
	return "", false
}

// Configs gives the overrides of a resource by name. The slice must not be
// changed.
func (img *Image) Configs(r Resource) []Config {
	if c, ok := img.configs.Get(r.key()); ok {
		return c.configs
	}
	return nil
}

// EachConfigured calls f with every resource that has overrides, until it
// returns false.
func (img *Image) EachConfigured(f func(Resource, []Config) bool) {
	img.configs.Scan(func(_ string, c *resourceConfig) bool { return f(c.resource, c.configs) })
}

// Quota is what is set for one client quota entity. It must not be changed.
type Quota struct {
	Entity []record.EntityData // by type; a nil name is the default entity
	Limits []Limit             // by key
}

// Limit is one client quota.
type Limit struct {
	Key   string
	Value float64
}

// quotaEntity sorts an entity and gives its key.
func quotaEntity(entity []record.EntityData) (key string, sorted []record.EntityData) {
	sorted = slices.Clone(entity)
	slices.SortStableFunc(sorted, func(a, b record.EntityData) int { return cmp.Compare(a.EntityType, b.EntityType) })
	var b strings.Builder
	for _, e := range sorted {
		b.WriteString(e.EntityType)
		if e.EntityName == nil {
			b.WriteString("\x00d")
		} else {
			b.WriteString("\x00n" + *e.EntityName)
		}
		b.WriteString("\x00")
	}
	return b.String(), sorted
}

// QuotaKey tells entities apart, whatever the order of their parts.
func QuotaKey(entity []record.EntityData) string {
	key, _ := quotaEntity(entity)
	return key
}

// EachQuota calls f with every entity that has quotas, until it returns false.
func (img *Image) EachQuota(f func(*Quota) bool) {
	img.quotas.Scan(func(_ string, q *Quota) bool { return f(q) })
}

// Quota gives the quotas of exactly this entity, or nil.
func (img *Image) Quota(entity []record.EntityData) *Quota {
	key, _ := quotaEntity(entity)
	q, _ := img.quotas.Get(key)
	return q
}

func scramKey(mechanism int8, user string) string { return string([]byte{byte(mechanism)}) + user }

// SCRAM gives a user's credential for a mechanism (1 is SHA-256, 2 SHA-512), or
// nil. It must not be changed.
func (img *Image) SCRAM(mechanism int8, user string) *record.UserScramCredential {
	c, _ := img.scram.Get(scramKey(mechanism, user))
	return c
}

// EachSCRAM calls f with every credential, until it returns false.
func (img *Image) EachSCRAM(f func(*record.UserScramCredential) bool) {
	img.scram.Scan(func(_ string, c *record.UserScramCredential) bool { return f(c) })
}

// ACL gives a rule by its id, or nil. It must not be changed.
func (img *Image) ACL(id kafka.UUID) *record.AccessControlEntry {
	a, _ := img.acls.Get(string(id[:]))
	return a
}

// EachACL calls f with every rule, until it returns false.
func (img *Image) EachACL(f func(*record.AccessControlEntry) bool) {
	img.acls.Scan(func(_ string, a *record.AccessControlEntry) bool { return f(a) })
}

// DelegationToken gives a token by its id, or nil. It must not be changed.
func (img *Image) DelegationToken(id string) *record.DelegationToken {
	t, _ := img.tokens.Get(id)
	return t
}

// EachDelegationToken calls f with every token, until it returns false.
func (img *Image) EachDelegationToken(f func(*record.DelegationToken) bool) {
	img.tokens.Scan(func(_ string, t *record.DelegationToken) bool { return f(t) })
}
