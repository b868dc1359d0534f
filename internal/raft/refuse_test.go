package raft

import (
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
)

// lines runs commands of a script without looking at what they do.
func (s *script) lines(text string) {
	s.t.Helper()
	for line := range strings.Lines(text) {
		s.run(strings.TrimSpace(line))
	}
}

// ask gives the answer to a request, nil if there is none yet.
func (s *script) ask(body Body) Body {
	var out Effects
	s.token++
	s.core.Step(s.now, Request{Token: s.token, Body: body}, &out)
	for _, r := range out.Replies {
		if r.Token == s.token {
			return r.Body
		}
	}
	return nil
}

// ledBy2 makes node 1 the leader of epoch 2 among voters 1 to 3, by node 2's vote.
const ledBy2 = `new id=1 voters=1,2,3 kraft=1 voterat=3 log=0/1 end=10 state=1,-1,-1 port=9 cluster=ours
start
flushed seq=1 to=10/1
tick
voted from=2 epoch=1 yes
voted from=2 epoch=2 yes
flushed seq=2 to=11/2
fetch from=2 dir=102 epoch=2 at=11/2`

// codeOf is the code that decides an answer, and the epoch that it tells.
func codeOf(t *testing.T, b Body) kafka.ErrorCode {
	t.Helper()
	var l Leadership
	switch b := b.(type) {
	case *VoteResponse:
		l = b.Leadership
	case *BeginQuorumEpochResponse:
		l = b.Leadership
	case *EndQuorumEpochResponse:
		l = b.Leadership
	case *FetchResponse:
		l = b.Leadership
	case *FetchSnapshotResponse:
		l = b.Leadership
	case *UpdateVoterResponse:
		l = b.Leadership
	case *AddVoterResponse:
		return b.Error
	case *RemoveVoterResponse:
		return b.Error
	default:
		t.Fatalf("answer %T", b)
	}
	if l.TopError != 0 {
		return l.TopError
	}
	return l.Error
}

// HC-052: whoever belongs to another cluster is refused by every request, and
// changes nothing. Fails for a request whose handler does not ask clusterMatches.
func TestHC052ForeignClusterIsRefused(t *testing.T) {
	s := newScript(t)
	s.lines(ledBy2)
	before := *s.core.stored
	voter := Voter{Key: ReplicaKey{ID: 4, Dir: kafka.DirectoryID{15: 104}}, Endpoints: s.core.opts.Endpoints, MaxKRaft: 1}
	two := ReplicaKey{ID: 2, Dir: kafka.DirectoryID{15: 102}}
	for _, body := range []Body{
		&VoteRequest{ClusterID: "theirs", Voter: NoReplica, Replica: two, ReplicaEpoch: 9, LastEpoch: 8, LastOffset: 99},
		&BeginQuorumEpochRequest{ClusterID: "theirs", Voter: NoReplica, LeaderID: 2, LeaderEpoch: 9},
		&EndQuorumEpochRequest{ClusterID: "theirs", LeaderID: 2, LeaderEpoch: 9},
		&FetchRequest{ClusterID: "theirs", Replica: two, CurrentLeaderEpoch: 2, FetchOffset: 11, LastFetchedEpoch: 2},
		&FetchSnapshotRequest{ClusterID: "theirs", Replica: two, CurrentLeaderEpoch: 2, ID: kafka.OffsetAndEpoch{Offset: 3, Epoch: 1}},
		&AddVoterRequest{ClusterID: "theirs", Voter: voter},
		&RemoveVoterRequest{ClusterID: "theirs", Voter: two},
		&UpdateVoterRequest{ClusterID: "theirs", CurrentLeaderEpoch: 2, Voter: voter},
	} {
		if code := codeOf(t, s.ask(body)); code != kafka.ErrInconsistentClusterID {
			t.Errorf("%T: %s", body, code)
		}
		if s.core.role != Leader || s.core.election != before {
			t.Fatalf("%T: now %s, %+v", body, s.core.role, s.core.election)
		}
	}
}

// What a fetch asks must make sense. Fails if handleFetch takes it as it is.
func TestMalformedFetchesAreRefused(t *testing.T) {
	s := newScript(t)
	s.lines(ledBy2)
	good := FetchRequest{Replica: ReplicaKey{ID: 9, Dir: kafka.DirectoryID{15: 109}}, CurrentLeaderEpoch: 2, FetchOffset: 11, LastFetchedEpoch: 2}
	if code := codeOf(t, s.ask(&good)); code != kafka.NoError {
		t.Errorf("a good fetch: %s", code)
	}
	for _, change := range []func(*FetchRequest){
		func(r *FetchRequest) { r.MaxWait = -time.Second },
		func(r *FetchRequest) { r.FetchOffset = -1 },
		func(r *FetchRequest) { r.LastFetchedEpoch = -1 },
		func(r *FetchRequest) { r.LastFetchedEpoch = 3 },
		func(r *FetchRequest) { r.Replica = s.core.opts.Self },
	} {
		r := good
		change(&r)
		if code := codeOf(t, s.ask(&r)); code != kafka.ErrInvalidRequest {
			t.Errorf("%+v: %s", r, code)
		}
	}
}

// A second leader of an epoch cannot be: its announcement is refused. Fails if
// observe does not compare with the known leader.
func TestSecondLeaderOfAnEpochIsRefused(t *testing.T) {
	s := newScript(t)
	s.lines(`new id=1 voters=1,2,3 state=3,2,-1
start`)
	a := s.ask(&BeginQuorumEpochRequest{Voter: NoReplica, LeaderID: 3, LeaderEpoch: 3})
	if code := codeOf(t, a); code != kafka.ErrInvalidRequest || s.core.election.Leader != 2 {
		t.Errorf("answer %s, leader %d", code, s.core.election.Leader)
	}
}

// Records of an epoch beyond the leader's, or of a falling one, are not taken.
// Fails if appendFetched does not compare epochs.
func TestFetchedRecordsOfOtherEpochs(t *testing.T) {
	for _, batches := range []string{"5-6/4", "5-6/3,7-8/2", "5-6/1", "6-7/3"} {
		s := newScript(t)
		s.lines(`new id=1 voters=1,2,3 state=3,2,-1 log=0/2 end=5
start
flushed seq=1 to=5/2`)
		if out := s.run("fetched from=2 epoch=3 leader=2 hw=5 batches=" + batches); strings.Contains(out, "append") || s.core.log.end != 5 {
			t.Errorf("batches %s: end %d, %s", batches, s.core.log.end, out)
		}
	}
}

// Who leaves in peace does not stand again. Fails if expireRole does not ask
// for shutdown.
func TestNobodyStandsAfterShutdown(t *testing.T) {
	s := newScript(t)
	s.lines(`new id=1 voters=1,2,3 state=3,2,-1
start
shutdown`)
	if at := s.core.Deadline(); at != kafka.Never {
		s.now.Mono = at
	}
	s.run("wait 60000")
	if s.core.role != Follower || s.core.election.Epoch != 3 {
		t.Errorf("now %s of epoch %d", s.core.role, s.core.election.Epoch)
	}
}

// HC-031: the former disk's successor, a node of the same id, does not keep a
// leader that its voters do not hear. Fails if contact compares ids alone.
func TestHC031OtherDiskKeepsNoLeader(t *testing.T) {
	s := newScript(t)
	s.lines(ledBy2)
	for range 8 {
		s.lines(`wait 500
fetch from=3 dir=99 epoch=2 at=11/2`)
	}
	if s.core.role == Leader {
		t.Error("kept by a node that is no voter")
	}
}

// A snapshot that was being verified while the log passed it is not loaded.
// Fails if snapshotSealed does not compare with the high watermark.
func TestSealedSnapshotThatIsPassed(t *testing.T) {
	s := newScript(t)
	s.lines(`new id=1 voters=1,2,3 state=3,2,-1 log=0/2 end=5
start
flushed seq=1 to=5/2`)
	s.core.sealing = kafka.OffsetAndEpoch{Offset: 8, Epoch: 3}
	s.core.log.append(5, 9, 3)
	s.core.hw = 9
	if out := s.run("sealed snap=8/3"); strings.Contains(out, "load") || s.core.log.end != 10 {
		t.Errorf("end %d, %s", s.core.log.end, out)
	}
}

// HC-014: a flush that began before a snapshot was loaded covers nothing of the
// log behind it, though the epoch is the same. Fails if reset leaves flight alone.
func TestHC014SnapshotDuringFlush(t *testing.T) {
	var l logView
	l.append(0, 19, 1)
	f, _ := l.startFlush()
	l.reset(kafka.OffsetAndEpoch{Offset: 15, Epoch: 1})
	l.append(15, 24, 1)
	l.flushDone(f)
	if l.flushed != 15 {
		t.Errorf("flushed %d after a stale completion, want 15", l.flushed)
	}
}

// A VotersRecord does not hold the security protocol of an endpoint: a voter
// whose entry lacks only that has nothing to tell its leader. Fails if equal
// compares protocols: it would tell for ever, and each leader write its set anew.
func TestVoterEntryWithoutProtocol(t *testing.T) {
	s := newScript(t)
	s.lines(`new id=1 voters=1,2,3 kraft=1 voterat=3 log=0/1 end=10 state=1,2,-1 port=9
start
flushed seq=1 to=10/1`)
	s.core.opts.Endpoints = slices.Clone(s.core.opts.Endpoints)
	s.core.opts.Endpoints[0].Protocol = 1
	if what := s.core.wants(); what != nothing {
		t.Errorf("wants to tell %d", what)
	}
	s.core.opts.Endpoints[0].Port++
	if what := s.core.wants(); what != updateEntry {
		t.Errorf("after a move it wants to tell %d", what)
	}
}

// A leader that has left sends who changes the voters to the next one
// (validateLeaderOnlyRequest). Fails if the code says that it is not available.
func TestChangesOfVotersAfterShutdown(t *testing.T) {
	s := newScript(t)
	s.lines(ledBy2 + "\nshutdown")
	a := s.ask(&RemoveVoterRequest{Voter: ReplicaKey{ID: 3, Dir: kafka.DirectoryID{15: 103}}})
	if code := codeOf(t, a); code != kafka.ErrNotLeaderForPartition {
		t.Errorf("answer %s", code)
	}
}
