package handler

// ListConfigResources. v0 was ListClientMetricsResources; v1 lists other kinds
// (KIP-1142).

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// configKinds are the kinds of resources in the order in which Kafka lists them.
func configKinds() []int8 {
	return []int8{int8(metadata.GroupResource), int8(metadata.ClientMetricsResource), int8(metadata.BrokerLoggerResource), int8(metadata.BrokerResource), int8(metadata.TopicResource)}
}

func (h *Handler) listConfigResources(c *call) {
	req := kmsg.NewPtrListConfigResourcesRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrListConfigResourcesResponse()
	supported := configKinds()
	if c.Version == 0 {
		supported = []int8{int8(metadata.ClientMetricsResource)}
	}
	wanted := req.ResourceTypes
	if len(wanted) == 0 {
		wanted = supported
	}
	for _, kind := range wanted {
		if !slices.Contains(supported, kind) {
			resp.ErrorCode = int16(kafka.ErrUnsupportedVersion)
			c.reply(resp)
			return
		}
	}
	img := h.opts.Image()
	for _, kind := range configKinds() {
		if !slices.Contains(wanted, kind) {
			continue
		}
		h.eachConfigResource(c, img, metadata.ResourceType(kind), func(name string) {
			r := kmsg.NewListConfigResourcesResponseConfigResource()
			r.Name, r.Type = name, kind
			resp.ConfigResources = append(resp.ConfigResources, r)
		})
	}
	c.reply(resp)
}

// eachConfigResource calls f with the names of one kind: of groups and
// subscriptions those that have settings, of brokers and topics all.
func (h *Handler) eachConfigResource(c *call, img *metadata.Image, kind metadata.ResourceType, f func(name string)) {
	switch kind {
	case metadata.BrokerResource, metadata.BrokerLoggerResource:
		img.EachBroker(func(b *metadata.Broker) bool {
			if _, ok := b.Endpoint(c.Peer.Listener); ok && !b.Fenced {
				f(strconv.Itoa(int(b.ID)))
			}
			return true
		})
	case metadata.TopicResource:
		img.EachTopic(func(t metadata.Topic) bool { f(t.Name()); return true })
	default:
		img.EachConfigured(func(r metadata.Resource, _ []metadata.Config) bool {
			if r.Type == kind {
				f(r.Name)
			}
			return true
		})
	}
}
