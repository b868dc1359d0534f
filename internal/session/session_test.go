package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"moldau/internal/kafka"
)

func counter() func() uint32 {
	n := uint32(99)
	return func() uint32 { n++; return n }
}

func key(i int) Key { return Key{Name: "t", Partition: kafka.PartitionID(i)} }

func full(n int) Request {
	r := Request{SessionEpoch: InitialEpoch}
	for i := 0; i < n; i++ {
		r.Keys = append(r.Keys, key(i))
		r.Wants = append(r.Wants, Want{Offset: kafka.Offset(i), MaxBytes: 10})
	}
	return r
}

func open(t *testing.T, c *Cache, now kafka.Mono, n int) int32 {
	t.Helper()
	f := c.Begin(now, full(n))
	id, include := c.Finish(now, &f, make([]Told, n))
	if include != nil {
		t.Fatal("a full answer includes everything")
	}
	return id
}

func TestIncrementalAnswersOnlyWhatChanged(t *testing.T) {
	c := NewCache(10, counter())
	id := open(t, c, 0, 4)
	told := func(hw ...kafka.Offset) (out []Told) {
		for _, h := range hw {
			out = append(out, Told{HighWatermark: h})
		}
		return out
	}
	step := func(epoch int32, req Request, told []Told, want string) {
		t.Helper()
		req.SessionID, req.SessionEpoch = id, epoch
		f := c.Begin(0, req)
		if f.Code != 0 || !f.Incremental {
			t.Fatal(f.Code)
		}
		_, include := c.Finish(0, &f, told)
		got := ""
		for i, in := range include {
			if in {
				got += fmt.Sprint(f.Targets[i].Partition, "@", f.Targets[i].Offset, " ")
			}
		}
		if got != want {
			t.Errorf("epoch %d: %q, want %q", epoch, got, want)
		}
	}
	step(1, Request{}, told(0, 0, 0, 0), "")
	step(2, Request{}, told(0, 5, 0, 0), "1@1 ")
	step(3, Request{}, told(0, 5, 0, 0), "")
	// An error is told each time and the partition again when it is over.
	step(4, Request{}, []Told{{}, {HighWatermark: 5}, {HighWatermark: -1, Error: true, Notable: true}, {}}, "2@2 ")
	step(5, Request{}, told(0, 5, 0, 0), "2@2 ")
	// New position, a new partition, one forgotten.
	step(6, Request{Keys: []Key{key(0), key(9)}, Wants: []Want{{Offset: 70}, {Offset: 90}}, Forget: []Key{key(2)}},
		[]Told{{HighWatermark: 1}, {HighWatermark: 5}, {}, {HighWatermark: 2}}, "0@70 9@90 ")
	// Records move a partition to the end.
	step(7, Request{}, []Told{{HighWatermark: 1, Records: true, Notable: true}, {HighWatermark: 5}, {}, {HighWatermark: 2}}, "0@70 ")
	f := c.Begin(0, Request{SessionID: id, SessionEpoch: 8})
	if last := f.Targets[len(f.Targets)-1]; last.Partition != 0 {
		t.Errorf("the partition that got its records is not last: %+v", f.Targets)
	}
}

// HC-113: fails if an id of 0 with an epoch ≥ 1 is accepted, or if a full cache
// answers with an id it does not know.
func TestHC113SessionProtocol(t *testing.T) {
	c := NewCache(1, counter())
	id := open(t, c, 0, 2)
	if other := open(t, c, 0, 2); other != NoSession {
		t.Errorf("a full cache gave session %d", other)
	}
	code := func(r Request) kafka.ErrorCode { f := c.Begin(0, r); return f.Code }
	if got := code(Request{SessionID: 0, SessionEpoch: 1}); got != kafka.ErrFetchSessionIDNotFound {
		t.Error(got)
	}
	if got := code(Request{SessionID: id + 1, SessionEpoch: 1}); got != kafka.ErrFetchSessionIDNotFound {
		t.Error(got)
	}
	if got := code(Request{SessionID: id, SessionEpoch: 2}); got != kafka.ErrInvalidFetchSessionEpoch {
		t.Error(got)
	}
	if got := code(Request{SessionID: id, SessionEpoch: 1, UsesIDs: true}); got != kafka.ErrFetchSessionTopicIDError {
		t.Error(got)
	}
	if got := code(Request{SessionID: id, SessionEpoch: 1}); got != 0 {
		t.Error(got)
	}
	f := c.Begin(0, Request{SessionID: id, SessionEpoch: FinalEpoch})
	if got, _ := c.Finish(0, &f, nil); got != NoSession || c.Len() != 0 {
		t.Errorf("closing left %d sessions, id %d", c.Len(), got)
	}
}

// HC-115: fails if the leader epoch of the first request is not kept.
func TestHC115LeaderEpochIsRemembered(t *testing.T) {
	c := NewCache(1, counter())
	r := full(1)
	r.Wants[0].CurrentLeaderEpoch = 5
	f := c.Begin(0, r)
	id, _ := c.Finish(0, &f, make([]Told, 1))
	f = c.Begin(0, Request{SessionID: id, SessionEpoch: 1})
	if f.Targets[0].CurrentLeaderEpoch != 5 {
		t.Errorf("%+v", f.Targets[0])
	}
}

func TestEmptySessionEnds(t *testing.T) {
	c := NewCache(1, counter())
	id := open(t, c, 0, 1)
	f := c.Begin(0, Request{SessionID: id, SessionEpoch: 1, Forget: []Key{key(0)}})
	if got, _ := c.Finish(0, &f, nil); f.Code != 0 || got != NoSession || c.Len() != 0 {
		t.Error(f.Code, got, c.Len())
	}
}

func TestEviction(t *testing.T) {
	const minute = kafka.Mono(time.Minute)
	follower := func(c *Cache, now kafka.Mono, n int) int32 {
		r := full(n)
		r.Follower = true
		f := c.Begin(now, r)
		id, _ := c.Finish(now, &f, make([]Told, n))
		return id
	}
	c := NewCache(2, counter())
	a := open(t, c, 0, 5)
	b := open(t, c, 1*minute, 3)
	if open(t, c, 1*minute, 9) != NoSession {
		t.Error("a recent session was evicted for a consumer")
	}
	if id := follower(c, 1*minute, 1); id == NoSession {
		t.Error("a follower found no place")
	} else if _, kept := c.sessions[b]; kept {
		t.Error("the larger session was evicted")
	}
	if id := open(t, c, 3*minute, 1); id == NoSession {
		t.Error("a stale session was kept")
	} else if _, kept := c.sessions[a]; kept {
		t.Error("the stale session was not the one to go")
	}
}

// Whatever comes, the cache stays within its slots and its ring matches its map.
func TestRandomRequestsKeepTheInvariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := NewCache(4, rng.Uint32)
	ids := []int32{0}
	for i := 0; i < 20_000; i++ {
		r := Request{SessionID: ids[rng.IntN(len(ids))], SessionEpoch: int32(rng.IntN(6) - 1), Follower: rng.IntN(4) == 0}
		if s, ok := c.sessions[r.SessionID]; ok && rng.IntN(3) > 0 {
			r.SessionEpoch = s.epoch
		}
		for j := rng.IntN(4); j > 0; j-- {
			r.Keys = append(r.Keys, key(rng.IntN(6)))
			r.Wants = append(r.Wants, Want{})
			r.Forget = append(r.Forget, key(rng.IntN(6)))
		}
		f := c.Begin(kafka.Mono(i)*kafka.Mono(time.Second), r)
		told := make([]Told, len(f.Targets))
		for j := range told {
			told[j] = Told{HighWatermark: kafka.Offset(rng.IntN(3)), Records: rng.IntN(2) == 0}
		}
		id, _ := c.Finish(kafka.Mono(i)*kafka.Mono(time.Second), &f, told)
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		if c.Len() > 4 {
			t.Fatal("more sessions than slots")
		}
		for _, s := range c.sessions {
			if n := len(s.targets(nil)); n != len(s.parts) {
				t.Fatalf("%d in the ring, %d in the map", n, len(s.parts))
			}
		}
	}
}
