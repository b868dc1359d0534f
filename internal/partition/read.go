package partition

import (
	"errors"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/replica"
	"moldau/internal/seglog"
	"moldau/internal/vfs"
	"moldau/internal/wire"
)

// ReadRequest asks for records.
type ReadRequest struct {
	Offset      kafka.Offset
	LeaderEpoch kafka.Epoch // that the client believes in; NoEpoch: does not say
	// CheckEpoch: LastFetchedEpoch is that of the record before Offset; if the log
	// has another history, the answer says where they part (KIP-595).
	CheckEpoch       bool
	LastFetchedEpoch kafka.Epoch
	MaxBytes         int
	MinOne           bool // the first batch even if it is larger than MaxBytes
	ReadCommitted    bool
}

// fileRange makes a log's range something that a response can carry.
type fileRange struct{ seglog.Range }

// Len implements wire.FileRange.
func (f *fileRange) Len() int { return f.Range.Len }

// Descriptor implements wire.FileRange.
func (f *fileRange) Descriptor() (uintptr, int64, bool) { return f.Fd() }

// Read gives the answer for one partition of a fetch by a consumer: Code and
// records, which the caller must send or release, with the offsets that go with
// them (ReplicaManager.readFromLog).
func (p *Partition) Read(q ReadRequest) wire.FetchResult {
	res := wire.FetchResult{
		Index:         p.tp.Partition,
		HighWatermark: kafka.NoOffset, LastStableOffset: kafka.NoOffset, LogStart: kafka.NoOffset,
		PreferredRead: kafka.NoNode, CurrentLeader: kafka.NoNode, HasAborted: q.ReadCommitted,
	}
	log, v, code := p.readable(q.LeaderEpoch)
	if code != 0 {
		res.Code = code
		if code == kafka.ErrNotLeaderForPartition || code == kafka.ErrFencedLeaderEpoch {
			res.CurrentLeader, res.LeaderEpoch = v.leader, v.epoch
		}
		return res
	}
	res.HighWatermark, res.LastStableOffset = kafka.Offset(p.hw.Load()), kafka.Offset(p.lso.Load())
	if q.CheckEpoch {
		e, end := log.EndOffsetForEpoch(q.LastFetchedEpoch)
		switch {
		case e == kafka.NoEpoch || end == kafka.NoOffset:
			return p.readFailed(log, res, seglog.ErrOffsetOutOfRange)
		case e < q.LastFetchedEpoch || end < q.Offset:
			res.LogStart = log.StartOffset()
			res.Diverging = &kafka.OffsetAndEpoch{Offset: end, Epoch: e}
			return res
		}
	}
	upper := res.HighWatermark
	if q.ReadCommitted {
		upper = min(upper, res.LastStableOffset)
	}
	r, aborted, err := p.readRange(log, q, upper)
	if err != nil {
		return p.readFailed(log, res, err)
	}
	res.LogStart = log.StartOffset()
	if r.Len == 0 {
		return res
	}
	res.Records = &fileRange{r}
	for _, t := range aborted {
		res.Aborted = append(res.Aborted, wire.AbortedTxn{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
	}
	return res
}

// readRange reads records, and for read_committed the aborted transactions that
// go with them: from before a cleaned segment was swapped in, or from after.
func (p *Partition) readRange(log *seglog.Log, q ReadRequest, upper kafka.Offset) (seglog.Range, []seglog.AbortedTxn, error) {
	if !q.ReadCommitted {
		r, err := log.Read(q.Offset, upper, q.MaxBytes, q.MinOne)
		return r, nil, err
	}
	before := log.Swaps()
	r, aborted, err := readCommitted(log, q, upper)
	if before%2 == 0 && before == log.Swaps() {
		return r, aborted, err
	}
	r.Release()
	p.mu.Lock() // keeps the cleaner out
	defer p.mu.Unlock()
	return readCommitted(log, q, upper)
}

func readCommitted(log *seglog.Log, q ReadRequest, upper kafka.Offset) (seglog.Range, []seglog.AbortedTxn, error) {
	r, err := log.Read(q.Offset, upper, q.MaxBytes, q.MinOne)
	if err != nil || r.Len == 0 {
		return r, nil, err
	}
	aborted, err := log.AbortedTxns(q.Offset, upper)
	if err == nil && log.StartOffset() > q.Offset {
		err = seglog.ErrOffsetOutOfRange // HC-118: the list may be gone with the records
	}
	if err != nil {
		r.Release()
		return seglog.Range{}, nil, err
	}
	return r, aborted, nil
}

func (p *Partition) readFailed(log *seglog.Log, res wire.FetchResult, err error) wire.FetchResult {
	res.HighWatermark, res.LastStableOffset, res.LogStart = kafka.NoOffset, kafka.NoOffset, kafka.NoOffset
	res.Code = p.readError(log, err)
	return res
}

// readError decides what an error of reading the log means.
func (p *Partition) readError(log *seglog.Log, err error) kafka.ErrorCode {
	var corrupt *seglog.CorruptError
	switch {
	case p.log.Load() != log:
		// The partition was deleted meanwhile: its files may be anywhere.
		return kafka.ErrNotLeaderForPartition
	case errors.Is(err, seglog.ErrOffsetOutOfRange):
		return kafka.ErrOffsetOutOfRange
	case errors.As(err, &corrupt):
		p.breakDown(err, p.marksOf(log))
	case errors.Is(err, batch.ErrCorrupt): // what a client stored, in a batch whose checksum is right
		return kafka.ErrCorruptMessage
	case vfs.NoDescriptor(err):
		p.dir.full(err)
	default:
		p.dir.fail(err)
	}
	return kafka.ErrKafkaStorageError
}

// readable gives the log if a client that believes in epoch may read here.
func (p *Partition) readable(epoch kafka.Epoch) (*seglog.Log, *view, kafka.ErrorCode) {
	v := p.view.Load()
	log := p.log.Load()
	switch {
	case epoch != kafka.NoEpoch && epoch > v.epoch:
		return nil, v, kafka.ErrUnknownLeaderEpoch
	case epoch != kafka.NoEpoch && epoch < v.epoch:
		return nil, v, kafka.ErrFencedLeaderEpoch
	case v.role != replica.Leader:
		return nil, v, kafka.ErrNotLeaderForPartition
	case log == nil || p.dir.failed.Load():
		return nil, v, kafka.ErrKafkaStorageError
	}
	return log, v, 0
}

// Available tells how many bytes a fetch from offset could get now, at most
// limit; without reading the log's content more than needed.
func (p *Partition) Available(q ReadRequest) int {
	res := p.Read(q)
	if res.Records == nil {
		return 0
	}
	defer res.Records.Release()
	return res.Records.Len()
}

// Timestamps with special meanings in ListOffsets.
const (
	LatestTimestamp          = -1
	EarliestTimestamp        = -2
	MaxTimestamp             = -3
	EarliestLocalTimestamp   = -4
	LatestTieredTimestamp    = -5
	EarliestPendingTimestamp = -6
)

// ListedOffset is the answer to one ListOffsets question.
type ListedOffset struct {
	Code      kafka.ErrorCode
	Offset    kafka.Offset
	Timestamp kafka.WallMs
	Epoch     kafka.Epoch
}

// ListOffset finds an offset by timestamp, or by one of the special ones
// (ReplicaManager.fetchOffset).
func (p *Partition) ListOffset(ts int64, epoch kafka.Epoch, readCommitted bool) ListedOffset {
	none := ListedOffset{Offset: kafka.NoOffset, Timestamp: kafka.NoTimestamp, Epoch: kafka.NoEpoch}
	log, v, code := p.readable(epoch)
	if code != 0 {
		none.Code = code
		return none
	}
	upper := kafka.Offset(p.hw.Load())
	if readCommitted {
		upper = min(upper, kafka.Offset(p.lso.Load()))
	}
	switch ts {
	case LatestTimestamp:
		return ListedOffset{Offset: upper, Timestamp: kafka.NoTimestamp, Epoch: v.epoch}
	case EarliestTimestamp, EarliestLocalTimestamp:
		start := log.StartOffset()
		return ListedOffset{Offset: start, Timestamp: kafka.NoTimestamp, Epoch: log.EpochAt(start)}
	case LatestTieredTimestamp, EarliestPendingTimestamp:
		return none
	}
	var found seglog.TimestampOffset
	var ok bool
	var err error
	if ts == MaxTimestamp {
		found, ok, err = log.MaxTimestamp()
	} else {
		found, ok, err = log.OffsetForTimestamp(kafka.WallMs(ts), upper)
	}
	if err != nil {
		none.Code = p.readError(log, err)
		return none
	}
	if !ok || found.Offset >= upper {
		return none
	}
	return ListedOffset{Offset: found.Offset, Timestamp: found.Timestamp, Epoch: found.Epoch}
}

// EpochEnd answers OffsetForLeaderEpoch: the end of the largest epoch that is
// not above epoch (KIP-101, KIP-279).
func (p *Partition) EpochEnd(current, epoch kafka.Epoch) (kafka.ErrorCode, kafka.Epoch, kafka.Offset) {
	log, _, code := p.readable(current)
	if code != 0 {
		return code, kafka.NoEpoch, kafka.NoOffset
	}
	e, end := log.EndOffsetForEpoch(epoch)
	return 0, e, end
}
