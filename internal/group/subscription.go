package group

import "encoding/binary"

// subscriptions are the topics that the members of a group of consumers read,
// nil if they are not known: the group is of another kind, or a member's metadata
// is not what consumers send (ClassicGroup.computeSubscribedTopics).
func (m *classic) subscriptions() map[string]bool {
	if m.protocolType != consumerProtocol {
		return nil
	}
	topics := map[string]bool{}
	if len(m.members) == 0 {
		return topics
	}
	if m.protocol == nil {
		return nil
	}
	for _, n := range m.members {
		list, ok := subscribedTopics(n.metadata(m.protocol))
		if !ok {
			return nil
		}
		for _, t := range list {
			topics[t] = true
		}
	}
	return topics
}

// subscribed tells whether members read the topic, as far as is known: in a group
// of consumers whose topics are not known, they may.
func (m *classic) subscribed(topic string) bool {
	if m.topics != nil {
		return m.topics[topic]
	}
	return m.protocolType == consumerProtocol
}

// subscribedTopics reads the part that all versions of a consumer's metadata
// begin with: the version and the topics (ConsumerProtocolSubscription).
func subscribedTopics(metadata []byte) (topics []string, ok bool) {
	if len(metadata) < 6 {
		return nil, false
	}
	count := int32(binary.BigEndian.Uint32(metadata[2:]))
	rest := metadata[6:]
	if count < 0 || int(count) > len(rest)/2 {
		return nil, false
	}
	for ; count > 0; count-- {
		if len(rest) < 2 {
			return nil, false
		}
		n := int(int16(binary.BigEndian.Uint16(rest)))
		if n < 0 || n > len(rest)-2 {
			return nil, false
		}
		topics = append(topics, string(rest[2:2+n]))
		rest = rest[2+n:]
	}
	return topics, true
}
