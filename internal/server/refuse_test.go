package server_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

// Fails if deleteTopics does not look at delete.topic.enable.
func TestDeletionCanBeTurnedOff(t *testing.T) {
	n := start(t, "delete.topic.enable=false")
	c := n.dial()
	c.create("t", 1)
	for version, want := range map[int16]kafka.ErrorCode{2: kafka.ErrInvalidRequest, 5: kafka.ErrTopicDeletionDisabled} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis, req.TopicNames = 10_000, []string{"t"}
		resp := call[*kmsg.DeleteTopicsResponse](c, req, version)
		wantCode(t, "delete", resp.Topics[0].ErrorCode, want)
	}
	c.mustProduce("t", batchOf("a"))
}

// A node that cannot authorize, or ask a policy, must not let through what the
// operator wanted checked. Fails if supported does not look at these keys.
func TestWhatCannotBeCheckedIsRefused(t *testing.T) {
	for _, key := range []string{"authorizer.class.name", "create.topic.policy.class.name", "alter.config.policy.class.name"} {
		c := configOf(t, t.TempDir(), key+"=org.example.Class")
		_, err := server.Start(server.Options{Config: c, FS: vfs.OS{}, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Fatalf("%s: %v", key, err)
		}
	}
}
