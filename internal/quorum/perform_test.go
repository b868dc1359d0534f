package quorum

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// told is an Env that writes down what is done, and fails what it is told to.
type told struct {
	done []string
	fail string
}

var errTold = errors.New("told to fail")

func (e *told) note(what string) error {
	if what == e.fail {
		return errTold
	}
	e.done = append(e.done, what)
	return nil
}

func (e *told) SaveElection(raft.ElectionState, int16, raft.VoterSet) error { return e.note("persist") }
func (e *told) Truncate(kafka.Offset) error                                 { return e.note("truncate") }
func (e *told) AppendLeaderChange(*raft.LeaderChange, kafka.WallMs) error {
	return e.note("leader change")
}
func (e *told) AppendVoters(*raft.VotersChange, kafka.WallMs) error { return e.note("voters") }
func (e *told) Append(raft.Batch) error                             { return e.note("append") }
func (e *told) WriteSnapshot(*raft.SnapshotPart) error              { return e.note("part") }
func (e *told) SealSnapshot(kafka.OffsetAndEpoch) error             { return e.note("seal") }
func (e *told) ResetLog(kafka.OffsetAndEpoch) error                 { return e.note("reset") }
func (e *told) StartFlush(raft.Flush)                               { _ = e.note("flush") }
func (e *told) Request(raft.Outgoing)                               { _ = e.note("request") }
func (e *told) Reply(raft.Reply)                                    { _ = e.note("reply") }
func (e *told) Set(kafka.Mono)                                      { _ = e.note("timer") }
func (e *told) Read(kafka.Offset, int) ([]byte, error)              { return nil, e.note("read") }
func (e *told) ReadSnapshot(kafka.OffsetAndEpoch, int64, int) (int64, []byte, kafka.ErrorCode, error) {
	return 0, nil, 0, e.note("read snapshot")
}
func (e *told) Committed(kafka.Offset) error { return e.note("committed on disk") }

// toldApp is the App of told; Committed has the same name as the disk's.
type toldApp struct{ *told }

func (a toldApp) LeaderChanged(raft.LeaderAndEpoch)       { _ = a.note("publish leader") }
func (a toldApp) Resigned(kafka.Epoch)                    { _ = a.note("resigned") }
func (a toldApp) Led(kafka.Epoch)                         { _ = a.note("led") }
func (a toldApp) LoadSnapshot(kafka.OffsetAndEpoch) error { return a.note("load") }
func (a toldApp) Committed(kafka.Offset) error            { return a.note("committed") }

// performOrder is the order of raft.Effects.
var performOrder = []string{
	"persist", "truncate", "leader change", "voters", "part", "seal", "reset", "append", "flush", "committed on disk",
	"request", "read", "reply", "read snapshot", "reply", "publish leader", "load", "committed", "resigned", "led", "timer",
}

// All effects at once, in the order of the fields of raft.Effects; after a
// failure nothing more is done (HC-007): no message leaves that rests on what is
// not stored. Fails if Perform changes the order or goes on.
func TestHC007NothingIsDoneAfterAFailure(t *testing.T) {
	id, offset, epoch := kafka.OffsetAndEpoch{Offset: 9, Epoch: 1}, kafka.Offset(9), kafka.Epoch(1)
	for _, fail := range append([]string{""}, performOrder...) {
		out := &raft.Effects{
			Persist: &raft.ElectionState{}, Truncate: &offset, LeaderChange: &raft.LeaderChange{}, VotersChange: &raft.VotersChange{},
			SnapshotPart: &raft.SnapshotPart{}, SealSnapshot: &id, LoadSnapshot: &id, Append: make([]raft.Batch, 1), Flush: &raft.Flush{},
			HighWatermark: &offset, Requests: make([]raft.Outgoing, 1), Leader: &raft.LeaderAndEpoch{}, Resigned: &epoch, Led: &epoch,
			Replies: []raft.Reply{
				{Body: &raft.FetchResponse{Read: raft.ReadRange{MaxBytes: 1}}}, {Body: &raft.FetchSnapshotResponse{MaxBytes: 1}},
			},
		}
		e := &told{fail: fail}
		err := Perform(raft.New(raft.Options{}, raft.Restored{}), out, kafka.Now{}, Env{Disk: e, Net: e, Timer: e, App: toldApp{e}})
		want := performOrder
		switch fail { // what cannot fail is only left out
		case "flush", "request", "reply", "publish leader", "resigned", "led", "timer", "":
			if err != nil {
				t.Errorf("%s: %v", fail, err)
			}
			want = slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s == fail })
		default:
			if !errors.Is(err, errTold) {
				t.Errorf("%s fails: %v", fail, err)
			}
			want = want[:slices.Index(want, fail)]
		}
		if fmt.Sprint(e.done) != fmt.Sprint(want) {
			t.Errorf("%s fails:\ndone %q\nwant %q", fail, e.done, want)
		}
	}
	fatal := &raft.Effects{Fatal: errTold, Requests: make([]raft.Outgoing, 1)}
	e := &told{}
	if err := Perform(raft.New(raft.Options{}, raft.Restored{}), fatal, kafka.Now{}, Env{Disk: e, Net: e, Timer: e, App: toldApp{e}}); !errors.Is(err, errTold) || len(e.done) > 0 {
		t.Errorf("fatal: %v, done %q", err, e.done)
	}
}

// Room implements Net.
func (*told) Room() int { return 1 << 30 }
