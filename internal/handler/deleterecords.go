package handler

// DeleteRecords. The answer waits until the replicas have followed, or until the
// client's time is over (DelayedDeleteRecords).

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
)

// deletion is one DeleteRecords on its way. It belongs to one goroutine at a time.
type deletion struct {
	h        *Handler
	c        call
	req      *kmsg.DeleteRecordsRequest
	results  map[kafka.TopicPartition]*deletedPartition
	pending  []*deletedPartition
	deadline kafka.Mono
	waiter   *partition.Waiter
	parts    []*partition.Partition // that it watches
	gone     atomic.Bool            // the client
}

type deletedPartition struct {
	part *partition.Partition
	upTo kafka.Offset
	low  kafka.Offset
	code kafka.ErrorCode
	news uint64
}

func (h *Handler) deleteRecords(c *call) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	if !c.decode(req) {
		return
	}
	d := &deletion{
		h: h, c: *c, req: req, results: map[kafka.TopicPartition]*deletedPartition{},
		deadline: h.opts.Now().Mono.Add(time.Duration(req.TimeoutMillis) * time.Millisecond),
	}
	d.begin(h.opts.Image())
	if d.settled(h.opts.Image()) || req.TimeoutMillis <= 0 {
		d.answer()
		return
	}
	d.park()
}

// begin moves the starts of all logs. Of a partition that is named twice the
// last offset counts, as in Kafka.
func (d *deletion) begin(img *metadata.Image) {
	offsets := map[kafka.TopicPartition]kafka.Offset{}
	for _, t := range d.req.Topics {
		for _, p := range t.Partitions {
			offsets[kafka.TopicPartition{Topic: t.Topic, Partition: kafka.PartitionID(p.Partition)}] = kafka.Offset(p.Offset)
		}
	}
	for tp, upTo := range offsets {
		r := d.h.deleteFrom(img, tp, upTo)
		d.results[tp] = r
		if r.code == 0 {
			d.pending = append(d.pending, r)
		}
	}
}

func (h *Handler) deleteFrom(img *metadata.Image, tp kafka.TopicPartition, upTo kafka.Offset) *deletedPartition {
	r := &deletedPartition{low: kafka.NoOffset}
	topic := img.TopicByName(tp.Topic)
	_, _, exists := topic.Leader(tp.Partition)
	switch {
	case !exists:
		r.code = kafka.ErrUnknownTopicOrPartition
	case kafka.IsInternalTopic(tp.Topic):
		r.code = kafka.ErrInvalidTopicException
	default:
		if r.part, r.code = h.find(topic, tp.Partition); r.code == 0 {
			r.upTo, r.code = r.part.DeleteRecords(upTo)
		}
	}
	return r
}

// settled looks at those that wait, and tells whether none is left.
func (d *deletion) settled(img *metadata.Image) bool {
	alive := func(id kafka.NodeID) bool { b := img.Broker(id); return b != nil && !b.Fenced }
	left := d.pending[:0]
	for _, r := range d.pending {
		r.news = r.part.News()
		low, code := r.part.LowWatermark(alive)
		r.low, r.code = low, code
		if code == 0 && low < r.upTo {
			r.code = kafka.ErrRequestTimedOut // unless it comes in time
			left = append(left, r)
		}
	}
	d.pending = left
	return len(left) == 0
}

// park waits for news of the partitions, the deadline, or the end of the
// connection. As soon as somebody may wake, only copies are touched.
func (d *deletion) park() {
	parts, seen := make([]*partition.Partition, len(d.pending)), make([]uint64, len(d.pending))
	for i, r := range d.pending {
		parts[i], seen[i] = r.part, r.news
	}
	w := partition.NewWaiter(d.wake)
	d.waiter, d.parts = w, parts
	deadlines, deadline := d.h.opts.Store.Deadlines, d.deadline
	if !d.c.OnGone(func() { d.gone.Store(true); w.Fire() }) {
		d.gone.Store(true)
		w.Fire()
	}
	deadlines.Add(w, deadline)
	for i, p := range parts {
		p.Watch(w)
		if p.News() != seen[i] {
			w.Fire() // what came between looking and watching has woken nobody
		}
	}
	if w.Fired() {
		unwatch(deadlines, w, parts)
	}
}

func (d *deletion) wake() {
	unwatch(d.h.opts.Store.Deadlines, d.waiter, d.parts)
	if d.gone.Load() {
		d.c.NoReply()
		return
	}
	if d.settled(d.h.opts.Image()) || d.h.opts.Now().Mono >= d.deadline {
		d.answer()
		return
	}
	d.park()
}

func (d *deletion) answer() {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	at := map[string]int{}
	for _, q := range d.req.Topics {
		for _, p := range q.Partitions {
			tp := kafka.TopicPartition{Topic: q.Topic, Partition: kafka.PartitionID(p.Partition)}
			r, ok := d.results[tp]
			if !ok {
				continue // answered already
			}
			delete(d.results, tp)
			i, ok := at[q.Topic]
			if !ok {
				i = len(resp.Topics)
				at[q.Topic] = i
				resp.Topics = append(resp.Topics, kmsg.DeleteRecordsResponseTopic{Topic: q.Topic})
			}
			m := kmsg.NewDeleteRecordsResponseTopicPartition()
			m.Partition, m.LowWatermark, m.ErrorCode = p.Partition, int64(r.low), int16(r.code)
			resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, m)
		}
	}
	d.c.reply(resp)
}
