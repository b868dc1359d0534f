package raftwire_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/raftwire"
)

var keys = []int16{1, 52, 53, 54, 59, 80, 81, 82}

func seeds(f *testing.F, requests bool) {
	seen := map[int16]int{}
	for _, fr := range recorded(f) {
		if fr.request == requests && fr.key != raftwire.KeyApiVersions && len(fr.body) < 500 && seen[fr.key] < 8 {
			seen[fr.key]++
			f.Add(fr.key, fr.version, fr.body)
		}
	}
}

func known(key int16) bool {
	for _, k := range keys {
		if k == key {
			return true
		}
	}
	return false
}

// Whatever a peer sends is a body or a refusal, and a body can be sent on.
func FuzzParseRequest(f *testing.F) {
	seeds(f, true)
	c := raftwire.Codec{Listener: "CONTROLLER"}
	f.Fuzz(func(t *testing.T, key, version int16, data []byte) {
		if !known(key) {
			return
		}
		req := kmsg.RequestForKey(key)
		if version < 0 || version > req.MaxVersion() {
			return
		}
		req.SetVersion(version)
		if req.ReadFrom(data) != nil {
			return
		}
		body, refusal := c.ParseRequest(req)
		if (body == nil) == (refusal == nil) {
			t.Fatalf("body %v, refusal %v", body, refusal)
		}
		if refusal != nil {
			refusal.AppendTo(nil)
			return
		}
		if v, err := raftwire.VersionsOf(body); err != nil {
			t.Fatal(err)
		} else if _, err := c.Request(body, v.Max); err != nil {
			t.Fatal(err)
		}
	})
}

// Whatever a peer answers is a body or an error, never a panic.
func FuzzParseResponse(f *testing.F) {
	seeds(f, false)
	c := raftwire.Codec{Listener: "CONTROLLER"}
	f.Fuzz(func(t *testing.T, key, version int16, data []byte) {
		if !known(key) {
			return
		}
		req := kmsg.RequestForKey(key)
		if version < 0 || version > req.MaxVersion() {
			return
		}
		resp := req.ResponseKind()
		resp.SetVersion(version)
		if resp.ReadFrom(data) != nil {
			return
		}
		if body, err := c.ParseResponse(resp); err == nil {
			c.Response(body, version).AppendTo(nil)
		}
	})
}
