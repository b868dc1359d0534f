package server_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// describedAs gives a setting of any resource; found tells whether it is there.
func (c *client) describedAs(kind kmsg.ConfigResourceType, resource, name string) (value string, source int8, found bool) {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	q := kmsg.NewDescribeConfigsRequestResource()
	q.ResourceType, q.ResourceName, q.ConfigNames = kind, resource, []string{name}
	req.Resources = append(req.Resources, q)
	r := call[*kmsg.DescribeConfigsResponse](c, req, 4).Resources[0]
	wantCode(c.t, "DescribeConfigs", r.ErrorCode, 0)
	if len(r.Configs) == 0 {
		return "", 0, false
	}
	if v := r.Configs[0].Value; v != nil {
		value = *v
	}
	return value, int8(r.Configs[0].Source), true
}

func (c *client) alter(kind kmsg.ConfigResourceType, resource, name, value string, op kmsg.IncrementalAlterConfigOp, want kafka.ErrorCode) {
	c.t.Helper()
	r := call[*kmsg.IncrementalAlterConfigsResponse](c, alterationOf(kind, resource, name, value, op), 1).Resources[0]
	wantCode(c.t, name, r.ErrorCode, want)
	if want != 0 && (r.ErrorMessage == nil || *r.ErrorMessage == "") {
		c.t.Errorf("%s: no word of explanation beside %s", name, want)
	}
}

func (c *client) configured(version int16, kinds ...int8) string {
	c.t.Helper()
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = kinds
	r := call[*kmsg.ListConfigResourcesResponse](c, req, version)
	wantCode(c.t, "ListConfigResources", r.ErrorCode, 0)
	out := ""
	for _, x := range r.ConfigResources {
		out += fmt.Sprintf("%d:%s ", x.Type, x.Name)
	}
	return out
}

// HC-167 for every kind of resource: what is set is described as set, at the next
// start too; DELETE brings the default back, and the resource is listed no more.
// Fails if one kind is not stored, or described from elsewhere.
func TestHC167SettingsOfEveryKind(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	before := map[int]string{}
	for i, q := range resources {
		before[i], _, _ = c.describedAs(q.kind, q.name, q.key)
	}
	for _, q := range resources {
		c.alter(q.kind, q.name, q.key, "soon", 0, map[bool]kafka.ErrorCode{true: kafka.ErrInvalidRequest, false: kafka.ErrInvalidConfig}[q.kind == 4])
		c.alter(q.kind, q.name, q.key, q.value, 0, 0)
	}
	check := func() {
		t.Helper()
		for _, q := range resources {
			if v, s, ok := c.describedAs(q.kind, q.name, q.key); !ok || v != q.value || s != q.source {
				t.Errorf("%s of %q is %q from %d", q.key, q.name, v, s)
			}
		}
		if got := c.configured(1); got != "32:g 16:m 8:1 4:1 2:t " {
			t.Errorf("listed are %s", got)
		}
		if got := c.configured(0); got != "16:m " {
			t.Errorf("subscriptions are %s", got)
		}
	}
	check()
	n.restart()
	c = n.dial()
	check()
	for i, q := range resources {
		c.alter(q.kind, q.name, q.key, "", 1, 0)
		v, s, found := c.describedAs(q.kind, q.name, q.key)
		if wasFound := !(q.kind == 4 && q.name == ""); found != wasFound || v != before[i] || found && s != 5 {
			t.Errorf("after DELETE %s of %q is %q from %d, before it was %q", q.key, q.name, v, s, before[i])
		}
	}
	if got := c.configured(1, 16, 32); got != "" {
		t.Errorf("listed without settings: %s", got)
	}
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{32, 77}
	wantCode(t, "unknown kind", call[*kmsg.ListConfigResourcesResponse](c, req, 1).ErrorCode, kafka.ErrUnsupportedVersion)
}

// A broker checks its own settings together with its properties file, takes only
// its own and those of all, and says why not. Fails without lookAtBroker.
func TestBrokerSettingsAreCheckedByTheBroker(t *testing.T) {
	n := start(t, "num.io.threads=20", "group.consumer.max.session.timeout.ms=90000")
	c := n.dial()
	c.alter(4, "1", "num.io.threads", "41", 0, kafka.ErrInvalidRequest)
	c.alter(4, "1", "num.io.threads", "40", 0, 0)
	c.alter(4, "1", "num.io.threads", "80", 0, 0) // double again
	c.alter(4, "2", "num.io.threads", "40", 0, kafka.ErrInvalidRequest)
	c.alter(4, "", "cordoned.log.dirs", "", 0, kafka.ErrInvalidRequest)
	c.alter(4, "1", "max.connections.per.ip", "0", 0, kafka.ErrInvalidRequest)
	c.alter(4, "1", "message.max.bytes", "1", 2, kafka.ErrInvalidConfig)
	c.alter(32, "g", "consumer.session.timeout.ms", "90000", 0, 0)
	c.alter(32, "g", "consumer.session.timeout.ms", "90001", 0, kafka.ErrInvalidConfig)
	if v, s, _ := c.describedAs(32, "g2", "consumer.session.timeout.ms"); v != "45000" || s != 5 {
		t.Errorf("default of a group is %s from %d", v, s)
	}
}

// The level of the log is a setting of the logger root: it acts at once, and is
// not stored. Fails if alterLogLevels does not set it, or sets it on validate only.
func TestLogLevelIsASetting(t *testing.T) {
	n := start(t)
	c := n.dial()
	check := func(want string, level slog.Level) {
		t.Helper()
		if v, s, ok := c.describedAs(8, "1", "root"); !ok || v != want || s != 6 || n.level.Level() != level {
			t.Errorf("root is %s from %d, the logger is at %s; want %s", v, s, n.level.Level(), want)
		}
	}
	check("INFO", slog.LevelInfo)
	for _, q := range []struct {
		name  string
		level slog.Level
	}{{"TRACE", -8}, {"DEBUG", -4}, {"WARN", 4}, {"ERROR", 8}, {"FATAL", 12}, {"INFO", 0}} {
		c.alter(8, "1", "root", q.name, 0, 0)
		check(q.name, q.level)
	}
	only := alterationOf(8, "1", "root", "ERROR", 0)
	only.ValidateOnly = true
	wantCode(t, "validate only", call[*kmsg.IncrementalAlterConfigsResponse](c, only, 1).Resources[0].ErrorCode, 0)
	c.alter(8, "1", "root", "LOUD", 0, kafka.ErrInvalidConfig)
	c.alter(8, "1", "kafka.server", "INFO", 0, kafka.ErrInvalidConfig)
	c.alter(8, "1", "root", "", 1, kafka.ErrInvalidRequest)
	c.alter(8, "2", "root", "WARN", 0, kafka.ErrInvalidRequest)
	check("INFO", slog.LevelInfo)
}
