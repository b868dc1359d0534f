package server_test

import (
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The gate of the hot paths: a produced batch allocates nothing that grows with
// it, a request at most two things (the topic's name before version 13, say).
func BenchmarkProduceOverTCP(b *testing.B) {
	n := start(b)
	c := n.dial()
	id := c.create("bench", 1)
	req := produceRequest("bench", -1, batchOf(make1KiB(60)...))
	req.Topics[0].TopicID = id
	roundTrips(b, c, req, 13)
}

func BenchmarkFetchOverTCP(b *testing.B) {
	n := start(b)
	c := n.dial()
	id := c.create("bench", 1)
	for range 4 {
		c.mustProduce("bench", batchOf(make1KiB(60)...))
	}
	req := fetchRequest(0, 1, want{id: id, offset: 0})
	roundTrips(b, c, req, 13)
}

// The gate as a test. AllocsPerRun counts the whole process, so a little is
// left for what runs beside.
func TestHotPathsAllocateLittle(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("bench", 1)
	c.mustProduce("bench", batchOf(make1KiB(60)...))
	produce := produceRequest("bench", -1, batchOf(make1KiB(60)...))
	produce.Topics[0].TopicID = id
	for what, req := range map[string]kmsg.Request{"produce": produce, "fetch": fetchRequest(0, 1, want{id: id, offset: 0})} {
		trip := tripper(t, c, req, 13)
		trip()
		if got := testing.AllocsPerRun(1000, trip); got > 2 {
			t.Errorf("%s: %v allocations per request", what, got)
		}
	}
}

func make1KiB(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = string(make([]byte, 1024))
	}
	return out
}

// roundTrips sends the same frame again and again.
func roundTrips(b *testing.B, c *client, req kmsg.Request, version int16) {
	trip := tripper(b, c, req, version)
	b.ReportAllocs()
	for b.Loop() {
		trip()
	}
}

// tripper gives a function that sends a request and reads its answer; what it
// needs on the client's side is allocated once.
func tripper(t testing.TB, c *client, req kmsg.Request, version int16) func() {
	req.SetVersion(version)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)
	answer := make([]byte, 1<<20)
	must(t, c.conn.SetDeadline(time.Time{}))
	return func() {
		if _, err := c.conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.conn, answer[:4]); err != nil {
			t.Fatal(err)
		}
		size := int(binary.BigEndian.Uint32(answer))
		if _, err := io.ReadFull(c.conn, answer[:size]); err != nil {
			t.Fatal(err)
		}
	}
}
