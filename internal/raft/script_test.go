package raft

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
)

// A script is a list of blocks: a command line, the line "----", and the
// effects that the core answered, up to an empty line. Commands:
//
//	new id=1 voters=1,2,3|none [kraft=1] [voterat=-1] [observer] [log=offset/epoch,… end=n]
//	    [state=epoch,leader,voted] [start=offset/epoch] [fast]
//	start | tick | wait MS | sleep MS | shutdown | resign E | lost N | state
//	vote from=2 epoch=3 log=end/epoch [pre] [voter=id]
//	begin leader=2 epoch=3 | end leader=2 epoch=3 succ=1,3
//	fetch from=2 epoch=3 at=offset/epoch [hw=n] [wait=ms]
//	voted from=2 epoch=3 [yes] [leader=n] [err=code] [id=n]
//	fetched from=2 epoch=3 leader=2 [hw=n] [batches=0-3/1,…] [diverge=end/epoch] [err=code] [id=n]
//	acked from=2 epoch=3 | failed to=2
//	flushed seq=1 to=end/epoch | propose epoch=1 n=3 [base=o]
//	fetchsnap from=2 epoch=3 snap=offset/epoch [pos=n]
//	part from=2 epoch=3 leader=2 snap=offset/epoch pos=n n=bytes size=n [err=code] [id=n]
//	sealed snap=offset/epoch [voters=1,2] [bad]
//	add voter=4 [early] [cluster=c] | remove voter=3 | update from=3 epoch=2 [max=1] [port=n]
//	features from=4 [max=1] [err=code] | updated from=2 epoch=3 [err=code] | joined from=2 [err=code]
//	upgrade level=1 [validate]
//
// A batch of fetched may carry a voter set: 5-5/1[1+2+3]. Voters have the
// directory 100 + id under kraft=1; dir=n in a command means another. "new" takes
// snap=offset/epoch (newest snapshot), port=n (this node listens there),
// autojoin, broker, stale=yes (this node's entry lacks its endpoints).
//
// With RAFT_UPDATE=1 in the environment the expected parts are rewritten.
type script struct {
	t     *testing.T
	core  *Core
	now   kafka.Now
	token uint64
	sent  map[kafka.NodeID]uint64
}

func newScript(t *testing.T) *script { return &script{t: t, sent: map[kafka.NodeID]uint64{}} }

func runScript(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t)
	var got strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		if i > 0 {
			got.WriteString("\n")
		}
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			if line == "----" {
				break
			}
			got.WriteString(line + "\n")
			if strings.HasPrefix(line, "#") {
				continue
			}
			out := s.run(line)
			got.WriteString("----\n" + out)
		}
	}
	if os.Getenv("RAFT_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(data) {
		t.Errorf("%s: the core answers otherwise; got:\n%s\nwant:\n%s", path, got.String(), data)
	}
}

type args map[string]string

func (a args) num(key string, def int64) int64 {
	v, ok := a[key]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%s", key, v))
	}
	return n
}

// pair reads "offset/epoch".
func pair(v string) kafka.OffsetAndEpoch {
	var o, e int64
	if _, err := fmt.Sscanf(v, "%d/%d", &o, &e); err != nil {
		panic(v)
	}
	return kafka.OffsetAndEpoch{Offset: kafka.Offset(o), Epoch: kafka.Epoch(e)}
}

func ids(v string) (l []ReplicaKey) {
	if v == "none" {
		return nil
	}
	for f := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(f)
		if err != nil {
			panic(v)
		}
		l = append(l, ReplicaKey{ID: kafka.NodeID(n)})
	}
	return l
}

func (s *script) run(line string) string {
	f := strings.Fields(line)
	a := args{}
	for _, w := range f[1:] {
		k, v, _ := strings.Cut(w, "=")
		a[k] = v
	}
	switch f[0] {
	case "new":
		s.create(a)
		return ""
	case "state":
		c := s.core
		timer := "never"
		if c.timer != kafka.Never {
			timer = fmt.Sprintf("%d ms", c.timer/1e6)
		}
		return fmt.Sprintf("%s epoch=%d leader=%d voted=%s end=%d flushed=%d hw=%d voters=%s timer=%s\n",
			c.role, c.election.Epoch, c.election.Leader, c.election.Voted, c.log.end, c.log.flushed, c.hw, c.voters(), timer)
	case "sleep": // the process stands still
		n, _ := strconv.Atoi(f[1])
		s.now.Mono = s.now.Mono.Add(time.Duration(n) * time.Millisecond)
		return ""
	case "wait":
		n, _ := strconv.Atoi(f[1])
		s.now.Mono = s.now.Mono.Add(time.Duration(n) * time.Millisecond)
	case "tick":
		if d := s.core.Deadline(); d == kafka.Never {
			return "no deadline\n"
		} else {
			s.now.Mono = max(s.now.Mono, d)
		}
	}
	s.now.Wall = kafka.WallMs(s.now.Mono / 1e6)
	var out Effects
	s.core.Step(s.now, s.event(f, a), &out)
	for _, r := range out.Requests {
		s.sent[r.To] = r.ID
	}
	return render(&out)
}

func (s *script) create(a args) {
	set := scriptVoters(ids(a["voters"]), a.num("kraft", 0))
	if v, ok := set.Find(kafka.NodeID(a.num("id", 1))); ok && a["stale"] == "" {
		v.Endpoints = scriptEndpoints(a)
		set = set.with(v)
	}
	id := kafka.NodeID(a.num("id", 1))
	at := kafka.Offset(a.num("voterat", -1))
	disk := Restored{Control: []Control{{Offset: at, KRaft: int16(a.num("kraft", 0))}, {Offset: at, Voters: &set}}}
	disk.End = kafka.Offset(a.num("end", 0))
	if l, ok := a["log"]; ok {
		for p := range strings.SplitSeq(l, ",") {
			disk.Epochs = append(disk.Epochs, pair(p))
		}
	}
	if st, ok := a["start"]; ok {
		disk.Start, disk.Snapshot = pair(st), pair(st)
	}
	if st, ok := a["state"]; ok {
		l := ids(st)
		disk.Election = &ElectionState{Epoch: kafka.Epoch(l[0].ID), Leader: l[1].ID, Voted: l[2]}
	}
	if st, ok := a["snap"]; ok {
		disk.Snapshot = pair(st)
	}
	_, fast := a["fast"]
	_, join := a["autojoin"]
	_, broker := a["broker"]
	s.core = New(Options{
		ClusterID: a["cluster"],
		Self:      scriptKey(id, a), MaxKRaft: 1, CanBecomeVoter: !broker, AutoJoin: join, Endpoints: scriptEndpoints(a),
		ElectionTimeout: time.Second, ElectionBackoffMax: time.Second, FetchTimeout: 2 * time.Second,
		RequestTimeout: 2 * time.Second, RetryBackoff: 20 * time.Millisecond,
		FetchMaxWait: 500 * time.Millisecond, FetchMaxBytes: 1 << 20, SnapshotMaxBytes: 1000, FastFailover: fast, Seed: 1,
	}, disk)
	s.now, s.sent = kafka.Now{}, map[kafka.NodeID]uint64{}
}

func scriptKey(id kafka.NodeID, a args) ReplicaKey {
	return ReplicaKey{ID: id, Dir: kafka.DirectoryID{15: byte(a.num("dir", int64(100+id)))}}
}

func scriptEndpoints(a args) []kafka.Endpoint {
	if _, ok := a["port"]; !ok {
		return nil
	}
	return []kafka.Endpoint{{Name: "CONTROLLER", Host: "h", Port: uint16(a.num("port", 0))}}
}

// membershipEvent reads the commands of voter changes and snapshots.
func (s *script) membershipEvent(f []string, a args, lead Leadership) (Event, bool) {
	from := kafka.NodeID(a.num("from", 0))
	id := uint64(a.num("id", int64(s.sent[from])))
	request := func(b Body) (Event, bool) { s.token++; return Request{Token: s.token, Body: b}, true }
	voter := kafka.NodeID(a.num("voter", int64(from)))
	key := ReplicaKey{ID: voter, Dir: kafka.DirectoryID{15: byte(a.num("dir", int64(100+voter)))}}
	code := kafka.ErrorCode(a.num("err", 0))
	var snap kafka.OffsetAndEpoch
	if v, ok := a["snap"]; ok {
		snap = pair(v)
	}
	switch f[0] {
	case "fetchsnap":
		return request(&FetchSnapshotRequest{ClusterID: a["cluster"], Replica: key, CurrentLeaderEpoch: lead.LeaderEpoch, ID: snap, Position: a.num("pos", 0), MaxBytes: 50})
	case "part":
		return Response{From: from, ID: id, Body: &FetchSnapshotResponse{Leadership: lead, ID: snap, Position: a.num("pos", 0),
			SizeBytes: a.num("size", 0), Bytes: make([]byte, a.num("n", 0))}}, true
	case "sealed":
		_, bad := a["bad"]
		e := SnapshotSealed{ID: snap, Bad: bad}
		if v, ok := a["voters"]; ok {
			set := scriptVoters(ids(v), 1)
			e.Control = []Control{{Offset: snap.Offset - 1, KRaft: 1}, {Offset: snap.Offset - 1, Voters: &set}}
		}
		return e, true
	case "add":
		_, early := a["early"]
		return request(&AddVoterRequest{ClusterID: a["cluster"], Voter: Voter{Key: key, Endpoints: scriptEndpoints(a)}, AckEarly: early})
	case "remove":
		return request(&RemoveVoterRequest{ClusterID: a["cluster"], Voter: key})
	case "update":
		return request(&UpdateVoterRequest{CurrentLeaderEpoch: lead.LeaderEpoch, Voter: Voter{Key: key, Endpoints: scriptEndpoints(a), MaxKRaft: int16(a.num("max", 1))}})
	case "upgrade":
		_, validate := a["validate"]
		return request(&UpgradeRequest{Level: int16(a.num("level", 1)), ValidateOnly: validate})
	case "features":
		return Response{From: from, ID: id, Body: &FeaturesResponse{Error: code, MaxKRaft: int16(a.num("max", 1))}}, true
	case "updated":
		lead.TopError, lead.Error = lead.Error, 0
		return Response{From: from, ID: id, Body: &UpdateVoterResponse{lead}}, true
	case "joined":
		return Response{From: from, ID: id, Body: &AddVoterResponse{Error: code}}, true
	}
	return nil, false
}

func scriptVoters(keys []ReplicaKey, kraft int64) VoterSet {
	var voters []Voter
	for _, k := range keys {
		v := Voter{Key: k, MaxKRaft: 1}
		if kraft > 0 {
			v.Key.Dir = kafka.DirectoryID{15: byte(100 + k.ID)}
		}
		voters = append(voters, v)
	}
	set, err := NewVoterSet(voters...)
	if err != nil {
		panic(err)
	}
	return set
}

func (s *script) event(f []string, a args) Event {
	epoch := kafka.Epoch(a.num("epoch", 0))
	from := kafka.NodeID(a.num("from", 0))
	leader := kafka.NodeID(a.num("leader", -1))
	lead := Leadership{Error: kafka.ErrorCode(a.num("err", 0)), LeaderID: leader, LeaderEpoch: epoch}
	id := uint64(a.num("id", int64(s.sent[from])))
	request := func(b Body) Event { s.token++; return Request{Token: s.token, Body: b} }
	arg := func() int { n, _ := strconv.Atoi(f[1]); return n }
	if ev, ok := s.membershipEvent(f, a, lead); ok {
		return ev
	}
	switch f[0] {
	case "start":
		return Start{}
	case "tick", "wait":
		return DeadlineReached{}
	case "shutdown":
		return Shutdown{}
	case "resign":
		return Resign{Epoch: kafka.Epoch(arg())}
	case "lost":
		return LeaderConnectionLost{Leader: kafka.NodeID(arg())}
	case "vote":
		_, pre := a["pre"]
		at := pair(a["log"])
		voter := ReplicaKey{ID: kafka.NodeID(a.num("voter", -1))}
		if _, ok := a["dir"]; ok {
			voter = scriptKey(voter.ID, a)
		}
		return request(&VoteRequest{Voter: voter, Replica: ReplicaKey{ID: from},
			ReplicaEpoch: epoch, LastEpoch: at.Epoch, LastOffset: at.Offset, PreVote: pre})
	case "begin":
		return request(&BeginQuorumEpochRequest{Voter: NoReplica, LeaderID: leader, LeaderEpoch: epoch})
	case "end":
		return request(&EndQuorumEpochRequest{LeaderID: leader, LeaderEpoch: epoch, Successors: ids(a["succ"])})
	case "fetch":
		at := pair(a["at"])
		key := ReplicaKey{ID: from}
		if _, ok := a["dir"]; ok {
			key = scriptKey(from, a)
		}
		return request(&FetchRequest{Replica: key, CurrentLeaderEpoch: epoch, FetchOffset: at.Offset, LastFetchedEpoch: at.Epoch,
			HighWatermark: kafka.Offset(a.num("hw", int64(HighWatermarkUnsupported))), MaxWait: time.Duration(a.num("wait", 0)) * time.Millisecond, MaxBytes: 100})
	case "voted":
		_, yes := a["yes"]
		return Response{From: from, ID: id, Body: &VoteResponse{Leadership: lead, Granted: yes}}
	case "acked":
		return Response{From: from, ID: id, Body: &EndQuorumEpochResponse{Leadership: lead}}
	case "failed":
		to := kafka.NodeID(a.num("to", 0))
		return RequestFailed{To: to, ID: s.sent[to]}
	case "fetched":
		return Response{From: from, ID: id, Body: s.fetched(a, lead)}
	case "flushed":
		at := pair(a["to"])
		return Flushed{Flush{Seq: uint64(a.num("seq", 0)), Offset: at.Offset, Epoch: at.Epoch}}
	case "propose":
		base := kafka.Offset(a.num("base", int64(s.core.EndOffset())))
		return Propose{Epoch: epoch, Batches: []Batch{{Base: base, Last: base + kafka.Offset(a.num("n", 1)) - 1, Epoch: epoch}}}
	}
	panic("unknown command " + f[0])
}

func (s *script) fetched(a args, lead Leadership) *FetchResponse {
	r := &FetchResponse{Leadership: lead, HighWatermark: kafka.Offset(a.num("hw", -1)), Diverging: NoDivergence, SnapshotID: NoDivergence}
	if d, ok := a["snap"]; ok {
		r.SnapshotID = pair(d)
	}
	if d, ok := a["diverge"]; ok {
		r.Diverging = pair(d)
	}
	if l, ok := a["batches"]; ok {
		for p := range strings.SplitSeq(l, ",") {
			var b Batch
			p, set, voters := strings.Cut(p, "[")
			if voters {
				v := scriptVoters(ids(strings.ReplaceAll(strings.TrimSuffix(set, "]"), "+", ",")), 1)
				defer func(i int) { r.Batches[i].Control = []Control{{Offset: r.Batches[i].Base, Voters: &v}} }(len(r.Batches))
			}
			if _, err := fmt.Sscanf(p, "%d-%d/%d", &b.Base, &b.Last, &b.Epoch); err != nil {
				panic(p)
			}
			r.Batches = append(r.Batches, b)
		}
	}
	return r
}

func render(e *Effects) string {
	var b strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	if s := e.Persist; s != nil {
		p("persist epoch=%d leader=%d voted=%s v%d", s.Epoch, s.Leader, s.Voted, e.KRaft)
	}
	if e.Truncate != nil {
		p("truncate to %d", *e.Truncate)
	}
	if l := e.LeaderChange; l != nil {
		p("leader change at %d/%d voters=%v granting=%v", l.Base, l.Epoch, l.Voters, l.Granting)
		if l.NewVoters != nil {
			p("  kraft.version %d, voters %s", l.KRaft, l.NewVoters)
		}
	}
	if v := e.VotersChange; v != nil {
		p("voters change at %d/%d: %s", v.Base, v.Epoch, v.Voters)
		if v.KRaft != nil {
			p("  kraft.version %d", *v.KRaft)
		}
	}
	if x := e.SnapshotPart; x != nil {
		p("snapshot %d/%d, %d bytes at %d", x.ID.Offset, x.ID.Epoch, len(x.Bytes), x.Position)
	}
	if e.SealSnapshot != nil {
		p("seal %d/%d", e.SealSnapshot.Offset, e.SealSnapshot.Epoch)
	}
	if e.LoadSnapshot != nil {
		p("load %d/%d", e.LoadSnapshot.Offset, e.LoadSnapshot.Epoch)
	}
	for _, x := range e.Append {
		p("append %d-%d/%d", x.Base, x.Last, x.Epoch)
	}
	if f := e.Flush; f != nil {
		p("flush #%d to %d/%d", f.Seq, f.Offset, f.Epoch)
	}
	for _, r := range e.Requests {
		p("to %d #%d %s", r.To, r.ID, renderBody(r.Body))
	}
	for _, r := range e.Replies {
		p("reply %d %s", r.Token, renderBody(r.Body))
	}
	if l := e.Leader; l != nil {
		p("publish leader=%d epoch=%d", l.Leader, l.Epoch)
	}
	if e.HighWatermark != nil {
		p("high watermark %d", *e.HighWatermark)
	}
	if e.Resigned != nil {
		p("resigned %d", *e.Resigned)
	}
	if e.Led != nil {
		p("led %d", *e.Led)
	}
	if e.Rejected != nil {
		p("rejected: %v", e.Rejected)
	}
	if e.Fatal != nil {
		p("fatal: %v", e.Fatal)
	}
	return b.String()
}

func renderBody(b Body) string {
	l := func(l Leadership) string {
		s := fmt.Sprintf("leader=%d epoch=%d", l.LeaderID, l.LeaderEpoch)
		if l.Error != 0 || l.TopError != 0 {
			s += fmt.Sprintf(" %s", max(l.Error, l.TopError))
		}
		return s
	}
	switch m := b.(type) {
	case *VoteRequest:
		kind := "vote"
		if m.PreVote {
			kind = "pre-vote"
		}
		return fmt.Sprintf("%s epoch=%d log=%d/%d", kind, m.ReplicaEpoch, m.LastOffset, m.LastEpoch)
	case *VoteResponse:
		return fmt.Sprintf("granted=%t %s", m.Granted, l(m.Leadership))
	case *BeginQuorumEpochRequest:
		return fmt.Sprintf("begin epoch=%d", m.LeaderEpoch)
	case *BeginQuorumEpochResponse:
		return "begun " + l(m.Leadership)
	case *EndQuorumEpochRequest:
		return fmt.Sprintf("end epoch=%d successors=%v", m.LeaderEpoch, m.Successors)
	case *EndQuorumEpochResponse:
		return "ended " + l(m.Leadership)
	case *FetchRequest:
		return fmt.Sprintf("fetch epoch=%d at=%d/%d hw=%d", m.CurrentLeaderEpoch, m.FetchOffset, m.LastFetchedEpoch, m.HighWatermark)
	case *FetchResponse:
		s := "fetched " + l(m.Leadership) + fmt.Sprintf(" hw=%d", m.HighWatermark)
		if m.Diverging != NoDivergence {
			s += fmt.Sprintf(" diverging=%d/%d", m.Diverging.Offset, m.Diverging.Epoch)
		}
		if m.SnapshotID != NoDivergence {
			s += fmt.Sprintf(" snapshot=%d/%d", m.SnapshotID.Offset, m.SnapshotID.Epoch)
		}
		if m.Read.MaxBytes > 0 {
			s += fmt.Sprintf(" records from %d", m.Read.From)
		}
		return s
	}
	return renderMembership(b, l)
}

func renderMembership(b Body, l func(Leadership) string) string {
	said := func(code kafka.ErrorCode, text string) string {
		return strings.TrimSuffix(fmt.Sprintf("%s %q", code, text), ` ""`)
	}
	switch m := b.(type) {
	case *FetchSnapshotRequest:
		return fmt.Sprintf("fetch snapshot %d/%d from %d max=%d epoch=%d", m.ID.Offset, m.ID.Epoch, m.Position, m.MaxBytes, m.CurrentLeaderEpoch)
	case *FetchSnapshotResponse:
		return fmt.Sprintf("snapshot %d/%d from %d max=%d %s", m.ID.Offset, m.ID.Epoch, m.Position, m.MaxBytes, l(m.Leadership))
	case *FeaturesRequest:
		return "what do you support"
	case *AddVoterRequest:
		return fmt.Sprintf("add me, %s", m.Voter.Key)
	case *RemoveVoterRequest:
		return fmt.Sprintf("remove %s", m.Voter)
	case *UpdateVoterRequest:
		return fmt.Sprintf("update %s at %v up to kraft.version %d", m.Voter.Key, m.Voter.Endpoints, m.Voter.MaxKRaft)
	case *AddVoterResponse:
		return "added " + said(m.Error, m.Message)
	case *RemoveVoterResponse:
		return "removed " + said(m.Error, m.Message)
	case *UpgradeResponse:
		return "upgraded " + said(m.Error, m.Message)
	case *UpdateVoterResponse:
		return "updated " + l(m.Leadership)
	}
	return fmt.Sprintf("%T", b)
}
