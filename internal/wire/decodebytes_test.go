package wire

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kept is how many bytes are in use after f, beside what was before. What f has
// allocated in between is not in it: that differs with the race detector.
func kept(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// groupRequests gives a JoinGroup or SyncGroup of every version, with n byte
// strings of blob bytes each.
func groupRequests(n, blob int, f func(req kmsg.Request, tags *kmsg.Tags)) {
	rng := rand.New(rand.NewPCG(3, 4))
	for version := int16(0); version <= 9; version++ {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Version, q.Group, q.MemberID, q.ProtocolType = version, name(rng), name(rng), "consumer"
		q.InstanceID, q.Reason = kmsg.StringPtr("i"), kmsg.StringPtr("rebalance")
		for range n {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = "x", make([]byte, blob)
			q.Protocols = append(q.Protocols, p)
		}
		f(q, &q.Protocols[0].UnknownTags)
	}
	for version := int16(0); version <= 5; version++ {
		q := kmsg.NewPtrSyncGroupRequest()
		q.Version, q.Group, q.MemberID, q.Generation = version, name(rng), name(rng), 7
		q.ProtocolType, q.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		for range n {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = "x", make([]byte, blob)
			q.GroupAssignment = append(q.GroupAssignment, a)
		}
		f(q, &q.GroupAssignment[0].UnknownTags)
	}
}

func frameOf(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, req, 1)[4:]
}

// A request's estimate must cover what decoding takes, or the budget means
// nothing, and must not be far above it for large byte strings, or large groups
// are refused. Fails if assignmentBytes is 16, or if groupBlobs skips a field. (What
// the group makes of it is measured there.)
func TestDecodeBytesOfGroups(t *testing.T) {
	for _, c := range []struct{ n, blob int }{{1, 0}, {2000, 0}, {2000, 1}, {2000, 300}, {1, 1 << 20}} {
		groupRequests(c.n, c.blob, func(req kmsg.Request, _ *kmsg.Tags) {
			frame := frameOf(req)
			charge := DecodeBytes(frame)
			_, body, err := ParseHeader(frame, func(key, version int16) bool { return req.IsFlexible() })
			if err != nil {
				t.Fatal(err)
			}
			fresh := kmsg.RequestForKey(req.Key())
			fresh.SetVersion(req.GetVersion())
			took := kept(func() {
				if err := fresh.ReadFrom(body); err != nil {
					t.Fatal(err)
				}
			})
			runtime.KeepAlive(fresh)
			if len(frame) > 1000 && took > charge-int64(len(frame)) {
				t.Errorf("%s version %d of %d × %d: decoding took %d bytes, %d were charged", kmsg.NameForKey(req.Key()), req.GetVersion(), c.n, c.blob, took, charge-int64(len(frame)))
			}
			if c.blob >= 300 && charge > 5*int64(len(frame)) {
				t.Errorf("%s version %d of %d × %d: %d bytes are charged for %d", kmsg.NameForKey(req.Key()), req.GetVersion(), c.n, c.blob, charge, len(frame))
			}
		})
	}
}

// What has tagged fields, is cut, or goes on behind its end is charged like any
// request: a map of tags takes far more than its bytes.
func TestDecodeBytesOfOddGroups(t *testing.T) {
	groupRequests(3, 300, func(req kmsg.Request, tags *kmsg.Tags) {
		for i := range uint32(100) {
			tags.Set(i, []byte{1})
		}
		frame := frameOf(req)
		odd := [][]byte{frame[:len(frame)-1], append(frame[:len(frame):len(frame)], 0)}
		if req.IsFlexible() {
			odd = append(odd, frame)
		}
		for _, f := range odd {
			if got := DecodeBytes(f); got != decodeFactor*int64(len(f)) {
				t.Errorf("%s version %d: %d bytes for %d", kmsg.NameForKey(req.Key()), req.GetVersion(), got, len(f))
			}
		}
	})
}
