package quorum

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// HC-041, by bytes: few records can be too large for one batch of the log. The
// request is refused and nothing else happens; the node must not end because a
// client asks for much. Fails if control treats errTooLarge as any other error.
func TestHC041OversizedBatchIsRefused(t *testing.T) {
	q := start(t, options(t, formatted(t)))
	q.register()
	req := createTopic("large")
	value := strings.Repeat("v", 32<<10)
	for i := range 300 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "setting-"+strings.Repeat("x", i), &value
		req.Topics[0].Configs = append(req.Topics[0].Configs, c)
	}
	end := q.Image().Provenance().EndOffset
	var refused *ReplyError
	if o := <-q.submit(req); !errors.As(o.err, &refused) || refused.ErrorCode() != kafka.ErrPolicyViolation {
		t.Fatalf("%+v", o)
	}
	if img := q.Image(); img.TopicByName("large").Exists() || img.Provenance().EndOffset != end {
		t.Error("something was written")
	}
	q.call(createTopic("next"))
	q.stopNow()
}
