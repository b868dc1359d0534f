package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAutoCreationIsKafkas compares what clients see while a topic is made
// because somebody asked for it.
func TestAutoCreationIsKafkas(t *testing.T) {
	needKafka(t)
	k, m := newNode(t, "num.partitions=3"), newNode(t, "num.partitions=3")
	k.startKafka(t)
	m.startMoldau(t)
	fresh := func(allow bool, names ...string) func(*side, int16) kmsg.Request {
		return func(s *side, v int16) kmsg.Request {
			r := metadataOf()(s, v).(*kmsg.MetadataRequest)
			for _, name := range names {
				r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: ptr(fmt.Sprintf(name, v))})
			}
			r.AllowAutoTopicCreation = allow
			return r
		}
	}
	cases := []compareCase{
		{name: "Metadata makes a topic", from: 0, to: 13, settle: true, req: fresh(true, "fresh-%d")},
		{name: "Metadata must not make a topic", from: 4, to: 13, req: fresh(false, "unwanted-%d")},
		{name: "Metadata of an illegal topic", from: 0, to: 13, req: fresh(true, "bad name %d")},
		{name: "Produce makes none", from: 3, to: 12, req: func(s *side, v int16) kmsg.Request {
			return produceTo(fmt.Sprintf("by-produce-%d", v), 0, plain("v").bytes())(s, v)
		}},
	}
	compare(t, &side{n: k}, &side{n: m}, cases, nil)
	// What was made, which is after the answers, is the same on both sides.
	last := []compareCase{{name: "Metadata all", from: 9, to: 9, req: func(*side, int16) kmsg.Request { return &kmsg.MetadataRequest{} }, until: func(r kmsg.Response) bool {
		made := 0
		for _, topic := range r.(*kmsg.MetadataResponse).Topics {
			if strings.HasPrefix(*topic.Topic, "fresh-") {
				made++
			}
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
		return made == 14
	}}}
	compare(t, &side{n: k}, &side{n: m}, last, nil)
	k.stop(t)
	m.stop(t)
}
