package quorum

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

const quorumStateFile = "quorum-state"

// ErrQuorumState says that quorum-state cannot be understood. The node must not
// start: it may have voted (HC-006).
var ErrQuorumState = errors.New("quorum-state cannot be read")

// replaceVoter is what to do about a vote that is not known.
const replaceVoter = "restore the file, or replace this voter: remove it from the quorum, format its metadata directory anew, and add it again"

// Data versions of quorum-state: 0 under kraft.version 0, 1 under 1 (Trap 17).
type stateV0 struct {
	ClusterID     string         `json:"clusterId"`
	LeaderID      kafka.NodeID   `json:"leaderId"`
	LeaderEpoch   kafka.Epoch    `json:"leaderEpoch"`
	VotedID       kafka.NodeID   `json:"votedId"`
	AppliedOffset kafka.Offset   `json:"appliedOffset"`
	CurrentVoters []stateV0Voter `json:"currentVoters"`
	DataVersion   int16          `json:"data_version"`
}

type stateV0Voter struct {
	VoterID kafka.NodeID `json:"voterId"`
}

type stateV1 struct {
	LeaderID    kafka.NodeID `json:"leaderId"`
	LeaderEpoch kafka.Epoch  `json:"leaderEpoch"`
	VotedID     kafka.NodeID `json:"votedId"`
	VotedDir    string       `json:"votedDirectoryId"`
	DataVersion int16        `json:"data_version"`
}

// encodeQuorumState gives the file's content as Kafka's FileQuorumStateStore
// writes it.
func encodeQuorumState(s raft.ElectionState, kraft int16, voters raft.VoterSet) []byte {
	var v any
	if kraft >= 1 {
		v = stateV1{s.Leader, s.Epoch, s.Voted.ID, s.Voted.Dir.String(), 1}
	} else {
		v0 := stateV0{LeaderID: s.Leader, LeaderEpoch: s.Epoch, VotedID: s.Voted.ID, CurrentVoters: []stateV0Voter{}}
		for _, m := range voters.All() {
			v0.CurrentVoters = append(v0.CurrentVoters, stateV0Voter{m.Key.ID})
		}
		v = v0
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs
	}
	return data
}

// decodeQuorumState reads either data version. Fields that must be there are
// pointers, so that their absence is seen.
func decodeQuorumState(data []byte) (raft.ElectionState, error) {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	var f struct {
		LeaderID    *kafka.NodeID `json:"leaderId"`
		LeaderEpoch *kafka.Epoch  `json:"leaderEpoch"`
		VotedID     *kafka.NodeID `json:"votedId"`
		VotedDir    *string       `json:"votedDirectoryId"`
		DataVersion *int16        `json:"data_version"`
	}
	fail := func(format string, a ...any) (raft.ElectionState, error) {
		return raft.ElectionState{}, fmt.Errorf("%w: %s", ErrQuorumState, fmt.Sprintf(format, a...))
	}
	if err := json.Unmarshal(line, &f); err != nil {
		return fail("not a JSON object: %v", err)
	}
	if f.DataVersion == nil {
		return fail("it has no data_version")
	}
	if v := *f.DataVersion; v < 0 || v > 1 {
		return fail("data_version %d is not known, only 0 and 1 are; a newer version wrote it", v)
	}
	if f.LeaderID == nil || f.LeaderEpoch == nil || f.VotedID == nil {
		return fail("leaderId, leaderEpoch or votedId is missing")
	}
	if *f.LeaderEpoch < 0 || *f.LeaderID < kafka.NoNode || *f.VotedID < kafka.NoNode {
		return fail("leaderId %d, leaderEpoch %d, votedId %d", *f.LeaderID, *f.LeaderEpoch, *f.VotedID)
	}
	s := raft.ElectionState{Epoch: *f.LeaderEpoch, Leader: *f.LeaderID, Voted: raft.ReplicaKey{ID: *f.VotedID}}
	if *f.DataVersion == 1 {
		if f.VotedDir == nil {
			return fail("votedDirectoryId is missing")
		}
		dir, err := kafka.ParseUUID(*f.VotedDir)
		if err != nil {
			return fail("votedDirectoryId: %v", err)
		}
		if s.Voted.ID != kafka.NoNode {
			s.Voted.Dir = kafka.DirectoryID(dir)
		}
	}
	return s, nil
}

// loadQuorumState gives nil if there is no file.
func loadQuorumState(fsys vfs.FS, dir string) (*raft.ElectionState, error) {
	name := path.Join(dir, quorumStateFile)
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	s, err := decodeQuorumState(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; %s", name, err, replaceVoter)
	}
	return &s, nil
}

func saveQuorumState(fsys vfs.FS, dir string, s raft.ElectionState, kraft int16, voters raft.VoterSet) error {
	return vfs.WriteFileAtomic(fsys, path.Join(dir, quorumStateFile), encodeQuorumState(s, kraft, voters))
}
