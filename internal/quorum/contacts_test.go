package quorum

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

func (q *testQuorum) heartbeat() *kmsg.BrokerHeartbeatRequest {
	hb := kmsg.NewPtrBrokerHeartbeatRequest()
	hb.Version, hb.BrokerID, hb.BrokerEpoch = 1, 1, q.epoch
	hb.CurrentMetadataOffset = int64(q.Image().Provenance().EndOffset)
	return hb
}

// HC-050: the loop stands still beyond the end of a session while the broker's
// heartbeats arrive. The test is the loop, so that the deadline comes before the
// heartbeats are taken. Fails if ctlDeadline does not tell of them.
func TestHC050HeartbeatsThatWaitCount(t *testing.T) {
	opts := options(t, formatted(t))
	var ahead time.Duration
	clock := systemClock()
	opts.Clock = func() kafka.Now {
		now := clock()
		now.Mono = now.Mono.Add(ahead)
		return now
	}
	opts.Controller.SessionTimeout = 20 * time.Minute
	q := open(t, opts)
	q.workers.Add(1)
	go q.flusher()
	pump := func(c <-chan outcome) outcome {
		limit := time.After(patience)
		for {
			select {
			case o := <-c:
				return o
			case in := <-q.inbox:
				q.take(in)
			case <-time.After(max(q.replica.Deadline().Sub(opts.Clock().Mono), 0)):
				q.replica.Wake()
			case <-limit:
				t.Fatal("nothing happens")
			}
		}
	}
	q.replica.Start()
	for q.Image().Version() == 0 {
		q.take(<-q.inbox)
	}
	reg := q.submit(registration())
	q.epoch = pump(reg).resp.(*kmsg.BrokerRegistrationResponse).BrokerEpoch
	if o := pump(q.submit(q.heartbeat())); o.err != nil || o.resp.(*kmsg.BrokerHeartbeatResponse).IsFenced {
		t.Fatalf("%+v", o)
	}
	ahead += 15 * time.Minute
	waits := q.submit(q.heartbeat())
	ahead += 5*time.Minute + 500*time.Millisecond // past the session by less than a stall
	q.replica.ctlDeadline()
	if q.replica.tip.Broker(1).Fenced {
		t.Error("fenced, and its heartbeat lies in the queue")
	}
	pump(waits)
	ahead += 14 * time.Minute
	q.replica.ctlDeadline()
	if q.replica.tip.Broker(1).Fenced {
		t.Error("fenced within the session that its heartbeat began")
	}
	ahead += time.Minute
	q.replica.ctlDeadline()
	if !q.replica.tip.Broker(1).Fenced {
		t.Error("not fenced at the end of its session")
	}
	q.end(nil)
}

// A broker that closed its connection is fenced without waiting for its session.
func TestBrokerConnectionLostFences(t *testing.T) {
	q := open(t, options(t, formatted(t)))
	fenced := make(chan struct{}, 1)
	was := false
	q.Subscribe(func(_ *metadata.Delta, img *metadata.Image) {
		if b := img.Broker(1); b != nil {
			if was && b.Fenced {
				fenced <- struct{}{}
			}
			was = !b.Fenced
		}
	})
	q.Start()
	q.await(q.ready)
	q.register()
	q.BrokerConnectionLost(1, kafka.BrokerEpoch(q.epoch))
	q.await(fenced)
	q.stopNow()
}
