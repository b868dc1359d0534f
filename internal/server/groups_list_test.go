package server

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/handler"
	"moldau/internal/kafka"
	"moldau/internal/wire"
)

// oneAnswer is the place of a request's only answer.
type oneAnswer struct {
	t    *testing.T
	resp wire.Response
	done chan bool // whether there is one
}

func (s *oneAnswer) Response() *wire.Response { return &s.resp }
func (s *oneAnswer) Fill(r *wire.Response)    { s.done <- r != nil }
func (s *oneAnswer) FreeFrame()               {}
func (s *oneAnswer) Drop(err error)           { s.t.Error(err); s.done <- false }
func (s *oneAnswer) Broken() bool             { return false }
func (s *oneAnswer) OnGone(func()) bool       { return true }

// list sends ListGroups to a handler over the coordinators.
func (f *followed) list(h *handler.Handler) (groups []string, code kafka.ErrorCode) {
	req := kmsg.NewPtrListGroupsRequest()
	req.SetVersion(5)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, req, 1)[4:]
	s := &oneAnswer{t: f.t, done: make(chan bool, 1)}
	r := wire.NewRequest(frame, &wire.Peer{Host: "10.0.0.1"}, s)
	if h.Serve(&r); !<-s.done {
		return nil, kafka.ErrUnknownServerError
	}
	s.resp.Finish()
	resp := kmsg.NewPtrListGroupsResponse()
	resp.SetVersion(5)
	if err := resp.ReadFrom(s.resp.Buf[9:]); err != nil { // behind size, correlation id and no tags
		f.t.Error(err)
	}
	for _, g := range resp.Groups {
		groups = append(groups, g.Group+" "+g.GroupState)
	}
	slices.Sort(groups)
	return groups, kafka.ErrorCode(resp.ErrorCode)
}

// HC-161: groups are listed while coordinators move: those of coordinators that stay
// in each complete answer, none twice, and when a move is over, exactly those that
// are here. Fails if listGroups takes what loads for empty, or what resigned for
// loading; or if a coordinator that resigned answers.
func TestHC161ListingWhileCoordinatorsMove(t *testing.T) {
	const partitions, stay = 8, 4
	f := newFollowed(t)
	self := f.s.opts.Config.NodeID
	f.topic(kafka.ConsumerOffsetsTopic, f.id, partitions)
	groupsOf := make([][]string, partitions)
	for i := range 100 {
		id := fmt.Sprintf("group-%d", i)
		n := kafka.CoordinatorPartition(id, partitions)
		req := kmsg.NewPtrOffsetCommitRequest()
		req.SetVersion(8)
		req.Group, req.Generation = id, -1
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1, LeaderEpoch: -1}}}}
		if _, code := f.ask(n, req); code != 0 {
			t.Fatal(code)
		}
		groupsOf[n] = append(groupsOf[n], id+" Empty")
	}
	here := func(led func(n int) bool) (all []string) {
		for n, ids := range groupsOf {
			if led(n) {
				all = append(all, ids...)
			}
		}
		slices.Sort(all)
		return all
	}
	h := handler.NewBroker(handler.Options{Groups: f.s.groups})
	least := here(func(n int) bool { return n < stay })
	var complete atomic.Int32
	var stop atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for !stop.Load() {
			got, code := f.list(h)
			switch code {
			case 0:
				complete.Add(1)
				if d := slices.Compact(slices.Clone(got)); len(d) != len(got) {
					t.Errorf("listed twice: %v", got)
				}
				for _, g := range least {
					if !slices.Contains(got, g) {
						t.Errorf("%s is missing in %v", g, got)
					}
				}
			case kafka.ErrCoordinatorLoadInProgress:
			default:
				t.Error(code)
			}
		}
	}()
	defer func() { stop.Store(true); <-stopped }()
	for round, end := 0, time.Now().Add(time.Minute); round < 60 || complete.Load() < 10 && time.Now().Before(end); round++ {
		leader := self
		if round%2 == 0 {
			leader = 9
		}
		for n := stay; n < partitions; n++ {
			f.lead(kafka.PartitionID(n), leader)
		}
		want := here(func(n int) bool { return n < stay || leader == self })
		got, code := f.list(h)
		for end := time.Now().Add(30 * time.Second); code == kafka.ErrCoordinatorLoadInProgress && time.Now().Before(end); {
			got, code = f.list(h)
		}
		if code != 0 || !slices.Equal(got, want) {
			t.Fatalf("round %d: %v\n%s\nwant\n%s", round, code, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if n := complete.Load(); n < 10 {
		t.Errorf("%d complete answers during the moves", n)
	}
}
