package group

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// Versions of the values of committed offsets: the one that Kafka 4.4 writes, and
// the only one that carries a time of expiry, which old clients choose.
const (
	offsetVersion       = 4
	expiryOffsetVersion = 1
)

// Versions of OffsetCommit with other rules.
const (
	// groupNotFoundSince: a commit of a member to a group that does not exist.
	groupNotFoundSince = 9
	noRetentionSince   = 5
)

// commitOffsets serves OffsetCommit (OffsetMetadataManager.commitOffset).
func (c *Coordinator) commitOffsets(r *coordinator.Request, q *kmsg.OffsetCommitRequest) {
	code := c.checkCommit(q)
	expireMs := kafka.NoTimestamp
	if q.Version < noRetentionSince && q.RetentionTimeMillis >= 0 {
		expireMs = c.now.Wall + kafka.WallMs(min(q.RetentionTimeMillis, math.MaxInt64-int64(c.now.Wall)))
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(q.Topics))
	for i := range q.Topics {
		t := &q.Topics[i]
		rt := &resp.Topics[i]
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		rt.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			rp := &rt.Partitions[j]
			rp.Partition, rp.ErrorCode = p.Partition, int16(code)
			switch {
			case code != 0:
			case c.tooLong(p.Metadata) || expireMs != kafka.NoTimestamp && p.Metadata != nil && len(*p.Metadata) > math.MaxInt16:
				rp.ErrorCode = int16(kafka.ErrOffsetMetadataTooLarge)
			default:
				c.writeOffset(q.Group, t, p, expireMs)
			}
		}
	}
	c.reply(r.Token, resp)
}

func (c *Coordinator) writeOffset(group string, t *kmsg.OffsetCommitRequestTopic, p *kmsg.OffsetCommitRequestTopicPartition, expireMs kafka.WallMs) {
	v := record.NewOffsetCommitValue()
	v.Offset, v.LeaderEpoch, v.CommitTimestamp, v.TopicID = kafka.Offset(p.Offset), kafka.Epoch(p.LeaderEpoch), c.now.Wall, t.TopicID
	if p.Metadata != nil {
		v.Metadata = *p.Metadata
	}
	version := int16(offsetVersion)
	if expireMs != kafka.NoTimestamp {
		// That version has room for neither epoch nor topic id.
		version, v.ExpireTimestamp, v.LeaderEpoch, v.TopicID = expiryOffsetVersion, expireMs, kafka.NoEpoch, kafka.TopicID{}
	}
	c.write(&record.OffsetCommitKey{Group: group, Topic: t.Topic, Partition: kafka.PartitionID(p.Partition)}, v, version)
}

// tooLong tells whether a commit's metadata is longer than allowed, in UTF-16
// units.
func (c *Coordinator) tooLong(metadata *string) bool {
	if metadata == nil || len(*metadata) <= int(c.opts.MaxMetadataSize) {
		return false
	}
	units := 0
	for _, r := range *metadata {
		if units++; r > 0xffff && r != utf8.RuneError {
			units++
		}
	}
	return units > int(c.opts.MaxMetadataSize)
}

// checkCommit tells whether the commit may be made (HC-101). Like a heartbeat, it
// keeps the member's session.
func (c *Coordinator) checkCommit(q *kmsg.OffsetCommitRequest) kafka.ErrorCode {
	g := c.group(q.Group)
	switch {
	case len(q.Group) > maxText:
		return kafka.ErrInvalidGroupID
	case g == nil && q.Generation < 0:
		return 0 // the offset makes the group
	case g == nil && q.Version >= groupNotFoundSince:
		return kafka.ErrGroupIDNotFound
	case g == nil:
		return kafka.ErrIllegalGeneration
	case g.foreign != nil:
		return g.foreign.commit(q.MemberID, q.Generation)
	}
	m := g.seen()
	if m.state == empty && q.Generation < 0 {
		return 0 // a tool, or a consumer that assigns by itself
	}
	if q.Generation < 0 && q.MemberID == "" && q.InstanceID == nil {
		return kafka.ErrUnknownMemberID // somebody else's group
	}
	n, code := m.check(q.MemberID, q.InstanceID)
	switch {
	case code != 0:
		return code
	case q.Generation != m.generation:
		return kafka.ErrIllegalGeneration
	case m.state == completingRebalance:
		return kafka.ErrRebalanceInProgress
	}
	c.restartSession(n)
	return 0
}

// fetchOffsets serves one group of an OffsetFetch.
func (c *Coordinator) fetchOffsets(r *coordinator.Request, q *FetchOffsets) {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = q.Group.Group
	g := c.group(q.Group.Group)
	if g != nil && g.foreign != nil {
		if resp.ErrorCode = int16(g.foreign.fetch(&q.Group)); resp.ErrorCode != 0 {
			c.reply(r.Token, &resp)
			return
		}
	}
	if g == nil {
		g = &group{}
	}
	if q.Group.Topics == nil {
		resp.Topics = g.allOffsets(q.RequireStable)
		c.reply(r.Token, &resp)
		return
	}
	resp.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(q.Group.Topics))
	for i := range q.Group.Topics {
		t := &q.Group.Topics[i]
		rt := &resp.Topics[i]
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		rt.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
		for j, p := range t.Partitions {
			rt.Partitions[j] = g.fetched(offsetKey{t.Topic, kafka.PartitionID(p)}, t.TopicID, q.RequireStable)
		}
	}
	c.reply(r.Token, &resp)
}

// fetch checks who reads offsets of a group of another kind: tools always, a
// member in its epoch (ConsumerGroup.validateOffsetFetch).
func (f *foreign) fetch(q *kmsg.OffsetFetchRequestGroup) kafka.ErrorCode {
	if f.kind == shareKind {
		return kafka.ErrGroupIDNotFound
	}
	if (q.MemberID == nil || *q.MemberID == "") && q.MemberEpoch < 0 {
		return 0
	}
	id := ""
	if q.MemberID != nil {
		id = *q.MemberID
	}
	return f.check(id, q.MemberEpoch)
}

// fetched is the answer for one partition. An offset that was committed for
// another topic of the same name does not count.
func (g *group) fetched(k offsetKey, id kafka.TopicID, requireStable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	none := ""
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = int32(k.partition), -1, -1, &none
	o, ok := g.offsets[k]
	switch {
	case requireStable && g.open[k] > 0:
		p.ErrorCode = int16(kafka.ErrUnstableOffsetCommit)
	case !ok, o.topicID != kafka.TopicID{} && id != kafka.TopicID{} && o.topicID != id:
	default:
		p.Offset, p.LeaderEpoch, p.Metadata = int64(o.offset), int32(o.epoch), &o.metadata
	}
	return p
}

func (g *group) allOffsets(requireStable bool) []kmsg.OffsetFetchResponseGroupTopic {
	topics := []kmsg.OffsetFetchResponseGroupTopic{}
	for _, k := range g.sortedKeys() {
		if n := len(topics); n == 0 || topics[n-1].Topic != k.topic {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = k.topic
			topics = append(topics, t)
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, g.fetched(k, kafka.TopicID{}, requireStable))
	}
	return topics
}

func (g *group) sortedKeys() []offsetKey {
	keys := make([]offsetKey, 0, len(g.offsets))
	for k := range g.offsets {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, offsetKey.compare)
	return keys
}

func (k offsetKey) compare(o offsetKey) int {
	return cmp.Or(cmp.Compare(k.topic, o.topic), cmp.Compare(k.partition, o.partition))
}

// deleteOffsets serves OffsetDelete (KIP-496).
func (c *Coordinator) deleteOffsets(r *coordinator.Request, q *kmsg.OffsetDeleteRequest) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	g := c.group(q.Group)
	code := kafka.ErrorCode(0)
	switch {
	case q.Group == "":
		code = kafka.ErrInvalidGroupID
	case g == nil, g.foreign != nil && g.foreign.kind == shareKind:
		code = kafka.ErrGroupIDNotFound
	case g.foreign == nil:
		if m := g.seen(); m.state != empty && m.protocolType != consumerProtocol {
			code = kafka.ErrNonEmptyGroup
		}
	}
	if resp.ErrorCode = int16(code); code != 0 {
		c.reply(r.Token, resp)
		return
	}
	for _, t := range q.Topics {
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		subscribed := g.subscribed(t.Topic)
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = p.Partition
			k := offsetKey{t.Topic, kafka.PartitionID(p.Partition)}
			if subscribed {
				rp.ErrorCode = int16(kafka.ErrGroupSubscribedToTopic)
			} else if _, ok := g.offsets[k]; ok || g.open[k] > 0 {
				c.writeNoOffset(g.id, k)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	c.reply(r.Token, resp)
}

func (c *Coordinator) writeNoOffset(group string, k offsetKey) {
	c.write(&record.OffsetCommitKey{Group: group, Topic: k.topic, Partition: k.partition}, nil, 0)
}

func (g *group) subscribed(topic string) bool {
	if g.foreign != nil {
		return g.foreign.subscribed(topic)
	}
	return g.seen().subscribed(topic)
}
