package cli

import (
	"fmt"
	"slices"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// changesInWords tells what leads from one image to another, a line a change.
func changesInWords(from, to *metadata.Image) []string {
	d := metadata.Diff(from, to)
	w := &words{from: from, to: to}
	for _, name := range d.Features() {
		w.feature(name)
	}
	for _, id := range d.Controllers() {
		w.controller(id)
	}
	for _, id := range d.Brokers() {
		w.broker(from.Broker(id), to.Broker(id))
	}
	for _, c := range d.Topics() {
		w.topic(c)
	}
	for _, r := range d.Configs() {
		w.configs(r)
	}
	s := d.Security()
	for _, c := range []struct {
		changed bool
		what    string
	}{{s.ACLs, "ACLs"}, {s.SCRAM, "SCRAM users"}, {s.Quotas, "quotas"}, {s.DelegationTokens, "delegation tokens"}} {
		if c.changed {
			w.say("%s changed", c.what)
		}
	}
	if a, b := from.NextProducerID(), to.NextProducerID(); a != b {
		w.say("producer ids are handed out up to %d, were up to %d", b-1, a-1)
	}
	return w.lines
}

type words struct {
	from, to *metadata.Image
	lines    []string
}

func (w *words) say(format string, a ...any) { w.lines = append(w.lines, fmt.Sprintf(format, a...)) }

func (w *words) feature(name string) {
	level := func(l int16) string {
		switch {
		case l == 0:
			return "off"
		case name == metadata.FeatureMetadataVersion:
			return fmt.Sprintf("%d (%s)", l, metadata.Version(l))
		}
		return fmt.Sprint(l)
	}
	a, b := w.from.FeatureLevel(name), w.to.FeatureLevel(name)
	if a != b {
		w.say("feature %s: %s → %s", name, level(a), level(b))
	}
}

func (w *words) controller(id kafka.NodeID) {
	switch a, b := w.from.Controller(id), w.to.Controller(id); {
	case b == nil:
		w.say("controller %d unregistered", id)
	case a == nil:
		w.say("controller %d registered", id)
	default:
		w.say("controller %d registered anew", id)
	}
}

func (w *words) broker(a, b *metadata.Broker) {
	switch {
	case b == nil:
		w.say("broker %d unregistered", a.ID)
		return
	case a == nil:
		w.say("broker %d registered with epoch %d%s, %s", b.ID, b.Epoch, endpointsInWords(b), brokerState(b))
		return
	case a.Incarnation != b.Incarnation || a.Epoch != b.Epoch:
		w.say("broker %d restarted: epoch %d → %d, %s", b.ID, a.Epoch, b.Epoch, brokerState(b))
		return
	}
	if s, t := brokerState(a), brokerState(b); s != t {
		w.say("broker %d: %s → %s", b.ID, s, t)
	}
	if s, t := endpointsInWords(a), endpointsInWords(b); s != t {
		w.say("broker %d is now%s", b.ID, t)
	}
	if !slices.Equal(a.Directories, b.Directories) {
		w.say("broker %d: log directories online %v → %v", b.ID, a.Directories, b.Directories)
	}
}

func brokerState(b *metadata.Broker) string {
	switch {
	case b.Fenced:
		return "fenced"
	case b.InControlledShutdown:
		return "shutting down"
	}
	return "in service"
}

func endpointsInWords(b *metadata.Broker) string {
	var s strings.Builder
	for _, e := range b.Endpoints {
		fmt.Fprintf(&s, " at %s://%s:%d", e.Name, e.Host, e.Port)
	}
	if b.HasRack {
		fmt.Fprintf(&s, " in rack %s", b.Rack)
	}
	return s.String()
}

// maxPartitionLines bounds what is told of a new topic's partitions.
const maxPartitionLines = 100

func (w *words) topic(c metadata.TopicChange) {
	switch {
	case c.Deleted():
		w.say("topic %s (%s) deleted", c.Before.Name(), c.ID())
		return
	case c.Created():
		w.say("topic %s (%s) created with %d partitions", c.After.Name(), c.ID(), c.After.NumPartitions())
	case c.After.NumPartitions() > c.Before.NumPartitions():
		w.say("topic %s: %d → %d partitions", c.After.Name(), c.Before.NumPartitions(), c.After.NumPartitions())
	}
	for i, id := range c.Partitions {
		if c.Created() && i == maxPartitionLines {
			w.say("  … and %d more", len(c.Partitions)-i)
			return
		}
		w.partition(c.After.Name(), c.Partition(id))
	}
}

func (w *words) partition(topic string, c metadata.PartitionChange) {
	a, b := c.Before, c.After
	if c.Created {
		w.say("  %s-%d: replicas %s, in sync %s, leader %s", topic, b.ID, nodes(b.Replicas), nodes(b.ISR), leader(b.Leader))
		return
	}
	var parts []string
	add := func(format string, x ...any) { parts = append(parts, fmt.Sprintf(format, x...)) }
	if a.Leader != b.Leader {
		add("leader %s → %s", leader(a.Leader), leader(b.Leader))
	}
	if a.LeaderEpoch != b.LeaderEpoch {
		add("leader epoch %d → %d", a.LeaderEpoch, b.LeaderEpoch)
	}
	for _, l := range []struct {
		what string
		a, b []kafka.NodeID
	}{{"replicas", a.Replicas, b.Replicas}, {"in sync", a.ISR, b.ISR}, {"eligible", a.ELR, b.ELR},
		{"last known eligible", a.LastKnownELR, b.LastKnownELR}, {"adding", a.Adding, b.Adding}, {"removing", a.Removing, b.Removing}} {
		if !slices.Equal(l.a, l.b) {
			add("%s %s → %s", l.what, nodes(l.a), nodes(l.b))
		}
	}
	if a.Recovery != b.Recovery {
		add("leader recovery %d → %d", a.Recovery, b.Recovery)
	}
	if !slices.Equal(a.Directories, b.Directories) {
		add("directories %v → %v", a.Directories, b.Directories)
	}
	if len(parts) == 0 {
		add("partition epoch %d → %d", a.PartitionEpoch, b.PartitionEpoch)
	}
	w.say("%s-%d: %s", topic, b.ID, strings.Join(parts, ", "))
}

func leader(id kafka.NodeID) string {
	if id == kafka.NoNode {
		return "none"
	}
	return fmt.Sprint(id)
}

func nodes(ids []kafka.NodeID) string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = fmt.Sprint(id)
	}
	return "[" + strings.Join(s, ",") + "]"
}

func (w *words) configs(r metadata.Resource) {
	before := map[string]string{}
	for _, c := range w.from.Configs(r) {
		before[c.Name] = c.Value
	}
	name := resourceInWords(r)
	for _, c := range w.to.Configs(r) {
		old, had := before[c.Name]
		delete(before, c.Name)
		switch {
		case !had:
			w.say("%s: %s=%s", name, c.Name, c.Value)
		case old != c.Value:
			w.say("%s: %s=%s, was %s", name, c.Name, c.Value, old)
		}
	}
	for _, c := range w.from.Configs(r) {
		if _, gone := before[c.Name]; gone {
			w.say("%s: %s no longer set, was %s", name, c.Name, c.Value)
		}
	}
}

func resourceInWords(r metadata.Resource) string {
	kind := map[metadata.ResourceType]string{
		metadata.TopicResource: "topic", metadata.BrokerResource: "broker", metadata.BrokerLoggerResource: "logger",
		metadata.ClientMetricsResource: "client metrics", metadata.GroupResource: "group",
	}[r.Type]
	if r.Type == metadata.BrokerResource && r.Name == "" {
		return "settings of all brokers"
	}
	return "settings of " + kind + " " + r.Name
}
