package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"moldau/internal/kafka"
)

const (
	// maxAsked bounds the partitions of one request.
	maxAsked = 1000
	// askAgain is how long an answer may take to show in the log before the
	// partition is asked for again.
	askAgain = 500 * time.Millisecond
)

// Led is a partition that this broker leads while others are in its in-sync
// set. It asks to be alone there: it does not copy data to them, and an in-sync
// set must not say that they have it.
type Led struct {
	LeaderEpoch    kafka.Epoch
	PartitionEpoch int32
}

// Asks is what this broker wants the log to say of partitions, and how the log
// says otherwise now: T. It decides what to ask of the controller and when; the
// answer that counts is the log's. The zero value is ready.
type Asks[T comparable] struct {
	wanted   map[kafka.TopicIDPartition]*ask[T]
	sent     []kafka.TopicIDPartition // the request that is under way
	inFlight bool
}

type ask[T comparable] struct {
	of    T
	after kafka.Mono // not before it
}

// Asked is one partition of a request.
type Asked[T comparable] struct {
	kafka.TopicIDPartition
	Of T
}

// Want says that the newest metadata is not as it should be.
func (a *Asks[T]) Want(p kafka.TopicIDPartition, of T) {
	if a.wanted == nil {
		a.wanted = map[kafka.TopicIDPartition]*ask[T]{}
	}
	if w := a.wanted[p]; w == nil || w.of != of {
		a.wanted[p] = &ask[T]{of: of}
	}
}

// Settled says that the newest metadata asks for nothing.
func (a *Asks[T]) Settled(p kafka.TopicIDPartition) { delete(a.wanted, p) }

// Next gives the partitions to ask for now, those of a topic together; nil if
// there are none or a request is under way.
func (a *Asks[T]) Next(now kafka.Now) []Asked[T] {
	if a.inFlight || len(a.wanted) == 0 {
		return nil
	}
	var due []Asked[T]
	for p, w := range a.wanted {
		if w.after <= now.Mono {
			due = append(due, Asked[T]{p, w.of})
		}
	}
	slices.SortFunc(due, func(x, y Asked[T]) int {
		return cmp.Or(slices.Compare(x.TopicID[:], y.TopicID[:]), cmp.Compare(x.Partition, y.Partition))
	})
	due = due[:min(len(due), maxAsked)]
	a.sent = a.sent[:0]
	for _, l := range due {
		a.sent = append(a.sent, l.TopicIDPartition)
	}
	a.inFlight = len(due) > 0
	return due
}

// Answered says that the request has an answer, whatever it is.
func (a *Asks[T]) Answered(now kafka.Now) {
	a.inFlight = false
	for _, p := range a.sent {
		if w := a.wanted[p]; w != nil {
			w.after = now.Mono.Add(askAgain)
		}
	}
}

// Deadline is when Next may have something, if nothing else happens.
func (a *Asks[T]) Deadline() kafka.Mono {
	next := kafka.Never
	if !a.inFlight {
		for _, w := range a.wanted {
			next = min(next, w.after)
		}
	}
	return next
}
