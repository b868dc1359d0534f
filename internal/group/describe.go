package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// notFoundSince is the version of DescribeGroups from which a group that does not
// exist is an error (KIP-1043).
const notFoundSince = 6

// describe serves DescribeGroups: of classic groups only (HC-160).
func (c *Coordinator) describe(r *coordinator.Request, q *Describe) {
	out := make([]kmsg.DescribeGroupsResponseGroup, 0, len(q.IDs))
	for _, id := range q.IDs {
		d := kmsg.NewDescribeGroupsResponseGroup()
		d.Group, d.State, d.Members = id, dead, []kmsg.DescribeGroupsResponseGroupMember{}
		switch g := c.group(id); {
		case g != nil && g.foreign == nil:
			g.seen().describe(&d)
		case q.Version >= notFoundSince:
			d.ErrorCode, d.ErrorMessage = int16(kafka.ErrGroupIDNotFound), text(notFound(id, g))
		}
		out = append(out, d)
	}
	c.reply(r.Token, out)
}

func notFound(id string, g *group) string {
	if g != nil {
		return fmt.Sprintf("Group %s is not a classic group.", id)
	}
	return fmt.Sprintf("Group %s not found.", id)
}

func (m *classic) describe(d *kmsg.DescribeGroupsResponseGroup) {
	d.State, d.ProtocolType = string(m.state), m.protocolType
	if m.state == stable && m.protocol != nil {
		d.Protocol = *m.protocol
	}
	for _, n := range m.members {
		p := kmsg.NewDescribeGroupsResponseGroupMember()
		p.MemberID, p.InstanceID, p.ClientID, p.ClientHost = n.id, n.instanceID, n.clientID, n.host
		p.MemberAssignment = n.assignment
		if m.state == stable {
			p.ProtocolMetadata = n.metadata(m.protocol)
		}
		d.Members = append(d.Members, p)
	}
}

// list serves ListGroups.
func (c *Coordinator) list(r *coordinator.Request, q *List) {
	states := map[string]bool{}
	for _, s := range q.States {
		states[strings.TrimSpace(strings.ToLower(s))] = true
	}
	types := map[string]bool{}
	for _, s := range q.Types {
		types[strings.ToLower(s)] = true
	}
	out := []kmsg.ListGroupsResponseGroup{}
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		g := c.group(id)
		if g == nil {
			continue
		}
		l := g.listed()
		if (len(states) == 0 || states[strings.ToLower(l.GroupState)]) && (len(types) == 0 || types[strings.ToLower(l.GroupType)]) {
			out = append(out, l)
		}
	}
	c.reply(r.Token, out)
}

func (g *group) listed() kmsg.ListGroupsResponseGroup {
	l := kmsg.NewListGroupsResponseGroup()
	l.Group = g.id
	if f := g.foreign; f != nil {
		l.GroupType, l.GroupState, l.ProtocolType = string(f.kind), f.state(), f.protocol()
		return l
	}
	m := g.seen()
	l.GroupType, l.GroupState, l.ProtocolType = string(classicKind), string(m.state), m.protocolType
	return l
}

// deleteGroups serves DeleteGroups.
func (c *Coordinator) deleteGroups(r *coordinator.Request, q *Delete) {
	out := make([]kmsg.DeleteGroupsResponseGroup, 0, len(q.IDs))
	done := map[string]bool{}
	for _, id := range q.IDs {
		d := kmsg.NewDeleteGroupsResponseGroup()
		d.Group = id
		if !done[id] {
			d.ErrorCode = int16(c.deleteGroup(id))
		}
		done[id] = true
		out = append(out, d)
	}
	c.reply(r.Token, out)
}

func (c *Coordinator) deleteGroup(id string) kafka.ErrorCode {
	g := c.group(id)
	switch {
	case g == nil:
		return kafka.ErrGroupIDNotFound
	case g.foreign != nil && !g.foreign.isEmpty(), g.foreign == nil && g.seen().state != empty:
		return kafka.ErrNonEmptyGroup
	case g.foreign != nil && g.foreign.kind == shareKind:
		// What the group has read stands in another log, which is not served here:
		// deleting only one half would bring the old half back with the next group.
		return kafka.ErrUnsupportedVersion
	}
	for _, k := range c.offsetsOf(g) {
		c.writeNoOffset(g.id, k)
	}
	if g.foreign != nil {
		c.bury(g.foreign)
	} else {
		c.forget(g)
	}
	return 0
}
