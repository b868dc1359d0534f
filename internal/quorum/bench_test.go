package quorum

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

// benchQuorum is a quorum of one on the real file system, with broker 1 in
// service.
func benchQuorum(b *testing.B) *testQuorum {
	opts := options(b, vfs.OS{})
	opts.Dir = b.TempDir()
	set, _ := raft.NewVoterSet(self(b))
	if err := Format(FormatOptions{FS: opts.FS, Dir: opts.Dir, KRaft: 1, Voters: set, Records: features(), Now: 1000}); err != nil {
		b.Fatal(err)
	}
	q := start(b, opts)
	q.register()
	b.Cleanup(q.stopNow)
	return q
}

// pipelined submits n requests with at most depth of them unanswered.
func (q *testQuorum) pipelined(n, depth int, body func(i int) any, check func(any)) {
	room := make(chan struct{}, depth)
	var all sync.WaitGroup
	all.Add(n)
	for i := range n {
		room <- struct{}{}
		q.Submit(Context{}, body(i), func(resp any, err error) {
			if err != nil {
				q.t.Error(err)
			} else {
				check(resp)
			}
			<-room
			all.Done()
		})
	}
	all.Wait()
}

// BenchmarkHeartbeats: core and shell, answers included. Aim: 50,000 a second.
func BenchmarkHeartbeats(b *testing.B) {
	q := benchQuorum(b)
	hb := q.heartbeat()
	b.ResetTimer()
	q.pipelined(b.N, 1000, func(int) any { return hb }, func(resp any) {
		if r := resp.(*kmsg.BrokerHeartbeatResponse); r.ErrorCode != 0 || r.IsFenced {
			b.Errorf("%+v", r)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "heartbeats/s")
}

// BenchmarkCreateTopics: requests of 1, 10 and 100 topics of one partition,
// durable when answered. Aim: 20,000 topics a second in batches.
func BenchmarkCreateTopics(b *testing.B) {
	for _, batch := range []int{1, 10, 100} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			q := benchQuorum(b)
			n := 0
			b.ResetTimer()
			q.pipelined((b.N+batch-1)/batch, 64, func(int) any {
				req := kmsg.NewPtrCreateTopicsRequest()
				req.Version = 7
				for range batch {
					t := kmsg.NewCreateTopicsRequestTopic()
					t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprint("topic-", n), 1, 1
					req.Topics = append(req.Topics, t)
					n++
				}
				return req
			}, func(resp any) {
				for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
					if t.ErrorCode != 0 {
						b.Error(kafka.ErrorCode(t.ErrorCode))
					}
				}
			})
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "topics/s")
		})
	}
}
