package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Coordinator is the core of one partition of __consumer_offsets.
type Coordinator struct {
	opts    Options
	groups  map[string]*group
	pending map[kafka.ProducerID]map[pendingKey]offset // offsets of open transactions
	names   map[string]string                          // topic names, each kept once

	timers   timers
	chores   timer // the next look at what has to be deleted
	expiry   expiry
	deleting *deletionWalk // under way; nil: none
	deleted  deletions     // for the next walk

	tip   kafka.Offset // behind the last record that was replayed
	saved kafka.Offset // the tip when Appended was called last

	choresNotBefore kafka.Mono
	tombstoneBytes  int // of the step that runs
	tombstoneLimit  int // of any step

	active bool                    // loaded; before, nothing is taken back
	undo   []func(kafka.ErrorCode) // since Appended, in order
	mark   int                     // in undo: where the last step began
	empty  []*group                // perhaps without content; swept by Appended

	// Of the step that runs.
	now kafka.Now
	out *coordinator.Effects
}

var _ coordinator.Core = (*Coordinator)(nil)

// New makes a Coordinator without groups.
func New(opts Options) *Coordinator {
	c := &Coordinator{
		opts: opts, groups: map[string]*group{}, pending: map[kafka.ProducerID]map[pendingKey]offset{},
		names: map[string]string{}, tombstoneLimit: tombstoneBytesPerStep,
	}
	c.chores.fire = (*Coordinator).doChores
	return c
}

// Loaded implements coordinator.Core: sessions of all members begin anew
// (GroupMetadataManager.onLoaded).
func (c *Coordinator) Loaded(now kafka.Now, out *coordinator.Effects) {
	c.now, c.out, c.active = now, out, true
	c.mark, c.saved = 0, c.tip
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		g := c.groups[id]
		if g.saved == nil || g.foreign != nil || len(g.saved.Members) == 0 {
			continue
		}
		m := c.classicOf(g)
		for _, member := range m.members {
			c.restartSession(member)
		}
		if len(m.members) > int(c.opts.MaxSize) {
			c.prepareRebalance(m) // the limit is a new one
		}
	}
	c.expiry.next = now.Mono.Add(millis(c.opts.RetentionCheckMs))
	c.planChores()
}

// Step implements coordinator.Core.
func (c *Coordinator) Step(now kafka.Now, event any, out *coordinator.Effects) {
	c.now, c.out, c.mark = now, out, len(c.undo)
	switch e := event.(type) {
	case coordinator.Request:
		c.request(&e)
	case coordinator.DeadlineReached:
		c.timers.fireOne(c)
	case PartitionsDeleted:
		c.partitionsDeleted(e)
	default:
		panic(fmt.Sprintf("group: unknown event %T", event))
	}
}

func (c *Coordinator) request(r *coordinator.Request) {
	switch b := r.Body.(type) {
	case *kmsg.JoinGroupRequest:
		c.join(r, b)
	case *kmsg.SyncGroupRequest:
		c.sync(r, b)
	case *kmsg.HeartbeatRequest:
		c.heartbeat(r, b)
	case *kmsg.LeaveGroupRequest:
		c.leave(r, b)
	case *kmsg.OffsetCommitRequest:
		c.commitOffsets(r, b)
	case *kmsg.OffsetDeleteRequest:
		c.deleteOffsets(r, b)
	case *FetchOffsets:
		c.fetchOffsets(r, b)
	case *Describe:
		c.describe(r, b)
	case *List:
		c.list(r, b)
	case *Delete:
		c.deleteGroups(r, b)
	default:
		panic(fmt.Sprintf("group: unknown request %T", r.Body))
	}
}

// Deadline implements coordinator.Core.
func (c *Coordinator) Deadline() kafka.Mono { return c.timers.next() }

// Appended implements coordinator.Core.
func (c *Coordinator) Appended() {
	c.saved = c.tip
	clear(c.undo)
	c.undo = c.undo[:0]
	for _, g := range c.empty {
		if g.void() && c.groups[g.id] == g {
			delete(c.groups, g.id)
		}
	}
	clear(c.empty)
	c.empty = c.empty[:0]
}

// Revert implements coordinator.Core.
func (c *Coordinator) Revert(now kafka.Now, code kafka.ErrorCode, out *coordinator.Effects) {
	c.takeBack(0, now, code, out)
	c.tip = c.saved
	c.cutDeletions(c.tip)
}

// Refuse implements coordinator.Core.
func (c *Coordinator) Refuse(now kafka.Now, code kafka.ErrorCode, out *coordinator.Effects) {
	c.takeBack(c.mark, now, code, out)
}

// takeBack undoes what came after mark, the last first.
func (c *Coordinator) takeBack(mark int, now kafka.Now, code kafka.ErrorCode, out *coordinator.Effects) {
	list := slices.Clone(c.undo[mark:])
	clear(c.undo[mark:])
	c.undo = c.undo[:mark]
	c.now, c.out, c.mark = now, out, mark
	for i := len(list) - 1; i >= 0; i-- {
		list[i](code)
	}
}

// onRevert has f called if what this step emits cannot be written.
func (c *Coordinator) onRevert(f func(kafka.ErrorCode)) {
	if c.active {
		c.undo = append(c.undo, f)
	}
}

func (c *Coordinator) reply(token uint64, body any) {
	c.out.Replies = append(c.out.Replies, coordinator.Reply{Token: token, Body: body})
}

// group finds a group that exists; nil if none does.
func (c *Coordinator) group(id string) *group {
	if g := c.groups[id]; g != nil && !g.void() {
		return g
	}
	return nil
}

// groupFor finds a group or makes an empty one.
func (c *Coordinator) groupFor(id string) *group {
	g := c.groups[id]
	if g == nil {
		g = &group{id: id}
		c.groups[id] = g
	}
	return g
}

// name keeps one copy of each topic's name.
func (c *Coordinator) name(topic string) string {
	if n, ok := c.names[topic]; ok {
		return n
	}
	c.names[topic] = topic
	return topic
}
