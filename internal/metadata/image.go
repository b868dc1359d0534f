package metadata

import (
	"errors"

	"github.com/tidwall/btree"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// Provenance says up to where in the log an image goes.
type Provenance struct {
	EndOffset   kafka.Offset // first offset not contained
	Epoch       kafka.Epoch  // of the last record contained
	TimestampMs kafka.WallMs // append time of the batch of that record
}

// ErrUnwritable says that an image cannot be written as a snapshot: it is in a
// transaction, has no metadata.version, or holds what that level cannot carry.
var ErrUnwritable = errors.New("image cannot be written")

// Image is the metadata of the cluster at one offset. It is immutable and safe
// for concurrent readers.
type Image struct {
	provenance Provenance

	version     Version
	features    *btree.Map[string, int16]
	brokers     *btree.Map[kafka.NodeID, *Broker]
	controllers *btree.Map[kafka.NodeID, *record.RegisterController]
	topics      topics
	index       *btree.Map[kafka.NodeID, *brokerParts]
	configs     *btree.Map[string, *resourceConfig]
	quotas      *btree.Map[string, *Quota]
	scram       *btree.Map[string, *record.UserScramCredential]
	acls        *btree.Map[string, *record.AccessControlEntry]
	tokens      *btree.Map[string, *record.DelegationToken]
	producerID  kafka.ProducerID // next to hand out; −1 when never set

	inTransaction bool
	pending       []record.Message // of the open transaction, not applied yet
}

// Empty is the image before the first record.
func Empty() *Image {
	return &Image{
		provenance:  Provenance{EndOffset: 0, Epoch: kafka.NoEpoch, TimestampMs: kafka.NoTimestamp},
		features:    &btree.Map[string, int16]{},
		brokers:     &btree.Map[kafka.NodeID, *Broker]{},
		controllers: &btree.Map[kafka.NodeID, *record.RegisterController]{},
		topics:      newTopics(),
		index:       &btree.Map[kafka.NodeID, *brokerParts]{},
		configs:     &btree.Map[string, *resourceConfig]{},
		quotas:      &btree.Map[string, *Quota]{},
		scram:       &btree.Map[string, *record.UserScramCredential]{},
		acls:        &btree.Map[string, *record.AccessControlEntry]{},
		tokens:      &btree.Map[string, *record.DelegationToken]{},
		producerID:  kafka.NoProducerID,
	}
}

// fork gives a copy that a delta may change.
func (img *Image) fork() *Image {
	c := *img
	c.features, c.brokers, c.controllers = fork(img.features), fork(img.brokers), fork(img.controllers)
	c.topics, c.index = img.topics.fork(), fork(img.index)
	c.configs, c.quotas, c.scram = fork(img.configs), fork(img.quotas), fork(img.scram)
	c.acls, c.tokens = fork(img.acls), fork(img.tokens)
	return &c
}

// Provenance says up to where in the log the image goes.
func (img *Image) Provenance() Provenance { return img.provenance }

// InTransaction tells whether the log up to here ends inside a metadata
// transaction (KIP-868). The image then shows the state before it. No snapshot
// can be made of it, and a new controller must abort the transaction first.
func (img *Image) InTransaction() bool { return img.inTransaction }

// Version is the level of metadata.version, zero before the first record that
// sets it.
func (img *Image) Version() Version { return img.version }

// FeatureLevel is the level of a feature, zero when it is off.
func (img *Image) FeatureLevel(name string) int16 {
	if name == FeatureMetadataVersion {
		return int16(img.version)
	}
	level, _ := img.features.Get(name)
	return level
}

// EachFeature calls f with every feature that is on, metadata.version first.
func (img *Image) EachFeature(f func(name string, level int16)) {
	if img.version != 0 {
		f(FeatureMetadataVersion, int16(img.version))
	}
	img.features.Scan(func(name string, level int16) bool { f(name, level); return true })
}

// CanUseELR tells whether eligible leader replicas are on (KIP-966).
func (img *Image) CanUseELR() bool {
	return img.version.CanUseELR() && img.FeatureLevel(FeatureELR) > 0
}

// Broker gives a broker's registration, or nil.
func (img *Image) Broker(id kafka.NodeID) *Broker {
	b, _ := img.brokers.Get(id)
	return b
}

// EachBroker calls f with the registered brokers in order of id, until it
// returns false.
func (img *Image) EachBroker(f func(*Broker) bool) {
	img.brokers.Scan(func(_ kafka.NodeID, b *Broker) bool { return f(b) })
}

// NumBrokers is the number of registered brokers.
func (img *Image) NumBrokers() int { return img.brokers.Len() }

// Controller gives a controller's registration, or nil. It must not be changed.
func (img *Image) Controller(id kafka.NodeID) *record.RegisterController {
	c, _ := img.controllers.Get(id)
	return c
}

// EachController calls f with the registered controllers in order of id, until
// it returns false.
func (img *Image) EachController(f func(*record.RegisterController) bool) {
	img.controllers.Scan(func(_ kafka.NodeID, c *record.RegisterController) bool { return f(c) })
}

// NextProducerID is the first producer id that no broker was given, or 0.
func (img *Image) NextProducerID() kafka.ProducerID { return max(img.producerID, 0) }

func (img *Image) topic(slot int32) Topic { return Topic{img.topics.slot(slot), img.topics.dirs} }

// TopicByID finds a topic; see Topic.Exists.
func (img *Image) TopicByID(id kafka.TopicID) Topic {
	if slot, ok := img.topics.ids.find(id); ok {
		return img.topic(slot)
	}
	return Topic{}
}

// TopicByName finds a topic; see Topic.Exists.
func (img *Image) TopicByName(name string) Topic {
	if slot, ok := img.topics.byName.Get(name); ok {
		return img.topic(slot)
	}
	return Topic{}
}

// NumTopics is the number of topics.
func (img *Image) NumTopics() int { return img.topics.byName.Len() }

// NumPartitions is the number of partitions of all topics.
func (img *Image) NumPartitions() int { return img.topics.partitions }

// EachTopicFrom calls f with the topics whose name is from or after it, in
// order of name, until it returns false.
func (img *Image) EachTopicFrom(from string, f func(Topic) bool) {
	img.topics.byName.Ascend(from, func(_ string, slot int32) bool { return f(img.topic(slot)) })
}

// EachTopic calls f with all topics in order of name, until it returns false.
func (img *Image) EachTopic(f func(Topic) bool) { img.EachTopicFrom("", f) }

// Lookalike finds another topic whose name differs only in '.' and '_', which
// metrics cannot tell apart.
func (img *Image) Lookalike(name string) (other string, found bool) {
	form := lookalike(name)
	if form == "" {
		return "", false
	}
	prefix := lookalikeKey(form, "")
	img.topics.lookalikes.Ascend(prefix, func(key string, _ struct{}) bool {
		if len(key) < len(prefix) || key[:len(prefix)] != prefix {
			return false
		}
		if other = key[len(prefix):]; other != name {
			found = true
			return false
		}
		return true
	})
	return other, found
}
