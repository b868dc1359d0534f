package sim

import (
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// transactionChecker: an image shows all of a metadata transaction or nothing
// (HC-042). It has its own account of where transactions are and how many topics
// there were when one began.
type transactionChecker struct {
	w      *World
	spans  []span
	open   bool
	topics int
}

// span is from the record after BeginTransaction to behind the last one;
// topics is the number of topics that every image inside it shows.
type span struct {
	from, to kafka.Offset
	topics   int
}

func (c *transactionChecker) committed(base kafka.Offset, records []record.Message) {
	for i, m := range records {
		at := base + kafka.Offset(i)
		switch m.(type) {
		case *record.BeginTransaction:
			c.open, c.spans = true, append(c.spans, span{at + 1, 1<<63 - 1, c.topics})
		case *record.EndTransaction, *record.AbortTransaction:
			c.open, c.spans[len(c.spans)-1].to = false, at
		}
	}
	if !c.open {
		c.topics = c.w.check.images.img.NumTopics()
	}
}

func (c *transactionChecker) published(n *node, img *metadata.Image) {
	end := img.Provenance().EndOffset
	for i := len(c.spans) - 1; i >= 0 && c.spans[i].to >= end; i-- {
		if s := c.spans[i]; s.from <= end && (img.NumTopics() != s.topics || !img.InTransaction()) {
			c.w.violate("transaction", "node %d shows %d topics at offset %d, inside a transaction that began with %d", n.id, img.NumTopics(), end, s.topics)
		}
	}
}
