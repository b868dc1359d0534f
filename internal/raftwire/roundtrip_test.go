package raftwire_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/raftwire"
)

func features(b raft.Body) [3]int {
	f := b.(*raft.FeaturesResponse)
	return [3]int{int(f.Error), int(f.MinKRaft), int(f.MaxKRaft)}
}

type dice struct{ *rand.Rand }

func (d dice) dir() (id kafka.DirectoryID) {
	for i := range id {
		id[i] = byte(d.Uint32())
	}
	return id
}

func (d dice) key() raft.ReplicaKey {
	return raft.ReplicaKey{ID: kafka.NodeID(d.IntN(1000)), Dir: d.dir()}
}

func (d dice) epoch() kafka.Epoch   { return kafka.Epoch(d.Int32()) }
func (d dice) offset() kafka.Offset { return kafka.Offset(d.Int64()) }
func (d dice) id() kafka.OffsetAndEpoch {
	return kafka.OffsetAndEpoch{Offset: d.offset(), Epoch: d.epoch()}
}
func (d dice) endpoint() kafka.Endpoint {
	return kafka.Endpoint{Name: "CONTROLLER", Host: []string{"a", "::1", "node.example"}[d.IntN(3)], Port: uint16(1 + d.IntN(65535))}
}

func (d dice) bytes() []byte {
	b := make([]byte, 1+d.IntN(50))
	for i := range b {
		b[i] = byte(d.Uint32())
	}
	return b
}

func (d dice) leadership() raft.Leadership {
	return raft.Leadership{
		Error: kafka.ErrorCode(d.IntN(100)), LeaderID: kafka.NodeID(d.IntN(9)), LeaderEpoch: d.epoch(),
		Endpoints: []kafka.Endpoint{d.endpoint()},
	}
}

func (d dice) voter() raft.Voter {
	return raft.Voter{Key: d.key(), Endpoints: []kafka.Endpoint{d.endpoint(), {Name: "OTHER", Host: "h", Port: 1}}}
}

func (d dice) requests() []raft.Body {
	ranged := d.voter()
	ranged.MinKRaft, ranged.MaxKRaft = int16(d.IntN(2)), int16(d.IntN(9))
	return []raft.Body{
		&raft.VoteRequest{ClusterID: "c", Voter: d.key(), Replica: d.key(), ReplicaEpoch: d.epoch(), LastEpoch: d.epoch(), LastOffset: d.offset(), PreVote: d.IntN(2) == 0},
		&raft.BeginQuorumEpochRequest{ClusterID: "c", Voter: d.key(), LeaderID: 1, LeaderEpoch: d.epoch(), Endpoints: []kafka.Endpoint{d.endpoint()}},
		&raft.EndQuorumEpochRequest{ClusterID: "c", LeaderID: 1, LeaderEpoch: d.epoch(), Successors: []raft.ReplicaKey{d.key(), d.key()}, Endpoints: []kafka.Endpoint{d.endpoint()}},
		&raft.FetchRequest{ClusterID: "c", Replica: d.key(), CurrentLeaderEpoch: d.epoch(), FetchOffset: d.offset(), LastFetchedEpoch: d.epoch(), HighWatermark: d.offset(), MaxWait: time.Duration(d.IntN(1000)) * time.Millisecond, MaxBytes: d.IntN(1 << 20)},
		&raft.FetchSnapshotRequest{ClusterID: "c", Replica: d.key(), CurrentLeaderEpoch: d.epoch(), ID: d.id(), Position: d.Int64(), MaxBytes: d.IntN(1 << 20)},
		&raft.AddVoterRequest{ClusterID: "c", Timeout: time.Duration(d.IntN(1000)) * time.Millisecond, Voter: d.voter(), AckEarly: d.IntN(2) == 0},
		&raft.RemoveVoterRequest{ClusterID: "c", Voter: d.key()},
		&raft.UpdateVoterRequest{ClusterID: "c", CurrentLeaderEpoch: d.epoch(), Voter: ranged},
	}
}

// older is what a version that lacks some fields leaves of a body.
func older(b raft.Body, version int16) raft.Body {
	switch m := b.(type) {
	case *raft.VoteRequest:
		if version == 0 {
			m.Voter, m.Replica.Dir = raft.NoReplica, kafka.DirectoryID{}
		}
	case *raft.BeginQuorumEpochRequest:
		if version == 0 {
			m.Voter, m.Endpoints = raft.NoReplica, nil
		}
	case *raft.EndQuorumEpochRequest:
		if version == 0 {
			m.Endpoints = nil
			for i := range m.Successors {
				m.Successors[i].Dir = kafka.DirectoryID{}
			}
		}
	case *raft.FetchRequest:
		if version < 17 {
			m.Replica.Dir = kafka.DirectoryID{}
		}
		if version < 18 {
			m.HighWatermark = raft.HighWatermarkUnsupported
		}
	case *raft.FetchSnapshotRequest:
		if version == 0 {
			m.Replica.Dir = kafka.DirectoryID{}
		}
	}
	return b
}

// What is sent arrives as it was, in every version, but for the fields that the
// version lacks. Fails if a tagged field is written in a version without it.
func TestRequestsRoundTrip(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	c := raftwire.Codec{Listener: "CONTROLLER"}
	for range 200 {
		for _, b := range d.requests() {
			v, err := raftwire.VersionsOf(b)
			must(t, err)
			for version := v.Max; version >= v.Min; version-- {
				req, err := c.Request(b, version)
				must(t, err)
				onWire := kmsg.RequestForKey(v.Key)
				onWire.SetVersion(version)
				must(t, onWire.ReadFrom(req.AppendTo(nil)))
				got, refusal := c.ParseRequest(onWire)
				if refusal != nil {
					t.Fatalf("%T version %d refused: %+v", b, version, refusal)
				}
				if want := older(b, version); !reflect.DeepEqual(got, want) {
					t.Fatalf("version %d\nwant %+v\n got %+v", version, want, got)
				}
			}
		}
	}
}

// A pre-vote must never be sent as a vote, nor an early acknowledgement be
// asked of who cannot give it. Fails if VersionsOf does not look at the fields.
func TestFieldsThatCannotBeLeftOut(t *testing.T) {
	c := raftwire.Codec{}
	for _, b := range []raft.Body{&raft.VoteRequest{PreVote: true}, &raft.AddVoterRequest{AckEarly: true}} {
		v, err := raftwire.VersionsOf(b)
		must(t, err)
		if _, err := c.Request(b, v.Min-1); err == nil {
			t.Errorf("%T is sent in version %d", b, v.Min-1)
		}
	}
}

func TestResponsesRoundTrip(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(3, 4))}
	c := raftwire.Codec{Listener: "CONTROLLER"}
	for range 200 {
		update := &raft.UpdateVoterResponse{Leadership: d.leadership()}
		update.TopError, update.Error = update.Error, 0
		for _, x := range []struct {
			key       int16
			from, max int16 // versions with endpoints
			body      raft.Body
		}{
			{52, 1, 2, &raft.VoteResponse{Leadership: d.leadership(), Granted: d.IntN(2) == 0}},
			{53, 1, 1, &raft.BeginQuorumEpochResponse{Leadership: d.leadership()}},
			{54, 1, 1, &raft.EndQuorumEpochResponse{Leadership: d.leadership()}},
			{1, 17, 18, &raft.FetchResponse{Leadership: d.leadership(), HighWatermark: d.offset(), LogStart: d.offset(), Diverging: d.id(), SnapshotID: d.id(), Records: d.bytes()}},
			{59, 1, 1, &raft.FetchSnapshotResponse{Leadership: d.leadership(), ID: d.id(), SizeBytes: d.Int64(), Position: d.Int64(), Bytes: d.bytes()}},
			{80, 0, 1, &raft.AddVoterResponse{Error: 3, Message: "m"}},
			{81, 0, 0, &raft.RemoveVoterResponse{Error: 3, Message: "m"}},
			{82, 0, 0, update},
		} {
			for version := x.from; version <= x.max; version++ {
				resp := kmsg.RequestForKey(x.key).ResponseKind()
				resp.SetVersion(version)
				must(t, resp.ReadFrom(c.Response(x.body, version).AppendTo(nil)))
				got, err := c.ParseResponse(resp)
				must(t, err)
				if !reflect.DeepEqual(got, x.body) {
					t.Fatalf("version %d\nwant %+v\n got %+v", version, x.body, got)
				}
			}
		}
	}
}

// An answer that failed as a whole names no partition, as Kafka's.
func TestFailedAnswers(t *testing.T) {
	c := raftwire.Codec{Listener: "CONTROLLER"}
	top := raft.Leadership{TopError: kafka.ErrInconsistentClusterID, LeaderID: 1, LeaderEpoch: 5, Endpoints: []kafka.Endpoint{{Name: "CONTROLLER", Host: "a", Port: 1}}}
	for _, b := range []raft.Body{
		&raft.VoteResponse{Leadership: top}, &raft.BeginQuorumEpochResponse{Leadership: top}, &raft.EndQuorumEpochResponse{Leadership: top},
		&raft.FetchResponse{Leadership: top}, &raft.FetchSnapshotResponse{Leadership: top},
	} {
		resp := c.Response(b, 1)
		if n := reflect.ValueOf(resp).Elem().FieldByName("Topics").Len(); n != 0 {
			t.Errorf("%T has %d topics", resp, n)
		}
		got, err := c.ParseResponse(resp)
		must(t, err)
		if code := reflect.ValueOf(got).Elem().FieldByName("TopError").Interface(); code != top.TopError {
			t.Errorf("%T: %v", got, code)
		}
	}
}

// A request about anything but the metadata log is refused as Kafka refuses it
// (RaftUtil.hasValidTopicPartition). Fails if one of the checks is left out.
func TestForeignTopicsAreRefused(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(5, 6))}
	c := raftwire.Codec{}
	for _, b := range d.requests()[:5] {
		v, _ := raftwire.VersionsOf(b)
		for what, change := range map[string]func(topics reflect.Value){
			"none": func(ts reflect.Value) { ts.Set(ts.Slice(0, 0)) },
			"two":  func(ts reflect.Value) { ts.Set(reflect.Append(ts, ts.Index(0))) },
			"partition": func(ts reflect.Value) {
				ts.Index(0).FieldByName("Partitions").Index(0).FieldByName("Partition").SetInt(1)
			},
			"empty": func(ts reflect.Value) {
				p := ts.Index(0).FieldByName("Partitions")
				p.Set(p.Slice(0, 0))
			},
			"name": func(ts reflect.Value) {
				ts.Index(0).FieldByName("Topic").SetString("other")
				if id := ts.Index(0).FieldByName("TopicID"); id.IsValid() {
					id.SetZero()
				}
			},
		} {
			req, err := c.Request(b, v.Max)
			must(t, err)
			change(reflect.ValueOf(req).Elem().FieldByName("Topics"))
			if body, refusal := c.ParseRequest(req); body != nil || refusal == nil {
				t.Errorf("%T with %s is accepted", b, what)
			} else if refusal.GetVersion() != v.Max {
				t.Errorf("%T: refusal in version %d", b, refusal.GetVersion())
			}
		}
	}
}
