package server_test

import (
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

func make1KiB(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = string(make([]byte, 1024))
	}
	return out
}

// roundTrips sends the same frame again and again; what the client allocates is
// a fixed buffer.
func roundTrips(b *testing.B, c *client, req kmsg.Request, version int16) {
	req.SetVersion(version)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)
	answer := make([]byte, 1<<20)
	must(b, c.conn.SetDeadline(time.Time{}))
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.conn.Write(frame); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c.conn, answer[:4]); err != nil {
			b.Fatal(err)
		}
		size := int(answer[0])<<24 | int(answer[1])<<16 | int(answer[2])<<8 | int(answer[3])
		if _, err := io.ReadFull(c.conn, answer[:size]); err != nil {
			b.Fatal(err)
		}
	}
}
