package lifecycle

import (
	"testing"
	"time"

	"moldau/internal/kafka"
)

// A partition is asked for once per state of the log, and again only when an
// answer does not show there. Fails if an answer counts as success, or if a new
// epoch waits for the retry.
func TestAsks(t *testing.T) {
	var a Asks[Led]
	at := func(d time.Duration) kafka.Now { return kafka.Now{Mono: kafka.Mono(time.Hour).Add(d)} }
	p := func(n int32) kafka.TopicIDPartition {
		return kafka.TopicIDPartition{TopicID: kafka.TopicID{1}, Partition: kafka.PartitionID(n)}
	}
	if a.Next(at(0)) != nil || a.Deadline() != kafka.Never {
		t.Fatal("something to do at first")
	}
	a.Want(p(1), Led{3, 7})
	a.Want(p(0), Led{3, 7})
	if l := a.Next(at(0)); len(l) != 2 || l[0].Partition != 0 {
		t.Fatalf("%v", l)
	}
	a.Want(p(2), Led{0, 0})
	if a.Next(at(0)) != nil {
		t.Error("two requests at a time")
	}
	a.Answered(at(0))
	a.Settled(p(0))
	if l := a.Next(at(0)); len(l) != 1 || l[0].Partition != 2 {
		t.Errorf("%v", l)
	}
	a.Answered(at(0))
	a.Settled(p(2))
	if a.Next(at(askAgain-1)) != nil || a.Deadline() != at(askAgain).Mono {
		t.Error("asked again too soon")
	}
	a.Want(p(1), Led{3, 7}) // the same again changes nothing
	if a.Next(at(askAgain-1)) != nil {
		t.Error("asked again too soon")
	}
	a.Want(p(1), Led{4, 8})
	if l := a.Next(at(1)); len(l) != 1 || l[0].Of.LeaderEpoch != 4 {
		t.Errorf("a new epoch is not asked for at once: %v", l)
	}
	a.Answered(at(1))
	if l := a.Next(at(1 + askAgain)); len(l) != 1 {
		t.Error("never asked again")
	}
	for n := range int32(maxAsked + 5) {
		a.Want(p(100+n), Led{0, 0})
	}
	a.Answered(at(time.Second))
	if l := a.Next(at(time.Minute)); len(l) != maxAsked {
		t.Errorf("a request of %d partitions", len(l))
	}
}
