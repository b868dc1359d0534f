package handler

import (
	"fmt"
	"math"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// maxString is the longest string of Kafka's protocol, in every version; records
// of the logs have room for no more.
const maxString = math.MaxInt16

// checkStrings refuses a request with a longer string, which Kafka's decoders do
// not read either. A body that is not longer itself has none, so that few
// requests are looked through.
func checkStrings(body []byte, req any) error {
	if len(body) <= maxString {
		return nil
	}
	if n := longestString(reflect.ValueOf(req)); n > maxString {
		return fmt.Errorf("%w: a string of %d bytes", wire.ErrMalformed, n)
	}
	return nil
}

func longestString(v reflect.Value) (longest int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		return longestString(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				longest = max(longest, longestString(v.Field(i)))
			}
		}
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Pointer, reflect.Struct, reflect.Slice:
			for i := range v.Len() {
				longest = max(longest, longestString(v.Index(i)))
			}
		}
	}
	return longest
}

// Whoever asks for the same thing again gets it again, as from Kafka. But names
// are short, and what there is to tell is as long as whoever made it liked: asked
// for often enough, one group would take all memory there is.
const (
	maxGroupRepeats     = 10
	maxPartitionRepeats = 10_000
)

// repeats counts how often things come again.
type repeats[K comparable] struct {
	seen map[K]bool
	n    int
}

func (r *repeats[K]) add(k K) {
	if r.seen[k] {
		r.n++
		return
	}
	if r.seen == nil {
		r.seen = map[K]bool{}
	}
	r.seen[k] = true
}

// checkDescribed refuses a DescribeGroups that repeats itself too often.
func checkDescribed(ids []string) error {
	if len(ids) <= maxGroupRepeats {
		return nil
	}
	var r repeats[string]
	for _, id := range ids {
		r.add(id)
	}
	return r.check("groups", maxGroupRepeats)
}

// checkFetched refuses an OffsetFetch that repeats itself too often.
func checkFetched(groups []kmsg.OffsetFetchRequestGroup) error {
	partitions := 0
	for i := range groups {
		for _, t := range groups[i].Topics {
			partitions += len(t.Partitions)
		}
	}
	if len(groups) <= maxGroupRepeats && partitions <= maxPartitionRepeats {
		return nil
	}
	type partition struct {
		group string
		topicRef
		n int32
	}
	var all repeats[string]
	var parts repeats[partition]
	for i := range groups {
		g := &groups[i]
		if g.Topics == nil {
			all.add(g.Group)
		}
		for _, t := range g.Topics {
			for _, n := range t.Partitions {
				parts.add(partition{g.Group, topicRef{t.Topic, t.TopicID}, n})
			}
		}
	}
	if err := all.check("groups", maxGroupRepeats); err != nil {
		return err
	}
	return parts.check("partitions", maxPartitionRepeats)
}

func (r *repeats[K]) check(what string, limit int) error {
	if r.n > limit {
		return fmt.Errorf("%w: %s are asked for again %d times", wire.ErrMalformed, what, r.n)
	}
	return nil
}
