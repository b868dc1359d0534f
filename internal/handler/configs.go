package handler

// DescribeConfigs. v1: synonyms and sources; v3: types and documentation.

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
)

func (h *Handler) describeConfigs(c *call) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrDescribeConfigsResponse()
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	seen := map[resource]bool{}
	for i := range req.Resources {
		q := &req.Resources[i]
		if r := (resource{q.ResourceType, q.ResourceName}); seen[r] {
			continue // what is asked twice is answered once: answers are large
		} else {
			seen[r] = true
		}
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = q.ResourceType, q.ResourceName
		r.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		entries, code, why := h.configEntries(img, q)
		r.ErrorCode, r.ErrorMessage = int16(code), &why // not null, even on success
		for _, e := range entries {
			if len(q.ConfigNames) == 0 || slices.Contains(q.ConfigNames, e.Name) {
				r.Configs = append(r.Configs, describedConfig(&e, req))
			}
		}
		resp.Resources = append(resp.Resources, r)
	}
	c.reply(resp)
}

// configEntries lists the settings of a resource, or says why it cannot.
func (h *Handler) configEntries(img *metadata.Image, q *kmsg.DescribeConfigsRequestResource) ([]config.Entry, kafka.ErrorCode, string) {
	switch metadata.ResourceType(q.ResourceType) {
	case metadata.TopicResource:
		if why := controller.CheckTopicName(q.ResourceName); why != "" {
			return nil, kafka.ErrInvalidTopicException, why
		}
		if !img.TopicByName(q.ResourceName).Exists() {
			return nil, kafka.ErrUnknownTopicOrPartition, ""
		}
		return config.DescribeTopic(partition.LayersOf(img, h.opts.Static, h.opts.Self, q.ResourceName)), 0, ""
	case metadata.BrokerResource:
		return h.brokerEntries(img, q.ResourceName)
	case metadata.GroupResource:
		if q.ResourceName == "" {
			return nil, kafka.ErrInvalidRequest, "Group name must not be empty"
		}
		return config.DescribeGroup(storedLookup(img, metadata.GroupResource, q.ResourceName), partition.LayersOf(img, h.opts.Static, h.opts.Self, "")), 0, ""
	case metadata.ClientMetricsResource:
		if q.ResourceName == "" {
			return nil, kafka.ErrInvalidRequest, "Client metrics subscription name must not be empty"
		}
		return config.DescribeClientMetrics(storedLookup(img, metadata.ClientMetricsResource, q.ResourceName)), 0, ""
	case metadata.BrokerLoggerResource:
		return h.loggerEntries(q.ResourceName)
	}
	return nil, kafka.ErrInvalidRequest, fmt.Sprintf("Unsupported resource type: %d", q.ResourceType)
}

func (h *Handler) brokerEntries(img *metadata.Image, name string) ([]config.Entry, kafka.ErrorCode, string) {
	if name == "" {
		return defaultEntries(img), 0, ""
	}
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return nil, kafka.ErrInvalidRequest, fmt.Sprintf("Broker id must be an integer, but it is: %s", name)
	case kafka.NodeID(id) != h.opts.Self:
		return nil, kafka.ErrInvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d or empty string, but received %s", h.opts.Self, name)
	}
	return config.DescribeBroker(partition.LayersOf(img, h.opts.Static, h.opts.Self, ""), h.moreNames(img, name)...), 0, ""
}

func storedLookup(img *metadata.Image, t metadata.ResourceType, name string) config.Lookup {
	return func(key string) (string, bool) { return img.Config(metadata.Resource{Type: t, Name: name}, key) }
}

// moreNames are the settings beside those of the table that this broker has: in
// its properties, of its own, or of all brokers.
func (h *Handler) moreNames(img *metadata.Image, broker string) []string {
	names := slices.Clone(h.opts.StaticNames)
	for _, name := range []string{broker, ""} {
		for _, c := range img.Configs(metadata.Resource{Type: metadata.BrokerResource, Name: name}) {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// defaultEntries lists only what is set for all brokers.
func defaultEntries(img *metadata.Image) []config.Entry {
	var out []config.Entry
	for _, c := range img.Configs(metadata.Resource{Type: metadata.BrokerResource}) {
		k := config.DynamicKey(c.Name)
		e := config.Entry{Key: k, Name: c.Name, Source: config.SourceDefaultBroker, ReadOnly: k == nil || k.Name != c.Name, Sensitive: k == nil || k.Sensitive()}
		if !e.Sensitive {
			e.Value = &c.Value
		}
		e.Synonyms = []config.SynonymValue{{Name: c.Name, Value: e.Value, Source: e.Source}}
		out = append(out, e)
	}
	return out
}

func describedConfig(e *config.Entry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ReadOnly, c.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	c.Source = kmsg.ConfigSource(e.Source)
	c.IsDefault = e.Source == config.SourceDefault
	if e.Key != nil {
		c.ConfigType = kmsg.ConfigType(e.Key.Type)
	}
	c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	if req.IncludeSynonyms {
		for _, s := range e.Synonyms {
			m := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			m.Name, m.Value, m.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			c.ConfigSynonyms = append(c.ConfigSynonyms, m)
		}
	}
	if req.IncludeDocumentation && e.Key != nil {
		doc := e.Key.Doc()
		c.Documentation = &doc
	}
	return c
}
