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
	// Append appends a batch to the page cache.
	Append(b raft.Batch) error
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
}

// Timer wakes the loop once, at the time that was set last.
type Timer interface{ Set(at kafka.Mono) }

// App is who wants to know: the state machine above the log.
type App interface {
	LeaderChanged(raft.LeaderAndEpoch)
	Resigned(kafka.Epoch)
	Committed(highWatermark kafka.Offset) error
	Led(kafka.Epoch)
	FetchSnapshot(id kafka.OffsetAndEpoch)
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
		if f, ok := r.Body.(*raft.FetchResponse); ok && f.Read.MaxBytes > 0 {
			records, err := env.Disk.Read(f.Read.From, f.Read.MaxBytes)
			if err != nil {
				return fmt.Errorf("read the metadata log at offset %d: %w", f.Read.From, err)
			}
			f.Records = records
		}
		env.Net.Reply(r)
	}
	if err := performApp(out, env.App); err != nil {
		return err
	}
	env.Timer.Set(core.Deadline())
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
	for _, b := range out.Append {
		if err := disk.Append(b); err != nil {
			return fmt.Errorf("append to the metadata log at offset %d: %w", b.Base, err)
		}
	}
	if out.Flush != nil {
		disk.StartFlush(*out.Flush)
	}
	return nil
}

func performApp(out *raft.Effects, app App) error {
	if out.FetchSnapshot != nil {
		app.FetchSnapshot(*out.FetchSnapshot)
	}
	if out.Leader != nil {
		app.LeaderChanged(*out.Leader)
	}
	if out.Resigned != nil {
		app.Resigned(*out.Resigned)
	}
	if out.HighWatermark != nil {
		if err := app.Committed(*out.HighWatermark); err != nil {
			return err
		}
	}
	if out.Led != nil {
		app.Led(*out.Led)
	}
	return nil
}
