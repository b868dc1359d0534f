package quorum

import (
	"errors"
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/record"
)

// Limits of KRaft (KafkaRaftClient.MAX_BATCH_SIZE_BYTES). What a peer or a
// file claims beyond them is corrupt.
const (
	maxBatchBytes = 8 << 20
	// maxEntryBytes is what we accept of others: their batch may exceed the
	// limit by one record.
	maxEntryBytes = 64 << 20
)

// ErrBatch says that bytes of the metadata log are not what they should be.
var ErrBatch = errors.New("bad batch of the metadata log")

// encodeLeaderChange builds the first batch of an epoch: LeaderChange, and
// KRaftVersion and Voters if they are due.
func encodeLeaderChange(lc *raft.LeaderChange, now kafka.WallMs) batch.Batch {
	bl := batch.NewBuilder(nil, lc.Base, lc.Epoch)
	bl.Control = true
	m := record.NewLeaderChange()
	m.LeaderID = lc.Leader
	for _, k := range lc.Voters {
		m.Voters = append(m.Voters, record.LeaderChangeVoter{VoterID: k.ID})
	}
	for _, k := range lc.Granting {
		m.GrantingVoters = append(m.GrantingVoters, record.LeaderChangeVoter{VoterID: k.ID})
	}
	bl.Add(now, record.ControlKey(record.ControlLeaderChange), record.AppendControl(nil, m, 0))
	if lc.NewVoters != nil {
		addVoters(bl, now, lc.KRaft, *lc.NewVoters)
	}
	return bl.Finish()
}

// encodeVotersChange builds the batch of a voter change.
func encodeVotersChange(v *raft.VotersChange, now kafka.WallMs) batch.Batch {
	bl := batch.NewBuilder(nil, v.Base, v.Epoch)
	bl.Control = true
	if v.KRaft != nil {
		addVoters(bl, now, *v.KRaft, v.Voters)
	} else {
		bl.Add(now, record.ControlKey(record.ControlVoters), record.AppendControl(nil, votersRecord(v.Voters), 0))
	}
	return bl.Finish()
}

// addVoters adds the KRaftVersion record and, if there are voters, theirs.
func addVoters(bl *batch.Builder, now kafka.WallMs, kraft int16, voters raft.VoterSet) {
	v := record.NewKRaftVersion()
	v.KRaftVersion = kraft
	bl.Add(now, record.ControlKey(record.ControlKRaftVersion), record.AppendControl(nil, v, 0))
	if voters.Len() == 0 {
		return // formatted without initial controllers
	}
	bl.Add(now, record.ControlKey(record.ControlVoters), record.AppendControl(nil, votersRecord(voters), 0))
}

func votersRecord(s raft.VoterSet) *record.Voters {
	m := record.NewVoters()
	for _, v := range s.All() {
		r := record.VotersVoter{VoterID: v.Key.ID, VoterDirectoryID: v.Key.Dir}
		for _, e := range v.Endpoints {
			r.Endpoints = append(r.Endpoints, record.VotersEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		r.KRaftVersionFeature.MinSupportedVersion = v.MinKRaft
		r.KRaftVersionFeature.MaxSupportedVersion = v.MaxKRaft
		m.Voters = append(m.Voters, r)
	}
	return m
}

func voterSet(m *record.Voters) (raft.VoterSet, error) {
	var l []raft.Voter
	for _, r := range m.Voters {
		v := raft.Voter{
			Key:      raft.ReplicaKey{ID: r.VoterID, Dir: r.VoterDirectoryID},
			MinKRaft: r.KRaftVersionFeature.MinSupportedVersion, MaxKRaft: r.KRaftVersionFeature.MaxSupportedVersion,
		}
		for _, e := range r.Endpoints {
			v.Endpoints = append(v.Endpoints, kafka.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		l = append(l, v)
	}
	return raft.NewVoterSet(l...)
}

// parseBatches checks bytes that a peer or the log gave and lists the batches
// with what the raft core must know of them. A batch that is cut short at the
// end is left out: a fetch answer may end inside one.
func parseBatches(buf []byte) ([]raft.Batch, error) {
	var list []raft.Batch
	for len(buf) > 0 {
		b, rest, err := batch.Next(buf)
		if errors.Is(err, batch.ErrTruncated) && len(list) > 0 {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBatch, err)
		}
		rb, err := checkBatch(b)
		if err != nil {
			return nil, err
		}
		list, buf = append(list, rb), rest
	}
	return list, nil
}

func checkBatch(b batch.Batch) (raft.Batch, error) {
	switch {
	case len(b) > maxEntryBytes:
		return raft.Batch{}, fmt.Errorf("%w: %d bytes", ErrBatch, len(b))
	case !b.Valid():
		return raft.Batch{}, fmt.Errorf("%w: wrong CRC at offset %d", ErrBatch, b.BaseOffset())
	case b.BaseOffset() < 0 || b.LastOffset() < b.BaseOffset() || b.LeaderEpoch() < 0:
		return raft.Batch{}, fmt.Errorf("%w: offsets %d to %d of epoch %d", ErrBatch, b.BaseOffset(), b.LastOffset(), b.LeaderEpoch())
	}
	rb := raft.Batch{Base: b.BaseOffset(), Last: b.LastOffset(), Epoch: b.LeaderEpoch(), Bytes: b}
	if !b.Control() {
		return rb, nil
	}
	err := b.EachRecord(func(r *batch.Record) error {
		c, ok, err := controlOf(r.Key, r.Value)
		if ok {
			c.Offset = b.BaseOffset() + kafka.Offset(r.OffsetDelta)
			rb.Control = append(rb.Control, c)
		}
		return err
	})
	if err != nil {
		return raft.Batch{}, fmt.Errorf("%w: control records at offset %d: %w", ErrBatch, b.BaseOffset(), err)
	}
	return rb, nil
}

// controlOf gives the record as the raft core wants it, if it wants it.
func controlOf(key, value []byte) (c raft.Control, ok bool, err error) {
	_, m, _, err := record.DecodeControl(key, value)
	if err != nil {
		return c, false, err
	}
	switch m := m.(type) {
	case *record.KRaftVersion:
		return raft.Control{KRaft: m.KRaftVersion}, true, nil
	case *record.Voters:
		set, err := voterSet(m)
		return raft.Control{Voters: &set}, err == nil, err
	}
	return c, false, nil
}
