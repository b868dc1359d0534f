package quorum

import (
	"fmt"

	"moldau/internal/kafka"
	"moldau/internal/raft"
)

// Disk is what Perform needs of the node's disk. Any error is fatal.
type Disk interface {
	// SaveElection is durable when it returns.
	SaveElection(s raft.ElectionState, kraft int16, voters raft.VoterSet) error
	// Truncate cuts the log to end at offset to.
	Truncate(to kafka.Offset) error
	// AppendLeaderChange encodes and appends the first batch of an epoch.
	AppendLeaderChange(lc *raft.LeaderChange, now kafka.WallMs) error
	// AppendVoters encodes and appends a change of the voter set.
	AppendVoters(v *raft.VotersChange, now kafka.WallMs) error
	// Append appends a batch to the page cache.
	Append(b raft.Batch) error
	// WriteSnapshot appends a part to the snapshot that is being downloaded.
	WriteSnapshot(p *raft.SnapshotPart) error
	// SealSnapshot begins to verify the downloaded snapshot and to make it
	// durable, and returns; the end comes back as a raft.SnapshotSealed event.
	SealSnapshot(id kafka.OffsetAndEpoch) error
	// ResetLog drops the log, which then begins at the sealed snapshot's end.
	ResetLog(id kafka.OffsetAndEpoch) error
	// ReadSnapshot gives the snapshot's size and at most maxBytes from a
	// position on. A code tells that there is no such snapshot or position.
	ReadSnapshot(id kafka.OffsetAndEpoch, position int64, maxBytes int) (size int64, part []byte, code kafka.ErrorCode, err error)
	// Committed tells that everything below the high watermark is committed.
	Committed(highWatermark kafka.Offset) error
	// StartFlush begins to make the log durable and returns; the end comes
	// back as a raft.Flushed event.
	StartFlush(f raft.Flush)
	// Read gives whole batches from the one that starts at from on, at most
	// maxBytes but at least one batch; empty at the end of the log.
	Read(from kafka.Offset, maxBytes int) ([]byte, error)
}

// Net sends messages; they may be lost.
type Net interface {
	Request(raft.Outgoing)
	Reply(raft.Reply)
	// Room is how many bytes of records or of a snapshot the next reply should
	// hold at most: others may wait in memory for those who read them slowly.
	Room() int
}

// Timer wakes the loop once, at the time that was set last.
type Timer interface{ Set(at kafka.Mono) }

// App is who wants to know: the state machine above the log.
type App interface {
	LeaderChanged(raft.LeaderAndEpoch)
	Resigned(kafka.Epoch)
	Committed(highWatermark kafka.Offset) error
	Led(kafka.Epoch)
	// LoadSnapshot replaces the state by that of a sealed snapshot.
	LoadSnapshot(id kafka.OffsetAndEpoch) error
}

// Env is the world in which effects are performed. The simulator replaces it.
type Env struct {
	Disk  Disk
	Net   Net
	Timer Timer
	App   App
}

// Perform does what a Step of core asked for, in the order that raft.Effects
// prescribes. An error means that this replica must stop at once; whatever
// comes after the failed operation has not been done.
func Perform(core *raft.Core, out *raft.Effects, now kafka.Now, env Env) error {
	if out.Fatal != nil {
		return out.Fatal
	}
	if err := performDisk(core, out, now, env.Disk); err != nil {
		return err
	}
	for _, r := range out.Requests {
		env.Net.Request(r)
	}
	for _, r := range out.Replies {
		if err := fill(r.Body, env.Disk, env.Net.Room()); err != nil {
			return err
		}
		env.Net.Reply(r)
	}
	if err := performApp(out, env.App); err != nil {
		return err
	}
	env.Timer.Set(core.Deadline())
	return nil
}

// fill puts into an answer what the core has only named.
func fill(body raft.Body, disk Disk, room int) error {
	switch b := body.(type) {
	case *raft.FetchResponse:
		if b.Read.MaxBytes == 0 {
			return nil
		}
		records, err := disk.Read(b.Read.From, min(b.Read.MaxBytes, room))
		if err != nil {
			return fmt.Errorf("read the metadata log at offset %d: %w", b.Read.From, err)
		}
		b.Records = records
	case *raft.FetchSnapshotResponse:
		if b.MaxBytes == 0 {
			return nil
		}
		size, part, code, err := disk.ReadSnapshot(b.ID, b.Position, min(b.MaxBytes, room))
		if err != nil {
			return fmt.Errorf("read snapshot %s: %w", snapshotName(b.ID), err)
		}
		b.SizeBytes, b.Bytes, b.Error = size, part, code
	}
	return nil
}

func performDisk(core *raft.Core, out *raft.Effects, now kafka.Now, disk Disk) error {
	if out.Persist != nil {
		voters, _ := core.VotersAt(core.EndOffset())
		if err := disk.SaveElection(*out.Persist, out.KRaft, voters); err != nil {
			return fmt.Errorf("write %s: %w", quorumStateFile, err)
		}
	}
	if out.Truncate != nil {
		if err := disk.Truncate(*out.Truncate); err != nil {
			return fmt.Errorf("cut the metadata log to offset %d: %w", *out.Truncate, err)
		}
	}
	if out.LeaderChange != nil {
		if err := disk.AppendLeaderChange(out.LeaderChange, now.Wall); err != nil {
			return fmt.Errorf("append to the metadata log at offset %d: %w", out.LeaderChange.Base, err)
		}
	}
	if v := out.VotersChange; v != nil {
		if err := disk.AppendVoters(v, now.Wall); err != nil {
			return fmt.Errorf("append to the metadata log at offset %d: %w", v.Base, err)
		}
	}
	if err := performSnapshot(out, disk); err != nil {
		return err
	}
	for _, b := range out.Append {
		if err := disk.Append(b); err != nil {
			return fmt.Errorf("append to the metadata log at offset %d: %w", b.Base, err)
		}
	}
	if out.Flush != nil {
		disk.StartFlush(*out.Flush)
	}
	if out.HighWatermark != nil {
		if err := disk.Committed(*out.HighWatermark); err != nil {
			return fmt.Errorf("note high watermark %d: %w", *out.HighWatermark, err)
		}
	}
	return nil
}

// performSnapshot does what a download asks for.
func performSnapshot(out *raft.Effects, disk Disk) error {
	if p := out.SnapshotPart; p != nil {
		if err := disk.WriteSnapshot(p); err != nil {
			return fmt.Errorf("write snapshot %s: %w", snapshotName(p.ID), err)
		}
	}
	if out.SealSnapshot != nil {
		if err := disk.SealSnapshot(*out.SealSnapshot); err != nil {
			return fmt.Errorf("seal snapshot %s: %w", snapshotName(*out.SealSnapshot), err)
		}
	}
	if out.LoadSnapshot != nil {
		if err := disk.ResetLog(*out.LoadSnapshot); err != nil {
			return fmt.Errorf("begin the metadata log behind snapshot %s: %w", snapshotName(*out.LoadSnapshot), err)
		}
	}
	return nil
}

func performApp(out *raft.Effects, app App) error {
	if out.Leader != nil {
		app.LeaderChanged(*out.Leader)
	}
	if out.LoadSnapshot != nil {
		if err := app.LoadSnapshot(*out.LoadSnapshot); err != nil {
			return err
		}
	}
	if out.HighWatermark != nil {
		if err := app.Committed(*out.HighWatermark); err != nil {
			return err
		}
	}
	if out.Resigned != nil {
		app.Resigned(*out.Resigned)
	}
	if out.Led != nil {
		app.Led(*out.Led)
	}
	return nil
}
