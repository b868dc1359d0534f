package kafka

import "strconv"

// Offset is a position in a log: the number of a record, or, where a name says
// so (end offset, high watermark, log start), the first number not covered.
// Valid record offsets are ≥ 0.
type Offset int64

// NoOffset stands for "no offset known" in Kafka's protocol and files.
const NoOffset Offset = -1

// Epoch is a leader epoch, of a partition or of the metadata quorum. It only
// rises. The first leader of a partition has epoch 0.
type Epoch int32

// NoEpoch stands for "no epoch known".
const NoEpoch Epoch = -1

// NodeID names a broker or controller; ≥ 0.
type NodeID int32

// NoNode stands for "nobody": no leader, no voted candidate.
const NoNode NodeID = -1

// BrokerEpoch identifies one registration of a broker: the metadata offset at
// which the controller decided it (KIP-500, KIP-631). −1 when not registered.
type BrokerEpoch int64

// NoBrokerEpoch is the epoch of a broker that is not registered.
const NoBrokerEpoch BrokerEpoch = -1

// PartitionID is the index of a partition within its topic; ≥ 0.
type PartitionID int32

// ProducerID identifies an idempotent or transactional producer. −1 for none.
type ProducerID int64

// NoProducerID marks a batch of a producer that is not idempotent.
const NoProducerID ProducerID = -1

// ProducerEpoch fences older incarnations of a producer. −1 for none.
type ProducerEpoch int16

// NoProducerEpoch accompanies NoProducerID.
const NoProducerEpoch ProducerEpoch = -1

// Sequence is the number of a record within (producer id, epoch, partition).
// It wraps from 2147483647 to 0. −1 for none.
type Sequence int32

// NoSequence marks a batch of a producer that is not idempotent.
const NoSequence Sequence = -1

// Add gives the sequence n records later; it wraps as Kafka's
// DefaultRecordBatch.incrementSequence does. s and n are ≥ 0.
func (s Sequence) Add(n int32) Sequence {
	const limit = int64(1) << 31
	return Sequence((int64(s) + int64(n)) % limit)
}

// TopicPartition names a partition by its topic's name.
type TopicPartition struct {
	Topic     string
	Partition PartitionID
}

// String gives Kafka's form, "topic-3", which is also the name of the
// partition's folder.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// TopicIDPartition names a partition by its topic's id, which a topic that is
// deleted and created again does not share with its predecessor.
type TopicIDPartition struct {
	TopicID   TopicID
	Partition PartitionID
}

// OffsetAndEpoch is an offset with the epoch of the record before it (for end
// offsets and snapshot ids) or at it (for positions).
type OffsetAndEpoch struct {
	Offset Offset
	Epoch  Epoch
}

// Security protocols of a listener, with the numbers that Kafka writes into
// registration records.
const (
	Plaintext     SecurityProtocol = 0
	SSL           SecurityProtocol = 1
	SASLPlaintext SecurityProtocol = 2
	SASLSSL       SecurityProtocol = 3
)

// SecurityProtocol says how a listener is protected.
type SecurityProtocol int16

// String gives Kafka's name of the protocol.
func (p SecurityProtocol) String() string {
	switch p {
	case Plaintext:
		return "PLAINTEXT"
	case SSL:
		return "SSL"
	case SASLPlaintext:
		return "SASL_PLAINTEXT"
	case SASLSSL:
		return "SASL_SSL"
	}
	return "SecurityProtocol(" + strconv.Itoa(int(p)) + ")"
}

// Endpoint is an address at which a node can be reached, as written into
// registration and voters records.
type Endpoint struct {
	Name     string // listener name, e.g. "PLAINTEXT"
	Host     string
	Port     uint16
	Protocol SecurityProtocol
}

// Names of the topics that the server itself keeps.
const (
	ClusterMetadataTopic  = "__cluster_metadata"
	ConsumerOffsetsTopic  = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
	ShareGroupStateTopic  = "__share_group_state"
)

// IsInternalTopic tells whether Metadata answers mark the topic as internal
// (Kafka's Topic.INTERNAL_TOPICS).
func IsInternalTopic(name string) bool {
	switch name {
	case ConsumerOffsetsTopic, TransactionStateTopic, ShareGroupStateTopic:
		return true
	}
	return false
}
