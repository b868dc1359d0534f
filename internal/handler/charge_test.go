package handler

import (
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// A request of a megabyte of names of no letters is answered with a hundred: that is
// charged before it is decoded. Fails if nameBytes is 512, or names skips a field.
func TestManyNamesAreChargedWithTheirAnswers(t *testing.T) {
	h := NewBroker(node(t))
	const n = 50_000
	f := kmsg.NewPtrFindCoordinatorRequest()
	f.CoordinatorKeys = make([]string, n)
	d := kmsg.NewPtrDescribeTransactionsRequest()
	d.TransactionalIDs = f.CoordinatorKeys
	for _, req := range []kmsg.Request{f, d} {
		for version := req.MaxVersion(); version >= 0 && (version >= 4 || req == kmsg.Request(d)); version-- {
			req.SetVersion(version)
			frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, req, 1)[4:]
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s := serve(t, h, frame)
			runtime.ReadMemStats(&after)
			took, charge := int64(after.TotalAlloc-before.TotalAlloc)+int64(len(frame)), wire.DecodeBytes(frame)
			if len(s.resp.Buf) < 10*n || took > charge {
				t.Errorf("%s version %d: answer of %d bytes, %d bytes are taken, %d were charged", kmsg.NameForKey(req.Key()), version, len(s.resp.Buf), took, charge)
			}
		}
	}
}
