package handler

// DescribeClientQuotas and AlterClientQuotas (KIP-546): what is stored. Nobody is
// held to it yet.

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// lookupTimeout bounds the wait for the address of a host that a quota names.
const lookupTimeout = 3 * time.Second

func (h *Handler) alterClientQuotas(c *call) {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	if !c.decode(req) {
		return
	}
	refuse := func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrAlterClientQuotasResponse()
		for i := range req.Entries {
			resp.Entries = append(resp.Entries, quotaRefusal(&req.Entries[i], code, ""))
		}
		return resp
	}
	if !slices.ContainsFunc(req.Entries, func(e kmsg.AlterClientQuotasRequestEntry) bool { return hostOf(&e) != "" }) {
		h.submit(c, req, refuse)
		return
	}
	later := *c
	go func() { // names are looked up, which can take long
		var unknown []kmsg.AlterClientQuotasResponseEntry
		req.Entries = slices.DeleteFunc(req.Entries, func(e kmsg.AlterClientQuotasRequestEntry) bool {
			name := hostOf(&e)
			if name == "" || resolvable(name) {
				return false
			}
			unknown = append(unknown, quotaRefusal(&e, kafka.ErrInvalidRequest, name+" is not a valid IP or resolvable host."))
			return true
		})
		later.amend = func(resp kmsg.Response) {
			r := resp.(*kmsg.AlterClientQuotasResponse)
			r.Entries = append(r.Entries, unknown...)
		}
		h.submit(&later, req, refuse)
	}()
}

// hostOf gives the name of a host that an entity has in place of an address.
func hostOf(e *kmsg.AlterClientQuotasRequestEntry) string {
	for _, part := range e.Entity {
		if part.Type == controller.QuotaIP && part.Name != nil {
			if _, err := netip.ParseAddr(*part.Name); err != nil {
				return *part.Name
			}
		}
	}
	return ""
}

func quotaRefusal(e *kmsg.AlterClientQuotasRequestEntry, code kafka.ErrorCode, why string) kmsg.AlterClientQuotasResponseEntry {
	r := kmsg.NewAlterClientQuotasResponseEntry()
	r.ErrorCode, r.ErrorMessage = int16(code), text(why)
	for _, part := range e.Entity {
		p := kmsg.NewAlterClientQuotasResponseEntryEntity()
		p.Type, p.Name = part.Type, part.Name
		r.Entity = append(r.Entity, p)
	}
	return r
}

func resolvable(host string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	return err == nil && len(found) > 0
}

func (h *Handler) describeClientQuotas(c *call) {
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	wanted, code, why := quotaFilters(req)
	if code != 0 {
		resp.ErrorCode, resp.ErrorMessage = int16(code), &why
		c.reply(resp)
		return
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // not null; the message is null, which no client takes for an error (HC-158)
	h.opts.Image().EachQuota(func(q *metadata.Quota) bool {
		if wanted.match(q) {
			resp.Entries = append(resp.Entries, describedQuota(q))
		}
		return true
	})
	c.reply(resp)
}

// quotaFilter says which entities are wanted: by type, the name they must have
// (nil: the default entity), or any.
type quotaFilter struct {
	names  map[string]*string
	any    map[string]bool
	strict bool // and no other types
}

// quotaFilters reads the filters of a request (ClientQuotasImage.describe).
func quotaFilters(req *kmsg.DescribeClientQuotasRequest) (quotaFilter, kafka.ErrorCode, string) {
	f := quotaFilter{names: map[string]*string{}, any: map[string]bool{}, strict: req.Strict}
	for _, q := range req.Components {
		_, named := f.names[q.EntityType]
		switch {
		case q.EntityType == "":
			return f, kafka.ErrInvalidRequest, "Invalid empty entity type."
		case named || f.any[q.EntityType]:
			return f, kafka.ErrInvalidRequest, "Entity type " + q.EntityType + " cannot appear more than once in the filter."
		case q.EntityType != controller.QuotaUser && q.EntityType != controller.QuotaClientID && q.EntityType != controller.QuotaIP:
			return f, kafka.ErrUnsupportedVersion, "Unsupported entity type " + q.EntityType
		case q.MatchType == kmsg.QuotasMatchTypeExact && q.Match == nil:
			return f, kafka.ErrInvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null."
		case q.MatchType != kmsg.QuotasMatchTypeExact && q.Match != nil:
			return f, kafka.ErrInvalidRequest, "Request specified " + q.MatchType.String() + ", but also specified a match string."
		case q.MatchType == kmsg.QuotasMatchTypeExact || q.MatchType == kmsg.QuotasMatchTypeDefault:
			f.names[q.EntityType] = q.Match
		case q.MatchType == kmsg.QuotasMatchTypeAny:
			f.any[q.EntityType] = true
		default:
			return f, kafka.ErrInvalidRequest, "Unknown match type " + q.MatchType.String()
		}
	}
	asked := func(kind string) bool { _, named := f.names[kind]; return named || f.any[kind] }
	if asked(controller.QuotaIP) && (asked(controller.QuotaUser) || asked(controller.QuotaClientID)) {
		return f, kafka.ErrInvalidRequest, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."
	}
	return f, 0, ""
}

func (f *quotaFilter) match(q *metadata.Quota) bool {
	met := 0
	for _, e := range q.Entity {
		want, named := f.names[e.EntityType]
		switch {
		case named && (want == nil) != (e.EntityName == nil), named && want != nil && *want != *e.EntityName:
			return false
		case named || f.any[e.EntityType]:
			met++
		case f.strict:
			return false
		}
	}
	return met == len(f.names)+len(f.any)
}

func describedQuota(q *metadata.Quota) kmsg.DescribeClientQuotasResponseEntry {
	e := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, part := range q.Entity {
		p := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		p.Type, p.Name = part.EntityType, part.EntityName
		e.Entity = append(e.Entity, p)
	}
	for _, l := range q.Limits {
		v := kmsg.NewDescribeClientQuotasResponseEntryValue()
		v.Key, v.Value = l.Key, l.Value
		e.Values = append(e.Values, v)
	}
	return e
}
