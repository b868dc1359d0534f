package metadata

import (
	"fmt"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// Delta is a change of an image: it takes records and then gives the next
// image. It belongs to one goroutine until Apply; after that it only tells what
// changed, and is safe for concurrent readers.
type Delta struct {
	base    *Image
	next    *Image
	applied bool

	topics      map[int32]*topicWork // by slot
	slab        []topicWork          // room for more of them
	last        *topicWork           // records of one topic come together
	removed     map[kafka.TopicID]bool
	diffed      []TopicChange        // of Diff, instead of topics
	freed       []int32              // slots of deleted topics, free after Apply
	ownGroup    []*[groupChunks]bool // groups and chunks that next does not share
	ids         idWriter
	index       indexer
	ownDirs     bool
	brokers     map[kafka.NodeID]struct{}
	controllers map[kafka.NodeID]struct{}
	configs     map[Resource]struct{}
	features    map[string]struct{}
	security    Security
}

// Security says which of the small tables changed.
type Security struct {
	Quotas, SCRAM, ACLs, DelegationTokens bool
}

// NewDelta starts a change of base, which stays as it is.
func NewDelta(base *Image) *Delta {
	next := base.fork()
	return &Delta{
		base: base, next: next,
		ids: idWriter{topicIDs: &next.topics.ids}, index: indexer{index: next.index, owned: map[kafka.NodeID]*brokerParts{}},
		topics:  map[int32]*topicWork{},
		brokers: map[kafka.NodeID]struct{}{}, controllers: map[kafka.NodeID]struct{}{},
		configs: map[Resource]struct{}{}, features: map[string]struct{}{},
	}
}

// Replay applies one record. An error means that the record contradicts the
// state; it is fatal for whoever follows the log, and the delta is useless
// then. The record must not be changed afterwards.
func (d *Delta) Replay(m record.Message) error {
	if d.applied {
		panic("metadata: Replay after Apply")
	}
	if err := d.replay(m); err != nil {
		return fmt.Errorf("metadata: cannot apply %s: %w", m.Kind(), err)
	}
	return nil
}

// replay keeps records of a transaction aside and applies all others.
func (d *Delta) replay(m record.Message) error {
	switch m.(type) {
	case *record.BeginTransaction:
		if d.next.inTransaction {
			return fmt.Errorf("a transaction is open already")
		}
		d.next.inTransaction = true
		return nil
	case *record.EndTransaction, *record.AbortTransaction:
		if !d.next.inTransaction {
			return fmt.Errorf("no transaction is open")
		}
		pending := d.next.pending
		d.next.inTransaction, d.next.pending = false, nil
		if _, abort := m.(*record.AbortTransaction); abort {
			return nil
		}
		for _, p := range pending {
			if err := d.apply(p); err != nil {
				return fmt.Errorf("%s of the transaction: %w", p.Kind(), err)
			}
		}
		return nil
	}
	if d.next.inTransaction {
		// Clip, so that two deltas of one image do not share the tail.
		d.next.pending = append(slices.Clip(d.next.pending), m)
		return nil
	}
	return d.apply(m)
}

// apply changes next by one record.
func (d *Delta) apply(m record.Message) error {
	switch m := m.(type) {
	case *record.Topic:
		return d.replayTopic(m)
	case *record.Partition:
		return d.replayPartition(m)
	case *record.PartitionChange:
		return d.replayPartitionChange(m)
	case *record.RemoveTopic:
		return d.replayRemoveTopic(m)
	case *record.ClearELR:
		return d.replayClearELR(m)
	case *record.RegisterBroker:
		d.setBroker(brokerOf(m))
		return nil
	case *record.UnregisterBroker:
		return d.replayUnregisterBroker(m)
	case *record.FenceBroker:
		return d.changeBroker(m.ID, m.Epoch, func(b *Broker) { b.Fenced = true })
	case *record.UnfenceBroker:
		return d.changeBroker(m.ID, m.Epoch, func(b *Broker) { b.Fenced = false })
	case *record.BrokerRegistrationChange:
		return d.replayBrokerChange(m)
	case *record.RegisterController:
		d.next.controllers.Set(m.ControllerID, m)
		d.controllers[m.ControllerID] = struct{}{}
		return nil
	case *record.UnregisterController:
		return d.replayUnregisterController(m)
	}
	return d.applySetting(m)
}

// Apply gives the next image, which ends at p. The delta takes no more records.
func (d *Delta) Apply(p Provenance) *Image {
	if d.applied {
		panic("metadata: Apply twice")
	}
	d.applied = true
	d.applyTopics()
	d.next.provenance = p
	return d.next
}

// Base is the image that the delta started from.
func (d *Delta) Base() *Image { return d.base }

// Image is the image that Apply gave; nil before.
func (d *Delta) Image() *Image {
	if !d.applied {
		return nil
	}
	return d.next
}
