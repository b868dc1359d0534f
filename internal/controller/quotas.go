package controller

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// Types of the parts of a quota entity. A part with a null name is the default
// entity of its type; an empty name is an error (HC-158).
const (
	QuotaUser     = "user"
	QuotaClientID = "client-id"
	QuotaIP       = "ip"
)

// quotaLimits are the largest values of the quotas that entities of users and
// clients, or of addresses, can have; zero: the quota may have a fraction.
func quotaLimits(ip bool) map[string]float64 {
	if ip {
		return map[string]float64{"connection_creation_rate": math.MaxInt32}
	}
	return map[string]float64{"producer_byte_rate": math.MaxInt64, "consumer_byte_rate": math.MaxInt64, "request_percentage": 0, "controller_mutation_rate": 0}
}

// quotaChange is what a request wants for one entity.
type quotaChange struct {
	entity []record.EntityData // by type
	ops    []kmsg.AlterClientQuotasRequestEntryOp
	twice  bool // the request names the entity more than once
}

// alterClientQuotas answers AlterClientQuotas (ClientQuotaControlManager). Each
// entity stands for itself; one that is named twice is refused as a whole.
func (s *step) alterClientQuotas(req *kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasResponse {
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	resp.Version = req.Version
	var records []record.Message
	for _, c := range quotaChanges(req) {
		ms, f := s.changedQuotas(&c)
		records = append(records, ms...)
		resp.Entries = append(resp.Entries, quotaResult(c.entity, f))
	}
	if len(records) > MaxRecordsPerOperation {
		for i := range resp.Entries {
			resp.Entries[i].ErrorCode, resp.Entries[i].ErrorMessage = int16(tooManyRecords.code), tooManyRecords.text()
		}
		return resp
	}
	if !req.ValidateOnly {
		s.write(records...)
	}
	return resp
}

// quotaChanges puts the entries of a request in order. Of a type that an entity
// has twice the last name counts, as in Kafka, where an entity is a map.
func quotaChanges(req *kmsg.AlterClientQuotasRequest) []quotaChange {
	var changes []quotaChange
	at := map[string]int{}
	for _, e := range req.Entries {
		c := quotaChange{ops: e.Ops}
		for _, part := range e.Entity {
			c.entity = slices.DeleteFunc(c.entity, func(d record.EntityData) bool { return d.EntityType == part.Type })
			c.entity = append(c.entity, record.EntityData{EntityType: part.Type, EntityName: part.Name})
		}
		slices.SortFunc(c.entity, func(a, b record.EntityData) int { return cmp.Compare(a.EntityType, b.EntityType) })
		key := metadata.QuotaKey(c.entity)
		if i, ok := at[key]; ok {
			changes[i].twice = true
			continue
		}
		at[key] = len(changes)
		changes = append(changes, c)
	}
	return changes
}

func quotaResult(entity []record.EntityData, f failure) kmsg.AlterClientQuotasResponseEntry {
	e := kmsg.NewAlterClientQuotasResponseEntry()
	e.ErrorCode, e.ErrorMessage = int16(f.code), f.text()
	for _, part := range entity {
		p := kmsg.NewAlterClientQuotasResponseEntryEntity()
		p.Type, p.Name = part.EntityType, part.EntityName
		e.Entity = append(e.Entity, p)
	}
	return e
}

// changedQuotas gives the records of one change, or why it is refused.
func (s *step) changedQuotas(c *quotaChange) ([]record.Message, failure) {
	ip, why := checkQuotaEntity(c.entity)
	if why == "" && c.twice {
		why = "Ignoring duplicate entity " + fmt.Sprint(entityWords(c.entity))
	}
	if why != "" {
		return nil, failure{kafka.ErrInvalidRequest, why}
	}
	current := map[string]float64{}
	if q := s.tip.Quota(c.entity); q != nil {
		for _, l := range q.Limits {
			current[l.Key] = l.Value
		}
	}
	var records []record.Message
	named := map[string]bool{}
	for _, op := range c.ops {
		if named[op.Key] {
			return nil, failure{kafka.ErrInvalidRequest, "Duplicate quota key " + op.Key}
		}
		named[op.Key] = true
		was, had := current[op.Key]
		m := &record.ClientQuota{Entity: c.entity, Key: op.Key, Remove: op.Remove}
		switch {
		case op.Remove && had:
			records = append(records, m)
		case op.Remove:
		default:
			if why := checkQuota(op.Key, op.Value, ip); why != "" {
				return nil, failure{kafka.ErrInvalidRequest, why}
			}
			if m.Value = op.Value; !had || was != op.Value {
				records = append(records, m)
			}
		}
	}
	return records, failure{}
}

func entityWords(entity []record.EntityData) []string {
	var words []string
	for _, e := range entity {
		name := "<default>"
		if e.EntityName != nil {
			name = *e.EntityName
		}
		words = append(words, e.EntityType+"="+name)
	}
	return words
}

// checkQuotaEntity tells whether an entity is of an address, or why it is none.
func checkQuotaEntity(entity []record.EntityData) (ip bool, why string) {
	if len(entity) == 0 {
		return false, "Invalid empty client quota entity"
	}
	for _, e := range entity {
		switch {
		case e.EntityType != QuotaUser && e.EntityType != QuotaClientID && e.EntityType != QuotaIP:
			return false, "Unhandled client quota entity type: " + e.EntityType
		case e.EntityName != nil && *e.EntityName == "":
			return false, "Empty " + e.EntityType + " not supported"
		}
		ip = ip || e.EntityType == QuotaIP
	}
	switch {
	case ip && len(entity) > 1:
		return ip, "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
	case ip && entity[0].EntityName != nil && !addressOrHost(*entity[0].EntityName):
		return ip, *entity[0].EntityName + " is not a valid IP or resolvable host."
	}
	return ip, ""
}

// addressOrHost tells whether a text can be an address or a host's name. Whether
// the name is known is for the node that got the request to find out.
func addressOrHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return len(s) <= 253 && strings.Trim(s, "0123456789.") != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	})
}

func checkQuota(key string, value float64, ip bool) (why string) {
	limit, known := quotaLimits(ip)[key]
	switch {
	case !known:
		return "Invalid configuration key " + key
	case value <= 0 || math.IsNaN(value):
		return "Quota " + key + " must be greater than 0"
	case limit == 0:
		return ""
	case value > limit:
		return "Proposed value for " + key + " is too large"
	case math.Mod(value, 1) > 1e-6:
		return key + " cannot be a fractional value."
	}
	return ""
}
