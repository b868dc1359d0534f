package handler

// AlterConfigs and IncrementalAlterConfigs. The broker looks first at what
// concerns itself: its own settings and those of all brokers, which depend on its
// properties file, and the levels of its log, which nobody else knows
// (ConfigAdminManager.preprocess). The rest is the controller's.

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
)

// verdict is why a change of a resource does not reach the controller; a zero
// code with done says that it need not.
type verdict struct {
	code kafka.ErrorCode
	why  string
	done bool
}

func (r verdict) message() *string { return text(r.why) }

func (h *Handler) alterConfigs(c *call) {
	req := kmsg.NewPtrAlterConfigsRequest()
	if !c.decode(req) {
		return
	}
	var settled []kmsg.AlterConfigsResponseResource
	req.Resources = slices.DeleteFunc(req.Resources, func(q kmsg.AlterConfigsRequestResource) bool {
		r := h.lookAtReplacement(&q)
		if r.done {
			m := kmsg.NewAlterConfigsResponseResource()
			m.ResourceType, m.ResourceName, m.ErrorCode, m.ErrorMessage = q.ResourceType, q.ResourceName, int16(r.code), r.message()
			settled = append(settled, m)
		}
		return r.done
	})
	c.amend = func(resp kmsg.Response) {
		r := resp.(*kmsg.AlterConfigsResponse)
		r.Resources = append(r.Resources, settled...)
	}
	h.submit(c, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrAlterConfigsResponse()
		for _, q := range req.Resources {
			r := kmsg.NewAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName, r.ErrorCode = q.ResourceType, q.ResourceName, int16(code)
			resp.Resources = append(resp.Resources, r)
		}
		return resp
	})
}

func (h *Handler) incrementalAlterConfigs(c *call) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	if !c.decode(req) {
		return
	}
	var settled []kmsg.IncrementalAlterConfigsResponseResource
	req.Resources = slices.DeleteFunc(req.Resources, func(q kmsg.IncrementalAlterConfigsRequestResource) bool {
		r := h.lookAtChange(&q, req.ValidateOnly)
		if r.done {
			m := kmsg.NewIncrementalAlterConfigsResponseResource()
			m.ResourceType, m.ResourceName, m.ErrorCode, m.ErrorMessage = q.ResourceType, q.ResourceName, int16(r.code), r.message()
			settled = append(settled, m)
		}
		return r.done
	})
	c.amend = func(resp kmsg.Response) {
		r := resp.(*kmsg.IncrementalAlterConfigsResponse)
		r.Resources = append(r.Resources, settled...)
	}
	h.submit(c, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, q := range req.Resources {
			r := kmsg.NewIncrementalAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName, r.ErrorCode = q.ResourceType, q.ResourceName, int16(code)
			resp.Resources = append(resp.Resources, r)
		}
		return resp
	})
}

// lookAtReplacement looks at all settings that AlterConfigs would leave a resource.
func (h *Handler) lookAtReplacement(q *kmsg.AlterConfigsRequestResource) verdict {
	if q.ResourceType != kmsg.ConfigResourceTypeBroker || h.opts.Store == nil {
		return verdict{}
	}
	proposed := map[string]string{}
	for _, s := range q.Configs {
		if s.Value == nil {
			return verdict{} // the controller says why not
		}
		proposed[s.Name] = *s.Value
	}
	return h.lookAtBroker(q.ResourceName, proposed)
}

// lookAtChange looks at what IncrementalAlterConfigs would make of a resource.
func (h *Handler) lookAtChange(q *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) verdict {
	if q.ResourceType == kmsg.ConfigResourceTypeBrokerLogger {
		return h.alterLogLevels(q, validateOnly)
	}
	if q.ResourceType != kmsg.ConfigResourceTypeBroker || h.opts.Store == nil {
		return verdict{}
	}
	proposed := map[string]string{}
	for _, s := range h.opts.Image().Configs(metadata.Resource{Type: metadata.BrokerResource, Name: q.ResourceName}) {
		proposed[s.Name] = s.Value
	}
	for i := range q.Configs {
		op := &q.Configs[i]
		switch {
		case op.Op == kmsg.IncrementalAlterConfigOpDelete:
			delete(proposed, op.Name)
		case op.Value == nil:
			return verdict{} // the controller says why not
		case op.Op == kmsg.IncrementalAlterConfigOpSet:
			proposed[op.Name] = *op.Value
		default:
			if why := editList(proposed, op); why != "" {
				return verdict{kafka.ErrInvalidConfig, why, true}
			}
		}
	}
	return h.lookAtBroker(q.ResourceName, proposed)
}

// editList appends to a list setting, or subtracts from it.
func editList(settings map[string]string, op *kmsg.IncrementalAlterConfigsRequestResourceConfig) (why string) {
	k, ok := config.BrokerKey(op.Name)
	switch {
	case !ok:
		return "Unknown config name: " + op.Name
	case k.Type != config.List:
		return fmt.Sprintf("Config value %s is not allowed for config key: %s", strings.ToLower(op.Op.String()), op.Name)
	}
	old, ok := settings[op.Name]
	if !ok {
		old = k.Default
	}
	list := config.SplitList(old)
	for _, item := range config.SplitList(*op.Value) {
		switch i := slices.Index(list, item); {
		case op.Op == kmsg.IncrementalAlterConfigOpAppend && i < 0:
			list = append(list, item)
		case op.Op == kmsg.IncrementalAlterConfigOpSubtract && i >= 0:
			list = slices.Delete(list, i, i+1)
		}
	}
	settings[op.Name] = strings.Join(list, ",")
	return ""
}

// lookAtBroker checks the dynamic settings that this broker, or all, would have.
// A broker takes only its own and those of all.
func (h *Handler) lookAtBroker(name string, proposed map[string]string) verdict {
	if why := h.notThisNode(name); name != "" && why != "" {
		return verdict{kafka.ErrInvalidRequest, why, true}
	}
	img, now := h.opts.Image(), map[string]string{}
	for _, s := range img.Configs(metadata.Resource{Type: metadata.BrokerResource, Name: name}) {
		now[s.Name] = s.Value
	}
	layers := partition.LayersOf(img, h.opts.Static, h.opts.Self, "")
	if err := config.CheckBroker(layers, now, proposed, name == ""); err != nil {
		return verdict{kafka.ErrInvalidRequest, err.Error(), true}
	}
	return verdict{}
}

func (h *Handler) notThisNode(name string) string {
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return "Node id must be an integer, but it is: " + name
	case kafka.NodeID(id) != h.opts.Self:
		return fmt.Sprintf("Unexpected broker id, expected %d, but received %s", h.opts.Self, name)
	}
	return ""
}

// alterLogLevels changes the levels of this node's loggers, of which there is
// one. Levels are not stored: the next start has that of the command line.
func (h *Handler) alterLogLevels(q *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) verdict {
	if why := h.notThisNode(q.ResourceName); why != "" {
		return verdict{kafka.ErrInvalidRequest, why, true}
	}
	wanted := map[string]string{}
	for _, op := range q.Configs {
		switch {
		case op.Op == kmsg.IncrementalAlterConfigOpDelete && op.Name == rootLogger:
			return verdict{kafka.ErrInvalidRequest, "Removing the log level of the root logger is not allowed", true}
		case op.Op == kmsg.IncrementalAlterConfigOpAppend || op.Op == kmsg.IncrementalAlterConfigOpSubtract:
			return verdict{kafka.ErrInvalidRequest, fmt.Sprintf("%s operation is not allowed for the BROKER_LOGGER resource", op.Op), true}
		case op.Name != rootLogger || h.opts.LogLevel == nil:
			return verdict{kafka.ErrInvalidConfig, fmt.Sprintf("Logger %s does not exist! This server has one, root.", op.Name), true}
		case op.Value == nil || !slices.Contains(levelNames(), *op.Value):
			return verdict{kafka.ErrInvalidConfig, "Cannot set the log level of root to a level that is not supported. Valid log levels are " + strings.Join(levelNames(), ", "), true}
		}
		wanted[op.Name] = *op.Value
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if level := levelOf(wanted[name]); !validateOnly {
			h.opts.LogLevel.Set(level)
			h.opts.Log.Info("log level changed", "logger", name, "level", wanted[name])
		}
	}
	return verdict{done: true}
}
