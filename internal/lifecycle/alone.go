package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"moldau/internal/kafka"
)

const (
	// maxAlone bounds the partitions of one request.
	maxAlone = 1000
	// aloneRetry is how long an answer may take to show in the log before the
	// partition is asked for again.
	aloneRetry = 500 * time.Millisecond
)

// Led is a partition that this broker leads while others are in its in-sync set.
type Led struct {
	kafka.TopicIDPartition
	LeaderEpoch    kafka.Epoch
	PartitionEpoch int32
}

// Alone takes the other replicas out of the in-sync sets of what this broker
// leads: it does not copy data to them, and an in-sync set must not say that
// they have it. It decides what to ask of the controller and when; the answer
// that counts is the log's. The zero value is ready.
type Alone struct {
	wanted   map[kafka.TopicIDPartition]*alone
	sent     []kafka.TopicIDPartition // the request that is under way
	inFlight bool
}

type alone struct {
	led   Led
	after kafka.Mono // not before it
}

// Leads says that the newest metadata shows the partition so.
func (a *Alone) Leads(l Led) {
	if a.wanted == nil {
		a.wanted = map[kafka.TopicIDPartition]*alone{}
	}
	if w := a.wanted[l.TopicIDPartition]; w == nil || w.led != l {
		a.wanted[l.TopicIDPartition] = &alone{led: l}
	}
}

// Settled says that the newest metadata asks for nothing: this broker is alone
// in sync, or does not lead.
func (a *Alone) Settled(p kafka.TopicIDPartition) { delete(a.wanted, p) }

// Next gives the partitions to ask for now; nil if there are none or a request
// is under way.
func (a *Alone) Next(now kafka.Now) []Led {
	if a.inFlight || len(a.wanted) == 0 {
		return nil
	}
	var due []Led
	for _, w := range a.wanted {
		if w.after <= now.Mono {
			due = append(due, w.led)
		}
	}
	slices.SortFunc(due, func(x, y Led) int {
		return cmp.Or(slices.Compare(x.TopicID[:], y.TopicID[:]), cmp.Compare(x.Partition, y.Partition))
	})
	due = due[:min(len(due), maxAlone)]
	a.sent = a.sent[:0]
	for _, l := range due {
		a.sent = append(a.sent, l.TopicIDPartition)
	}
	a.inFlight = len(due) > 0
	return due
}

// Answered says that the request has an answer, whatever it is.
func (a *Alone) Answered(now kafka.Now) {
	a.inFlight = false
	for _, p := range a.sent {
		if w := a.wanted[p]; w != nil {
			w.after = now.Mono.Add(aloneRetry)
		}
	}
}

// Deadline is when Next may have something, if nothing else happens.
func (a *Alone) Deadline() kafka.Mono {
	next := kafka.Never
	if !a.inFlight {
		for _, w := range a.wanted {
			next = min(next, w.after)
		}
	}
	return next
}
