package handler

// ApiVersions (KIP-35, KIP-511, KIP-584; v5 names the node that is expected).

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// kraftVersion is the feature whose level the quorum keeps itself, in control
// records.
const kraftVersion = "kraft.version"

// unknownApiVersions answers a version from the future: in the layout of
// version 0, with the range that is known. The body is not read (HC-133).
func (h *Handler) unknownApiVersions(c *call) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(kafka.ErrUnsupportedVersion)
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{apiKey(c.api)}
	c.Version = 0
	c.reply(resp)
}

func apiKey(a *api) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.listed, a.max
	return k
}

func (h *Handler) apiVersions(c *call) {
	req := kmsg.NewPtrApiVersionsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	switch {
	case c.Version >= 3 && (!softwareName(req.ClientSoftwareName) || !softwareName(req.ClientSoftwareVersion)):
		resp.ErrorCode = int16(kafka.ErrInvalidRequest)
	case c.Version >= 5 && (req.ClusterID != nil && *req.ClusterID != h.opts.ClusterID || req.NodeID >= 0 && kafka.NodeID(req.NodeID) != h.opts.Self):
		resp.ErrorCode = int16(kafka.ErrRebootstrapRequired)
	default:
		h.fillApiVersions(c, resp)
	}
	c.reply(resp)
}

func (h *Handler) fillApiVersions(c *call, resp *kmsg.ApiVersionsResponse) {
	for i := range h.apis {
		if h.apis[i].key == int16(i) {
			resp.ApiKeys = append(resp.ApiKeys, apiKey(&h.apis[i]))
		}
	}
	for _, f := range h.opts.SupportedFeatures {
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
		if c.Version < 4 && s.MinVersion == 0 {
			continue // older clients fail on a minimum of 0 (KAFKA-17011)
		}
		resp.SupportedFeatures = append(resp.SupportedFeatures, s)
	}
	img := h.opts.Image()
	img.EachFeature(func(name string, level int16) {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	})
	if level := h.kraftVersion(); level > 0 {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = kraftVersion, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	}
	resp.FinalizedFeaturesEpoch = int64(img.Provenance().EndOffset) - 1
}

func (h *Handler) kraftVersion() int16 {
	if h.opts.KRaftVersion == nil {
		return 0
	}
	return h.opts.KRaftVersion()
}

// softwareName tells whether the client's name or version has the form that
// KIP-511 demands: letters, digits, and dots or hyphens between them.
func softwareName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		inner := (c == '.' || c == '-') && i > 0 && i < len(s)-1
		if !alnum && !inner {
			return false
		}
	}
	return s != ""
}
