package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// RebalanceOptions say which groups form.
type RebalanceOptions struct {
	Target Target
	// Groups of Members each; every member has a connection.
	Groups, Members int
	// Rounds is how often all of them leave the generation and form another.
	Rounds int
	// RebalanceTimeout bounds how long a generation waits for members.
	RebalanceTimeout time.Duration
}

// DefaultRebalanceOptions are 100 groups of 10.
func DefaultRebalanceOptions() RebalanceOptions {
	return RebalanceOptions{Groups: 100, Members: 10, Rounds: 3, RebalanceTimeout: time.Minute}
}

// Versions of the requests that members send, known to old and new servers.
const (
	joinVersion = 5
	syncVersion = 3
	beatVersion = 3
)

// Rebalances has groups form and rebalance: all members join, the leader assigns,
// all get their assignments; then all join again. Records counts the assignments;
// Ack is the time of a round of one member, from JoinGroup to its assignment.
func Rebalances(ctx context.Context, o RebalanceOptions) (*Result, error) {
	if o.Groups < 1 || o.Members < 1 || o.Rounds < 1 {
		return nil, fmt.Errorf("groups, members and rounds must be positive")
	}
	client, err := o.Target.newClient(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	names := groupNames(fmt.Sprintf("rebalances-%d", time.Now().UnixNano()), o.Groups)
	where, err := coordinators(ctx, client, names)
	if err != nil {
		return nil, err
	}
	members := make([]*benchMember, 0, o.Groups*o.Members)
	defer func() {
		for _, m := range members {
			m.conn.Close()
		}
	}()
	for _, name := range names {
		g := &benchGroup{name: name, members: o.Members}
		for range o.Members {
			c, err := dialWire(ctx, where[name], "moldau-bench")
			if err != nil {
				return nil, err
			}
			members = append(members, &benchMember{conn: c, o: &o, group: g, latency: NewRecorder()})
		}
	}
	r := &Result{Test: "rebalances", Topic: fmt.Sprintf("of %d groups of %d members", o.Groups, o.Members)}
	meter, err := startMeter(o.Target.BrokerPID)
	if err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		start := time.Now()
		for _, m := range members {
			m.group.assigned = 0 // nobody else is at it now
		}
		var wg sync.WaitGroup
		for _, m := range members {
			wg.Go(func() {
				if m.err == nil {
					m.err = m.round()
				}
			})
		}
		wg.Wait()
		r.Notes = append(r.Notes, fmt.Sprintf("round %d: all have their assignments after %v", round+1, time.Since(start).Round(time.Millisecond)))
	}
	all := NewRecorder()
	for _, m := range members {
		if m.err != nil {
			return nil, m.err
		}
		all.Add(m.latency)
	}
	r.Records, r.Ack = int64(len(members)*o.Rounds), all.Percentiles()
	return r, meter.finish(r)
}

// benchGroup knows when all its members have the assignments of one generation.
type benchGroup struct {
	name    string
	members int

	mu         sync.Mutex
	generation int32
	assigned   int
}

// has says that one more member has its assignment of a generation.
func (g *benchGroup) has(generation int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if generation > g.generation {
		g.generation, g.assigned = generation, 0
	}
	if generation == g.generation {
		g.assigned++
	}
}

func (g *benchGroup) complete() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.assigned == g.members
}

// benchMember is a member of a group.
type benchMember struct {
	conn       *wireConn
	o          *RebalanceOptions
	group      *benchGroup
	id         string
	generation int32
	rounds     byte
	latency    *Recorder
	err        error
}

// beatInterval is how often a member with an assignment asks whether the group
// rebalances for one that came later.
const beatInterval = 20 * time.Millisecond

// round joins until all members of the group have assignments. What a member tells
// of itself differs in each round, or nothing would have to be done.
func (m *benchMember) round() error {
	m.rounds++
	start := time.Now()
	for again := true; again; {
		joined, err := m.join()
		if err != nil {
			return err
		}
		if again, err = m.sync(joined); err != nil {
			return err
		}
		if !again {
			m.latency.Record(time.Since(start))
			m.group.has(joined.Generation)
			m.generation = joined.Generation
			if again, err = m.stay(); err != nil {
				return err
			}
		}
	}
	return nil
}

// stay sends heartbeats until the round is over; it reports true if the group
// rebalances.
func (m *benchMember) stay() (again bool, err error) {
	for !m.group.complete() {
		time.Sleep(beatInterval)
		q := kmsg.NewPtrHeartbeatRequest()
		q.SetVersion(beatVersion)
		q.Group, q.MemberID, q.Generation = m.group.name, m.id, m.generation
		resp := kmsg.NewPtrHeartbeatResponse()
		if err := m.conn.ask(q, resp); err != nil {
			return false, err
		}
		switch err := kerr.ErrorForCode(resp.ErrorCode); err {
		case nil:
		case kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID:
			return true, nil
		default:
			return false, fmt.Errorf("Heartbeat: %w", err)
		}
	}
	return false, nil
}

func (m *benchMember) join() (*kmsg.JoinGroupResponse, error) {
	q := kmsg.NewPtrJoinGroupRequest()
	q.SetVersion(joinVersion)
	q.Group, q.ProtocolType = m.group.name, "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 45_000, int32(m.o.RebalanceTimeout.Milliseconds())
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 1, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, m.rounds}}}
	for {
		q.MemberID = m.id
		resp := kmsg.NewPtrJoinGroupResponse()
		if err := m.conn.ask(q, resp); err != nil {
			return nil, err
		}
		switch err := kerr.ErrorForCode(resp.ErrorCode); {
		case err == nil:
			m.id = resp.MemberID
			return resp, nil
		case err == kerr.MemberIDRequired:
			m.id = resp.MemberID
		case err == kerr.UnknownMemberID:
			m.id = ""
		case !kerr.IsRetriable(err):
			return nil, fmt.Errorf("JoinGroup: %w", err)
		}
	}
}

// sync reports true if another rebalance has begun.
func (m *benchMember) sync(joined *kmsg.JoinGroupResponse) (again bool, err error) {
	q := kmsg.NewPtrSyncGroupRequest()
	q.SetVersion(syncVersion)
	q.Group, q.MemberID, q.Generation = m.group.name, m.id, joined.Generation
	for _, n := range joined.Members { // only the leader is told
		q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: n.MemberID, MemberAssignment: []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}})
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	if err := m.conn.ask(q, resp); err != nil {
		return false, err
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); err {
	case nil:
		return false, nil
	case kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID:
		return true, nil
	default:
		return false, fmt.Errorf("SyncGroup: %w", err)
	}
}
