package groups

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/group"
	"moldau/internal/kafka"
)

type recordOf = batch.Record

// partitions is how many partitions each group shares out.
const partitions = 6

// phase is what a consumer is doing.
type phase string

const (
	joining phase = "joining"
	syncing phase = "syncing"
	working phase = "working"
)

// client is a consumer, after Kafka's ConsumerCoordinator.
type client struct {
	w        *world
	name     string
	group    string
	instance string
	version  int16 // of JoinGroup

	state      phase
	memberID   string
	generation int32
	owned      []int32
	attempt    int // answers to earlier attempts do not count
	gone       bool
	paused     bool
	missed     []func() // what happened while it was paused
}

// Timeouts of consumers.
const (
	sessionTime   = 10 * time.Second
	rebalanceTime = 15 * time.Second
	requestTime   = 8 * time.Second
)

func (w *world) newClient(group string) *client {
	n := len(w.clients)
	c := &client{w: w, name: fmt.Sprintf("c%d", n), group: group, version: int16(w.rng.IntN(10)), state: joining}
	if n%3 == 0 {
		c.instance, c.version = fmt.Sprintf("i%d", n), int16(5+w.rng.IntN(5))
	}
	w.clients = append(w.clients, c)
	w.trace("%s starts in %s v%d", c.name, group, c.version)
	w.after(w.ms(0, 500), c.live(c.join))
	return c
}

// live runs f unless the consumer is gone; a paused one does it later.
func (c *client) live(f func()) func() {
	return func() {
		switch {
		case c.gone:
		case c.paused:
			c.missed = append(c.missed, f)
		default:
			f()
		}
	}
}

func (c *client) pause(d time.Duration) {
	if c.gone || c.paused {
		return
	}
	c.w.counts.Pause++
	c.w.trace("%s pauses", c.name)
	c.paused = true
	c.w.after(d, func() {
		c.paused = false
		c.resume()
	})
}

func (c *client) resume() {
	list := c.missed
	c.missed = nil
	for _, f := range list {
		c.live(f)()
	}
}

func (c *client) crash() {
	if !c.gone {
		c.w.trace("%s crashes", c.name)
	}
	c.gone = true
}

func (c *client) leave() {
	if c.gone || c.paused {
		return
	}
	c.w.trace("%s leaves", c.name)
	q := kmsg.NewPtrLeaveGroupRequest()
	q.SetVersion(5)
	q.Group = c.group
	m := kmsg.LeaveGroupRequestMember{MemberID: c.memberID}
	if c.instance != "" {
		m.InstanceID = &c.instance
	}
	q.Members = []kmsg.LeaveGroupRequestMember{m}
	c.call(q, requestTime, nil, func(any, kafka.ErrorCode) {})
	c.gone = true
}

// call sends a request through the network. checked sees the coordinator's answer
// when it is given, then receives it, if it arrives in time.
func (c *client) call(body any, timeout time.Duration, checked func(any), then func(any, kafka.ErrorCode)) {
	w := c.w
	c.attempt++
	mine := c.attempt
	done := false
	finish := func(resp any, code kafka.ErrorCode) {
		if !done && mine == c.attempt {
			done = true
			then(resp, code)
		}
	}
	send := func() {
		w.request(body, c.name, &asker{func(resp any, code kafka.ErrorCode) {
			if code == 0 && checked != nil {
				checked(resp)
			}
			if w.chance(60) {
				w.counts.Lost++
				return
			}
			w.after(c.delay(), c.live(func() { finish(resp, code) }))
		}})
	}
	if w.chance(60) {
		w.counts.Lost++
	} else {
		w.after(c.delay(), send)
	}
	if w.chance(40) {
		w.counts.Duplicated++
		w.after(w.ms(0, 4000), send)
	}
	w.after(timeout, c.live(func() { finish(nil, kafka.ErrRequestTimedOut) }))
}

func (c *client) delay() time.Duration {
	if c.w.chance(30) {
		c.w.counts.Delayed++
		return c.w.ms(100, 3000)
	}
	return c.w.ms(0, 10)
}

// asker is where the coordinator's answer goes.
type asker struct{ done func(any, kafka.ErrorCode) }

func (a *asker) Gone() bool                            { return false } // lost requests come late, as from a network
func (a *asker) Waits()                                {}
func (a *asker) Answer(body any, code kafka.ErrorCode) { a.done(body, group.StorageError(code)) }

// assignment is what a leader gives to a member: "leader/nonce:1,2,3".
type assignment struct {
	by         string
	partitions []int32
}

func parseAssignment(b []byte) assignment {
	by, list, ok := strings.Cut(string(b), ":")
	if !ok {
		return assignment{}
	}
	a := assignment{by: by}
	for _, s := range strings.Split(list, ",") {
		if n, err := strconv.Atoi(s); err == nil {
			a.partitions = append(a.partitions, int32(n))
		}
	}
	return a
}

func (c *client) instanceID() *string {
	if c.instance == "" {
		return nil
	}
	return &c.instance
}

func (c *client) join() {
	c.state = joining
	q := kmsg.NewPtrJoinGroupRequest()
	q.SetVersion(c.version)
	q.Group, q.MemberID, q.InstanceID, q.ProtocolType = c.group, c.memberID, c.instanceID(), "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = int32(sessionTime/time.Millisecond), int32(rebalanceTime/time.Millisecond)
	names := []string{"range", "sticky"}
	if c.w.rng.IntN(8) == 0 {
		slices.Reverse(names)
	}
	for _, n := range names {
		q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: n, Metadata: []byte{0, 1, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0}})
	}
	c.call(q, rebalanceTime+5*time.Second, nil, c.joined)
}

func (c *client) joined(body any, code kafka.ErrorCode) {
	resp, _ := body.(*kmsg.JoinGroupResponse)
	if resp != nil {
		code = kafka.ErrorCode(resp.ErrorCode)
	}
	switch code {
	case 0:
		c.w.counts.Joined++
		c.memberID, c.generation = resp.MemberID, resp.Generation
		c.w.trace("%s joined generation %d of %s as %s, leader %s", c.name, c.generation, c.group, c.memberID, resp.LeaderID)
		c.sync(resp)
	case kafka.ErrMemberIDRequired:
		c.memberID = resp.MemberID
		c.join()
	default:
		c.trouble(code)
	}
}

// trouble is what a consumer does about errors.
func (c *client) trouble(code kafka.ErrorCode) {
	c.w.trace("%s: %s", c.name, code)
	switch code {
	case kafka.ErrFencedInstanceID:
		c.w.counts.Fenced++
		c.gone = true
		return
	case kafka.ErrUnknownMemberID:
		c.memberID, c.owned = "", nil
	case kafka.ErrIllegalGeneration:
		c.owned = nil
	}
	c.state = joining
	c.w.after(c.w.ms(20, 120), c.live(c.join))
}

// impostor marks assignments of a member that does not lead.
const impostor = "impostor "

func (c *client) sync(joined *kmsg.JoinGroupResponse) {
	c.state = syncing
	q := kmsg.NewPtrSyncGroupRequest()
	q.SetVersion(5)
	q.Group, q.MemberID, q.Generation, q.InstanceID, q.Protocol = c.group, c.memberID, c.generation, c.instanceID(), joined.Protocol
	if joined.LeaderID == c.memberID && !joined.SkipAssignment && len(joined.Members) > 0 {
		c.w.values++
		q.GroupAssignment = shareOut(joined.Members, fmt.Sprintf("%s/%d", c.memberID, c.w.values))
	}
	if joined.LeaderID != c.memberID && c.w.chance(10) {
		// It does not lead and assigns everything to itself: nobody listens.
		c.w.values++
		q.GroupAssignment = shareOut([]kmsg.JoinGroupResponseMember{{MemberID: c.memberID}}, fmt.Sprintf("%s%s/%d", impostor, c.memberID, c.w.values))
	}
	member, generation := c.memberID, c.generation
	check := func(body any) {
		if resp := body.(*kmsg.SyncGroupResponse); resp.ErrorCode == 0 {
			c.w.checkSync(c, member, generation, parseAssignment(resp.MemberAssignment))
		}
	}
	c.call(q, requestTime+rebalanceTime, check, c.synced)
}

func shareOut(members []kmsg.JoinGroupResponseMember, by string) []kmsg.SyncGroupRequestGroupAssignment {
	parts := make([][]string, len(members))
	for p := range partitions {
		parts[p%len(members)] = append(parts[p%len(members)], strconv.Itoa(p))
	}
	var out []kmsg.SyncGroupRequestGroupAssignment
	for i, m := range members {
		out = append(out, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte(by + ":" + strings.Join(parts[i], ","))})
	}
	return out
}

func (c *client) synced(body any, code kafka.ErrorCode) {
	resp, _ := body.(*kmsg.SyncGroupResponse)
	if resp != nil {
		code = kafka.ErrorCode(resp.ErrorCode)
	}
	if code != 0 {
		c.trouble(code)
		return
	}
	c.owned = parseAssignment(resp.MemberAssignment).partitions
	c.state = working
	c.w.trace("%s works on %v", c.name, c.owned)
	c.fetch()
}

// fetch asks for the offsets of what it owns, then begins to work.
func (c *client) fetch() {
	q := &group.FetchOffsets{Group: kmsg.OffsetFetchRequestGroup{Group: c.group, MemberEpoch: -1}, RequireStable: true}
	known := make([]commit, len(c.owned))
	t := kmsg.OffsetFetchRequestGroupTopic{Topic: "t", Partitions: slices.Clone(c.owned)}
	for i, p := range c.owned {
		known[i] = c.w.log.committed(commitKey{c.group, p})
	}
	q.Group.Topics = []kmsg.OffsetFetchRequestGroupTopic{t}
	check := func(body any) {
		for i, p := range body.(*kmsg.OffsetFetchResponseGroup).Topics[0].Partitions {
			c.w.checkFetch(commitKey{c.group, p.Partition}, known[i], p.Offset)
		}
	}
	c.call(q, requestTime, check, func(any, kafka.ErrorCode) { c.work() })
}

// work sends heartbeats and commits by turns.
func (c *client) work() {
	if c.state != working {
		return
	}
	c.w.after(c.w.ms(200, 1500), c.live(func() {
		if c.state != working {
			return
		}
		if len(c.owned) > 0 && c.w.rng.IntN(3) > 0 {
			c.commit()
		} else {
			c.heartbeat()
		}
	}))
}

func (c *client) heartbeat() {
	q := kmsg.NewPtrHeartbeatRequest()
	q.SetVersion(4)
	q.Group, q.MemberID, q.Generation, q.InstanceID = c.group, c.memberID, c.generation, c.instanceID()
	c.call(q, requestTime, nil, func(body any, code kafka.ErrorCode) {
		if resp, ok := body.(*kmsg.HeartbeatResponse); ok {
			code = kafka.ErrorCode(resp.ErrorCode)
		}
		c.worked(code)
	})
}

// worked goes on after an answer, if it is one to go on with.
func (c *client) worked(code kafka.ErrorCode) {
	switch code {
	case 0, kafka.ErrRequestTimedOut, kafka.ErrCoordinatorLoadInProgress, kafka.ErrCoordinatorNotAvailable, kafka.ErrNotCoordinator, kafka.ErrUnknownServerError:
		c.work()
	default:
		c.trouble(code)
	}
}

func (c *client) commit() {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.SetVersion(9)
	q.Group, q.MemberID, q.Generation, q.InstanceID = c.group, c.memberID, c.generation, c.instanceID()
	c.w.values++
	value := c.w.values
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = c.owned[c.w.rng.IntN(len(c.owned))], value
	q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	key := commitKey{c.group, p.Partition}
	check := func(body any) {
		if body.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			c.w.checkCommit(key, value)
		}
	}
	c.call(q, requestTime, check, func(body any, code kafka.ErrorCode) {
		if resp, ok := body.(*kmsg.OffsetCommitResponse); ok {
			code = kafka.ErrorCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		c.worked(code)
	})
}
