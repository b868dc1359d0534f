package handler

// Fetch. v7: sessions (KIP-227); v11: rack; v12: diverging epoch; v13: topic
// ids; v15: replica state; v16: who leads now (KIP-951); v17, v18: for followers.

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
	"moldau/internal/session"
	"moldau/internal/wire"
)

// fetching is a Fetch under way.
type fetching struct {
	h         *Handler
	c         call
	img       *metadata.Image
	minBytes  int
	maxBytes  int
	deadline  kafka.Mono
	committed bool
	s         session.Fetch
	parts     []*partition.Partition // beside s.Targets; nil: there is none here
	news      []uint64               // beside parts, as it was before the read
	parked    int                    // partitions counted in h.parked
	results   []wire.FetchResult     // beside s.Targets
	waiter    *partition.Waiter
	gone      atomic.Bool

	// Memory that serves one fetch after the other, as long as none has parked.
	req    wire.FetchRequest
	q      session.Request
	told   []session.Told
	chosen []int
}

// maxKeptTargets bounds what a fetch that is kept for reuse may hold.
const maxKeptTargets = 1000

func (h *Handler) takeFetch() *fetching {
	select {
	case f := <-h.fetches:
		return f
	default:
		return &fetching{}
	}
}

// giveFetch keeps the memory of a fetch that nobody else has seen.
func (h *Handler) giveFetch(f *fetching) {
	if len(f.s.Targets) > maxKeptTargets || len(f.q.Keys) > maxKeptTargets {
		return
	}
	clear(f.results)
	clear(f.parts)
	clear(f.s.Targets)
	clear(f.q.Keys)
	f.c, f.img = call{}, nil
	select {
	case h.fetches <- f:
	default:
	}
}

func (h *Handler) fetch(c *call) {
	f := h.takeFetch()
	req := &f.req
	if err := req.Decode(c.body, c.Version); err != nil {
		c.Drop(fmt.Errorf("Fetch version %d: %w", c.Version, err))
		return
	}
	now := h.opts.Now().Mono
	f.h, f.c, f.img, f.committed = h, *c, h.opts.Image(), req.ReadCommitted
	f.minBytes, f.maxBytes = int(req.MinBytes), min(int(req.MaxBytes), h.opts.FetchMaxBytes)
	f.deadline = now.Add(time.Duration(req.MaxWaitMs) * time.Millisecond)
	f.sessionRequest()
	h.sessionsMu.Lock()
	f.s = h.sessions.Begin(now, f.q)
	h.sessionsMu.Unlock()
	f.q.Memory = f.s.Targets
	n := len(f.s.Targets)
	f.results, f.parts, f.news = resized(f.results, n), resized(f.parts, n), resized(f.news, n)
	switch {
	case f.s.Code != 0:
		f.answer()
	case req.ReplicaID >= 0:
		f.refuse(kafka.ErrNotLeaderForPartition) // copies between brokers come with replication
	case f.read() || req.MaxWaitMs <= 0 || !f.mayPark():
		f.answer()
	default:
		f.letWait()
		return
	}
	h.giveFetch(f)
}

// resized gives a slice of n elements, in the same memory if it has room.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// letWait gives back what a waiting fetch need not hold, and parks.
func (f *fetching) letWait() {
	f.c.FreeFrame()
	f.c.body, f.c.ClientID = nil, nil
	f.req, f.q = wire.FetchRequest{}, session.Request{}
	f.park()
}

// maxParkedPartitions bounds the partitions of all fetches that wait, which is
// what they take of memory; one that does not fit is answered at once.
const maxParkedPartitions = 2_000_000

func (f *fetching) mayPark() bool {
	n := len(f.parts)
	if f.h.parked.Add(int64(n)) > maxParkedPartitions {
		f.h.parked.Add(-int64(n))
		return false
	}
	f.parked = n
	return true
}

// sessionRequest fills in the part of the request that concerns its session.
func (f *fetching) sessionRequest() {
	req, q := &f.req, &f.q
	*q = session.Request{
		SessionID: req.SessionID, SessionEpoch: req.SessionEpoch,
		UsesIDs: f.c.Version >= 13, Follower: req.ReplicaID >= 0,
		Keys: q.Keys[:0], Wants: q.Wants[:0], Forget: q.Forget[:0], Memory: q.Memory[:0],
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		key := session.Key{ID: t.ID, Name: string(t.Name)}
		for _, p := range req.Partitions[t.First:t.End] {
			key.Partition = p.Index
			q.Keys = append(q.Keys, key)
			q.Wants = append(q.Wants, session.Want{
				Offset: p.Offset, MaxBytes: p.MaxBytes, CurrentLeaderEpoch: p.CurrentLeaderEpoch,
				LastFetchedEpoch: p.LastFetchedEpoch, LogStart: p.LogStart,
			})
		}
	}
	for i := range req.Forgotten {
		t := &req.Forgotten[i]
		key := session.Key{ID: t.ID, Name: string(t.Name)}
		for _, n := range req.ForgottenParts[t.First:t.End] {
			key.Partition = n
			q.Forget = append(q.Forget, key)
		}
	}
}

func (f *fetching) refuse(code kafka.ErrorCode) {
	for i := range f.results {
		f.results[i] = fetchError(f.s.Targets[i].Partition, code)
	}
	f.answer()
}

func fetchError(n kafka.PartitionID, code kafka.ErrorCode) wire.FetchResult {
	return wire.FetchResult{
		Index: n, Code: code, HighWatermark: kafka.NoOffset, LastStableOffset: kafka.NoOffset,
		LogStart: kafka.NoOffset, PreferredRead: kafka.NoNode, CurrentLeader: kafka.NoNode, HasAborted: true,
	}
}

// read reads all targets once and tells whether the answer need not wait:
// there is enough, or an error, or nobody to wait for (ReplicaManager.fetchMessages).
// Partitions that do not exist are no reason not to wait for the others.
func (f *fetching) read() bool {
	room, got, waitFor, trouble, full := f.maxBytes, 0, 0, false, false
	for i := range f.s.Targets {
		t := &f.s.Targets[i]
		p, code := f.resolve(t)
		f.parts[i] = p
		if code != 0 {
			f.results[i] = fetchError(t.Partition, code)
			trouble = trouble || code == kafka.ErrNotLeaderForPartition
			continue
		}
		waitFor++
		f.news[i] = p.News()
		limit := max(min(int(t.MaxBytes), room), 0)
		res := p.Read(partition.ReadRequest{
			Offset: t.Offset, LeaderEpoch: t.CurrentLeaderEpoch, CheckEpoch: t.LastFetchedEpoch != kafka.NoEpoch, LastFetchedEpoch: t.LastFetchedEpoch, MaxBytes: limit,
			MinOne: got == 0, ReadCommitted: f.committed,
		})
		if res.Records != nil {
			n := res.Records.Len()
			got += n
			room -= n
			full = full || n >= int(t.MaxBytes)
		}
		trouble = trouble || res.Code != 0 || res.Diverging != nil
		f.results[i] = res
	}
	return got >= f.minBytes || trouble || full || waitFor == 0
}

// resolve finds the partition of a target.
func (f *fetching) resolve(t *session.Target) (*partition.Partition, kafka.ErrorCode) {
	var topic metadata.Topic
	missing := kafka.ErrUnknownTopicOrPartition
	if f.c.Version >= 13 {
		topic, missing = f.img.TopicByID(t.ID), kafka.ErrUnknownTopicID
	} else {
		topic = f.img.TopicByName(t.Name)
	}
	if !topic.Exists() {
		return nil, missing
	}
	return f.h.find(topic, t.Partition)
}

func (f *fetching) release() {
	for i := range f.results {
		if r := f.results[i].Records; r != nil {
			r.Release()
			f.results[i].Records = nil
		}
	}
}

// park waits for news of the partitions, or the deadline, or the end of the
// connection. From OnGone on, wake may run beside it and own f, and the place
// of the answer may be another request's; park then only touches copies.
func (f *fetching) park() {
	parts, before, deadline := slices.Clone(f.parts), slices.Clone(f.news), f.deadline
	f.release()
	w := partition.NewWaiter(f.wake)
	f.waiter = w
	deadlines := f.h.opts.Store.Deadlines
	if !f.c.OnGone(func() { f.gone.Store(true); w.Fire() }) {
		f.gone.Store(true)
		w.Fire()
	}
	deadlines.Add(w, deadline)
	news := false
	for i, p := range parts {
		if p != nil {
			p.Watch(w)
			// What came between reading and watching has woken nobody.
			news = news || p.News() != before[i]
		}
	}
	if news {
		w.Fire()
	}
	if w.Fired() { // perhaps before the last Watch: leave nothing behind
		unwatch(deadlines, w, parts)
	}
}

func unwatch(d *partition.Deadlines, w *partition.Waiter, parts []*partition.Partition) {
	d.Remove(w)
	for _, p := range parts {
		if p != nil {
			p.Unwatch(w)
		}
	}
}

// wake runs once, on its own goroutine, when there is news.
func (f *fetching) wake() {
	unwatch(f.h.opts.Store.Deadlines, f.waiter, f.parts)
	f.img = f.h.opts.Image()
	if f.gone.Load() {
		f.h.parked.Add(-int64(f.parked))
		f.c.NoReply()
		return
	}
	if f.read() || f.h.opts.Now().Mono >= f.deadline {
		f.answer()
		return
	}
	f.park()
}

// answer settles the session and sends what was read.
func (f *fetching) answer() {
	f.h.parked.Add(-int64(f.parked))
	f.told = resized(f.told, len(f.results))
	for i := range f.results {
		r := &f.results[i]
		f.told[i] = session.Told{
			HighWatermark: r.HighWatermark, LogStart: r.LogStart, Error: r.Code != 0, Records: r.Records != nil,
			Notable: r.Records != nil || r.Code != 0 || r.Diverging != nil || r.PreferredRead >= 0,
		}
	}
	f.h.sessionsMu.Lock()
	id, include := f.h.sessions.Finish(f.h.opts.Now().Mono, &f.s, f.told)
	f.h.sessionsMu.Unlock()
	f.c.Reply(f.encode(id, include))
}

func (f *fetching) encode(id int32, include []bool) *wire.Response {
	chosen := f.chosen[:0]
	topics := 0
	for i := range f.results {
		if include != nil && !include[i] {
			continue
		}
		if len(chosen) == 0 || !f.sameTopic(chosen[len(chosen)-1], i) {
			topics++
		}
		chosen = append(chosen, i)
	}
	f.chosen = chosen
	resp := f.c.start()
	resp.FetchHead(f.c.Version, f.s.Code, id, topics)
	var leaders []wire.NodeEndpoint
	for n := 0; n < len(chosen); {
		end := n + 1
		for end < len(chosen) && f.sameTopic(chosen[n], chosen[end]) {
			end++
		}
		t := &f.s.Targets[chosen[n]]
		resp.FetchTopic(f.c.Version, t.Name, t.ID, end-n)
		for ; n < end; n++ {
			r := &f.results[chosen[n]]
			resp.FetchPartition(f.c.Version, r)
			leaders = f.h.addLeader(leaders, &f.c, f.img, r.CurrentLeader)
		}
		resp.FetchTopicEnd(f.c.Version)
	}
	resp.FetchTail(f.c.Version, leaders)
	return resp
}

func (f *fetching) sameTopic(i, j int) bool {
	a, b := &f.s.Targets[i].Key, &f.s.Targets[j].Key
	return a.ID == b.ID && a.Name == b.Name
}
