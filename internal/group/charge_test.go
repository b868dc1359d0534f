package group

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/record"
	"moldau/internal/wire"
)

// slackBytes is what a group takes whatever the request holds.
const slackBytes = 32 << 10

// takes has the core serve a request and tells what that allocates, with the
// records as they are written and put into a batch.
func (h *harness) takes(req kmsg.Request) (frame []byte, took int64) {
	h.t.Helper()
	frame = kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, req, 1)[4:]
	_, body, err := wire.ParseHeader(frame, func(int16, int16) bool { return req.IsFlexible() })
	if err != nil {
		h.t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fresh := kmsg.RequestForKey(req.Key())
	fresh.SetVersion(req.GetVersion())
	if err := fresh.ReadFrom(body); err != nil {
		h.t.Fatal(err)
	}
	h.token++
	var out coordinator.Effects
	h.c.Step(h.now, coordinator.Request{Token: h.token, Body: fresh, ClientID: "c", Host: "/127.0.0.1"}, &out)
	runtime.ReadMemStats(&after)
	took = int64(after.TotalAlloc - before.TotalAlloc)
	for _, r := range out.Records {
		took += 2 * int64(len(record.AppendValue(nil, r.Value, r.Version)))
	}
	h.perform(&out)
	return frame, took
}

// What the core makes of a JoinGroup or SyncGroup is charged before it is decoded,
// or a request of a megabyte of short protocols takes a hundred. Fails if
// protocolBytes is 256, assignmentBytes 128, or a SyncGroup is charged twice its
// bytes.
func TestRequestsTakeNoMoreThanTheyAreChargedFor(t *testing.T) {
	for _, c := range []struct{ n, blob int }{{1, 0}, {1, 1 << 20}, {1000, 0}, {1000, 300}, {60_000, 0}, {60_000, 2}} {
		h := newHarness(t)
		h.quiet = true
		check := func(req kmsg.Request) {
			t.Helper()
			frame, took := h.takes(req)
			if charge := wire.DecodeBytes(frame); took+int64(len(frame)) > charge+slackBytes {
				t.Errorf("%s of %d × %d: %d bytes are taken, %d were charged", kmsg.NameForKey(req.Key()), c.n, c.blob, took+int64(len(frame)), charge)
			}
		}
		name := func(i int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(i))) }
		j := kmsg.NewPtrJoinGroupRequest()
		j.Version, j.Group, j.ProtocolType, j.InstanceID = 9, "g", "consumer", kmsg.StringPtr("i")
		j.SessionTimeoutMillis, j.RebalanceTimeoutMillis = 60_000, 60_000
		for i := range c.n {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name(i), make([]byte, c.blob)
			j.Protocols = append(j.Protocols, p)
		}
		check(j)
		if c.blob > 1000 { // the record has it too, at the leader's expense
			j.Protocols[0].Metadata = nil
			h = newHarness(t)
			h.quiet = true
			h.takes(j)
		}
		h.advance(4 * time.Second)
		m := h.c.group("g").classic
		s := kmsg.NewPtrSyncGroupRequest()
		s.Version, s.Group, s.MemberID, s.InstanceID, s.Generation = 5, "g", m.members[0].id, j.InstanceID, m.generation
		s.ProtocolType, s.Protocol = &j.ProtocolType, m.protocol
		for i := range c.n {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			if a.MemberID, a.MemberAssignment = name(i), make([]byte, c.blob); i == 0 {
				a.MemberID = s.MemberID
			}
			s.GroupAssignment = append(s.GroupAssignment, a)
		}
		check(s)
		if m.state != stable {
			t.Fatalf("the group is %s", m.state)
		}
	}
}
