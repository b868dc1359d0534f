package replica

import (
	"testing"

	"moldau/internal/kafka"
)

func TestHighWatermark(t *testing.T) {
	s := New(1, 3, 10)
	if s.HighWatermark() != 3 || s.Role() != None {
		t.Fatalf("%+v", s)
	}
	alone := Assignment{Leader: 1, LeaderEpoch: 4, Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1}}
	if !s.Assign(alone) || s.HighWatermark() != 10 {
		t.Errorf("a leader that is alone in sync commits its whole log: %+v", s)
	}
	if s.Assign(alone) {
		t.Error("the same epoch is no new leadership")
	}
	if !s.Appended(12) || s.HighWatermark() != 12 {
		t.Errorf("%+v", s)
	}
	if s.Appended(11) || s.HighWatermark() != 12 || s.Assign(alone) || s.HighWatermark() != 12 {
		t.Errorf("a late word of an earlier append moves nothing: %+v", s)
	}
	if s.end != 12 {
		t.Errorf("the end fell to %d", s.end)
	}
	both := alone
	both.ISR, both.LeaderEpoch = []kafka.NodeID{1, 2}, 5
	if !s.Assign(both) || s.Appended(15) || s.HighWatermark() != 12 {
		t.Errorf("the high watermark must wait for the other replica: %+v", s)
	}
	s.Assign(Assignment{Leader: 2, LeaderEpoch: 6, Replicas: alone.Replicas, ISR: alone.ISR})
	if s.Role() != Follower {
		t.Errorf("%+v", s)
	}
	s.Truncated(11)
	if s.HighWatermark() != 11 {
		t.Errorf("%+v", s)
	}
}

// HC-059: below the minimum nothing is committed. Fails if advance does not ask.
func TestHC059BelowTheMinimum(t *testing.T) {
	s := New(1, 0, 0)
	a := Assignment{Leader: 1, LeaderEpoch: 1, Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1}, MinInSync: 2}
	s.Assign(a)
	if s.Appended(5) || s.HighWatermark() != 0 {
		t.Errorf("%+v", s)
	}
	a.MinInSync = 1
	if s.Assign(a); s.HighWatermark() != 5 {
		t.Errorf("%+v", s)
	}
}

func TestEnoughInSync(t *testing.T) {
	s := New(1, 0, 0)
	s.Assign(Assignment{Leader: 1, Replicas: []kafka.NodeID{1}, ISR: []kafka.NodeID{1}})
	if !s.EnoughInSync(2) {
		t.Error("one replica of one is enough, whatever min.insync.replicas says")
	}
	s.Assign(Assignment{Leader: 1, Replicas: []kafka.NodeID{1, 2, 3}, ISR: []kafka.NodeID{1}})
	if s.EnoughInSync(2) || !s.EnoughInSync(1) {
		t.Error("one in sync of three")
	}
}
