package partition

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/producerstate"
	"moldau/internal/replica"
	"moldau/internal/seglog"
	"moldau/internal/vfs"
)

// Partition is one replica on this broker.
type Partition struct {
	store *Store
	tp    kafka.TopicPartition
	topic kafka.TopicID
	dir   *directory

	settings atomic.Pointer[Settings]
	view     atomic.Pointer[view]
	hw       atomic.Int64 // high watermark
	lso      atomic.Int64 // last stable offset
	log      atomic.Pointer[seglog.Log]
	watch    watchers

	flushing sync.Mutex // held while an fsync runs

	mu           sync.Mutex
	state        replica.State
	closed       bool         // deleted, or the store has stopped
	broken       error        // why the partition is offline by itself
	kept         *marks       // of a log that is damaged: its checkpoints stay
	idDurable    bool         // partition.metadata is on disk
	lastFlushMs  kafka.WallMs // when flush.ms began to count; 0: nothing unflushed
	base         kafka.Offset // of the active segment, to see it roll
	cleaning     *cleanRun    // the pass of compaction under way
	retentionDue bool         // retention has come by while a pass was under way
	uncleanable  bool         // a pass has failed and would again, until settings change
	unflushed    bool         // the disk was full when it was to be flushed

	unmade bool // the disk was full when it was created; belongs to the store's mu
}

// view is what readers must know of the replica's state.
type view struct {
	role   replica.Role
	leader kafka.NodeID
	epoch  kafka.Epoch
}

// Name is the topic's name with the partition's number.
func (p *Partition) Name() kafka.TopicPartition { return p.tp }

// Directory is the log directory in which the partition is.
func (p *Partition) Directory() kafka.DirectoryID { return p.dir.ID }

// Settings are the settings in force.
func (p *Partition) Settings() *Settings { return p.settings.Load() }

// Leader is who leads, as far as this replica knows.
func (p *Partition) Leader() (kafka.NodeID, kafka.Epoch) {
	v := p.view.Load()
	return v.leader, v.epoch
}

// HighWatermark is the offset below which records are committed.
func (p *Partition) HighWatermark() kafka.Offset { return kafka.Offset(p.hw.Load()) }

// LogStart is the first offset that can be read; NoOffset if there is no log.
func (p *Partition) LogStart() kafka.Offset {
	if log := p.log.Load(); log != nil {
		return log.StartOffset()
	}
	return kafka.NoOffset
}

// Appended is the answer of Append.
type Appended struct {
	Code kafka.ErrorCode
	// Message explains a Code to the client; it may be empty.
	Message string
	// BaseOffset is the first offset of the batch, or of its first copy if it
	// was sent before; AppendTimeMs likewise, NoTimestamp for CreateTime.
	BaseOffset   kafka.Offset
	AppendTimeMs kafka.WallMs
	LogStart     kafka.Offset
	// Leader and Epoch are who leads now, when Code is NOT_LEADER_OR_FOLLOWER.
	Leader kafka.NodeID
	Epoch  kafka.Epoch
}

func failed(code kafka.ErrorCode, message string) Appended {
	return Appended{Code: code, Message: message, BaseOffset: kafka.NoOffset, AppendTimeMs: kafka.NoTimestamp, LogStart: kafka.NoOffset, Leader: kafka.NoNode}
}

// Append writes a batch that a client produced and that was checked against the
// Settings' Rules. b's base offset and leader epoch are set in place. With
// acksAll the in-sync set must be large enough. When it returns without a Code
// the batch is in the log as durably as the topic's flush settings ask.
func (p *Partition) Append(b batch.Batch, acksAll bool, now kafka.WallMs) Appended {
	settings := p.Settings()
	if int64(len(b)) > settings.SegmentBytes {
		return failed(kafka.ErrRecordListTooLarge, fmt.Sprintf("Message batch size is %d bytes, which exceeds the maximum configured segment size of %d.", len(b), settings.SegmentBytes))
	}
	p.mu.Lock()
	a, end := p.append(b, settings, acksAll, now)
	if a.Code != 0 {
		p.mu.Unlock()
		return a
	}
	if code := p.reveal(end, settings); code != 0 {
		return failed(code, "")
	}
	return a
}

// reveal lets readers see what was appended up to end: they must not see what a
// power loss could take back, when flush settings say that it is to be durable.
// Called with mu held, which it releases.
func (p *Partition) reveal(end kafka.Offset, settings *Settings) kafka.ErrorCode {
	if int64(end-p.recoveryPoint()) >= settings.FlushMessages {
		p.mu.Unlock()
		if err := p.flushTo(end); err != nil {
			return p.flushCode(err)
		}
		p.mu.Lock()
	}
	rose := p.raise(end)
	p.mu.Unlock()
	if rose {
		p.watch.wake()
	}
	return 0
}

// raise lets the high watermark follow the log up to end and tells whether it
// rose. Called with mu held.
func (p *Partition) raise(end kafka.Offset) bool {
	log := p.log.Load()
	if p.closed || log == nil || !p.state.Appended(end) {
		return false
	}
	p.publish(log)
	p.dir.appended.Store(true)
	return true
}

func (p *Partition) append(b batch.Batch, settings *Settings, acksAll bool, now kafka.WallMs) (a Appended, end kafka.Offset) {
	log, code := p.writable()
	if code != 0 {
		a = failed(code, "")
		a.Leader, a.Epoch = p.Leader()
		return a, 0
	}
	if acksAll && !p.state.EnoughInSync(settings.MinInSync) {
		return failed(kafka.ErrNotEnoughReplicas, fmt.Sprintf("The size of the current ISR is insufficient to satisfy the min.isr requirement of %d for partition %s", settings.MinInSync, p.tp)), 0
	}
	end = log.EndOffset()
	a = Appended{BaseOffset: end, AppendTimeMs: kafka.NoTimestamp, LogStart: log.StartOffset(), Leader: kafka.NoNode}
	if settings.Rules.LogAppendTime {
		a.AppendTimeMs = b.MaxTimestamp()
	}
	b.SetBaseOffset(end)
	b.SetLeaderEpoch(p.state.Assignment().LeaderEpoch)
	if b.ProducerID() != kafka.NoProducerID {
		v := log.Producers().Check(headerOf(b), producerstate.Context{Origin: producerstate.Client, LogHeldRecords: end > 0})
		switch v.Kind {
		case producerstate.Reject:
			a = failed(v.Code, v.Reason)
			a.LogStart = log.StartOffset()
			return a, 0
		case producerstate.Duplicate:
			a.BaseOffset = v.BaseOffset
			if settings.Rules.LogAppendTime {
				a.AppendTimeMs = v.Timestamp
			}
			return a, v.LastOffset + 1
		}
	}
	if code := p.write(log, now, b); code != 0 {
		return failed(code, ""), 0
	}
	return a, log.EndOffset()
}

// write appends to the log. Called with mu held.
func (p *Partition) write(log *seglog.Log, now kafka.WallMs, batches ...batch.Batch) kafka.ErrorCode {
	if err := log.Append(now, batches...); err != nil {
		return p.appendFailed(err)
	}
	if p.lastFlushMs == 0 {
		p.lastFlushMs = now
	}
	if base := log.ActiveBase(); base != p.base {
		p.base = base
		p.store.flushSoon(p)
	}
	return 0
}

func headerOf(b batch.Batch) producerstate.Header {
	return producerstate.Header{
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(),
		BaseSequence: b.BaseSequence(), LastSequence: b.LastSequence(),
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(),
		MaxTimestamp: b.MaxTimestamp(), Transactional: b.Transactional(),
	}
}

// writable gives the log if this broker leads and it is in order. Called with
// mu held.
func (p *Partition) writable() (*seglog.Log, kafka.ErrorCode) {
	log := p.log.Load()
	switch {
	case p.closed || p.state.Role() != replica.Leader:
		return nil, kafka.ErrNotLeaderForPartition
	case log == nil || p.dir.failed.Load() || p.broken != nil:
		return nil, kafka.ErrKafkaStorageError
	}
	return log, 0
}

func (p *Partition) recoveryPoint() kafka.Offset {
	if log := p.log.Load(); log != nil {
		return log.RecoveryPoint()
	}
	return 0
}

// publish makes high watermark and last stable offset visible to readers.
// Called with mu held.
func (p *Partition) publish(log *seglog.Log) {
	hw := p.state.HighWatermark()
	log.Producers().HighWatermark(hw)
	stable := hw
	if o := log.Producers().FirstUnstableOffset(); o != kafka.NoOffset {
		stable = min(stable, o)
	}
	p.lso.Store(int64(stable))
	p.hw.Store(int64(hw))
}

// appendFailed decides what an error of the log means. Called with mu held.
func (p *Partition) appendFailed(err error) kafka.ErrorCode {
	switch {
	case vfs.Exhausted(err):
		p.dir.full(err)
		if log := p.log.Load(); log.Offline() != nil {
			p.dir.fail(err)
		}
	default:
		p.dir.fail(fmt.Errorf("append to %s: %w", p.tp, err))
	}
	return kafka.ErrKafkaStorageError
}

// errGone says that the log went away before it was flushed.
var errGone = errors.New("the log has gone")

// errLost says that an fsync has failed: a second one would not say what the first
// one lost.
var errLost = errors.New("fsync failed")

// flushCode is what a failed flush means to a producer. Called without mu.
func (p *Partition) flushCode(err error) kafka.ErrorCode {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(err, errGone) && p.closed {
		return kafka.ErrNotLeaderForPartition // retriable; the batch may be stored
	}
	return kafka.ErrKafkaStorageError
}

// flushTo makes everything below end durable, and visible if it had to be that
// first. Concurrent callers share fsyncs. What a full disk prevents is tried again
// by the keeper: nobody may append again, and ask for it, while readers wait.
func (p *Partition) flushTo(end kafka.Offset) error {
	p.flushing.Lock()
	defer p.flushing.Unlock()
	p.mu.Lock()
	log := p.log.Load()
	if durable := log != nil && log.RecoveryPoint() >= end; durable || p.closed || log == nil {
		p.mu.Unlock()
		if !durable {
			return errGone
		}
		return nil
	}
	job := log.PrepareFlush()
	idDurable := p.idDurable
	p.lastFlushMs = 0
	p.mu.Unlock()

	var err error
	if !idDurable {
		err = syncFile(p.store.opts.FS, log.Dir()+"/partition.metadata")
		if err != nil && !vfs.NoDescriptor(err) {
			err = fmt.Errorf("%w: %v", errLost, err) // whatever the reason is
		}
	}
	ran := err == nil // else the recovery point would say that there is nothing left to do
	if ran {
		err = job.Run()
	}
	p.mu.Lock()
	if ran {
		if doneErr := log.FlushDone(job); err == nil {
			err = doneErr
		}
	}
	rose := p.flushed(log, err)
	p.mu.Unlock()
	if rose {
		p.watch.wake()
	}
	return err
}

// flushed takes in how a flush went and tells whether the high watermark rose.
// Called with mu held.
func (p *Partition) flushed(log *seglog.Log, err error) (rose bool) {
	switch {
	case err == nil:
		p.idDurable, p.unflushed = true, false
		p.dir.recoveryMoved.Store(true)
		return p.raise(log.RecoveryPoint())
	case vfs.Exhausted(err) && log.Offline() == nil:
		p.dir.full(err)
		p.unflushed = true
		p.store.unflushed.Store(true)
	default:
		p.dir.fail(fmt.Errorf("flush %s: %w", p.tp, err))
	}
	return false
}

// assign takes in the metadata's word about who leads.
func (p *Partition) assign(a replica.Assignment, now kafka.WallMs) {
	p.mu.Lock()
	log := p.log.Load()
	a.MinInSync = p.Settings().MinInSync
	role := p.state.Role()
	fresh := p.state.Assign(a)
	if p.state.Role() != role {
		p.abortCleaning()
	}
	p.view.Store(&view{role: p.state.Role(), leader: a.Leader, epoch: a.LeaderEpoch})
	if log != nil && !p.dir.failed.Load() && p.broken == nil {
		if fresh {
			if err := log.AssignEpoch(a.LeaderEpoch, log.EndOffset()); err != nil {
				p.dir.fail(fmt.Errorf("leader epoch of %s: %w", p.tp, err))
			}
		}
		p.publish(log)
	}
	p.mu.Unlock()
	p.watch.wake()
}

// configure takes in new settings.
func (p *Partition) configure(s *Settings) {
	p.settings.Store(s)
	if s.FlushMs != never {
		p.store.flushByTime.Store(true)
	}
	log := p.log.Load()
	if log == nil {
		return
	}
	log.SetConfig(s.Log)
	p.mu.Lock()
	p.uncleanable = false
	if a := p.state.Assignment(); a.MinInSync != s.MinInSync {
		a.MinInSync = s.MinInSync
		p.state.Assign(a)
		if !p.dir.failed.Load() && p.broken == nil {
			p.publish(log)
		}
	}
	p.mu.Unlock()
	p.watch.wake()
}
