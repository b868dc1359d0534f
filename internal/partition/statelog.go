package partition

import (
	"fmt"
	"io"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/seglog"
)

// AppendAt writes batches that the server itself has made, of whole records in
// format v2 from base on, as a produce with acks=all: but only if this broker
// leads in that epoch and the log ends at base, so that its writer knows what the
// log holds. All are written, or none. end is where the log ends afterwards; with
// a code that may be beyond base, if what was written did not become durable.
func (p *Partition) AppendAt(epoch kafka.Epoch, base kafka.Offset, now kafka.WallMs, batches ...batch.Batch) (end kafka.Offset, code kafka.ErrorCode) {
	settings := p.Settings()
	batches, code = fitted(batches, settings, now)
	p.mu.Lock()
	if code == 0 {
		code = p.appendAt(epoch, base, settings, now, batches)
	}
	end = kafka.NoOffset
	if log := p.log.Load(); log != nil {
		end = log.EndOffset()
	}
	if code != 0 {
		p.mu.Unlock()
		return end, code
	}
	return end, p.reveal(end, settings)
}

// fitted gives the batches in the form that the topic's settings ask for, or the
// code of one that they do not allow (UnifiedLog.append).
func fitted(batches []batch.Batch, settings *Settings, now kafka.WallMs) ([]batch.Batch, kafka.ErrorCode) {
	out := make([]batch.Batch, len(batches))
	for i, b := range batches {
		if r := &settings.Rules; r.Recompress || r.LogAppendTime {
			var w batch.Workspace
			base := b.BaseOffset()
			b.SetBaseOffset(0) // as producers do
			n, why := w.Produced(b, newestProduce, r, now)
			if why.Code != 0 {
				return nil, why.Code
			}
			n.SetBaseOffset(base)
			b = n
		}
		switch {
		case len(b) > settings.Rules.MaxBatchBytes:
			return nil, kafka.ErrMessageTooLarge
		case int64(len(b)) > settings.SegmentBytes:
			return nil, kafka.ErrRecordListTooLarge
		}
		out[i] = b
	}
	return out, 0
}

// newestProduce is a version of Produce in which every codec is allowed.
const newestProduce = 13

func (p *Partition) appendAt(epoch kafka.Epoch, base kafka.Offset, settings *Settings, now kafka.WallMs, batches []batch.Batch) kafka.ErrorCode {
	log, code := p.writable()
	leads := p.state.Assignment().LeaderEpoch
	switch {
	case code != 0:
		return code
	case leads != epoch || log.EndOffset() != base:
		return kafka.ErrNotLeaderForPartition
	case !p.state.EnoughInSync(settings.MinInSync):
		return kafka.ErrNotEnoughReplicas
	}
	for _, b := range batches {
		b.SetLeaderEpoch(epoch)
	}
	return p.write(log, now, batches...)
}

// LogError is why a log cannot be read as that of the leader.
type LogError struct {
	Partition kafka.TopicPartition
	Code      kafka.ErrorCode
}

// Error implements error.
func (e *LogError) Error() string { return fmt.Sprintf("log of %s: %s", e.Partition, e.Code) }

// Span is where the log starts and ends, committed or not, while this broker
// leads in that epoch.
func (p *Partition) Span(epoch kafka.Epoch) (start, end kafka.Offset, err error) {
	log, _, code := p.readable(epoch)
	if code != 0 {
		return 0, 0, &LogError{p.tp, code}
	}
	return log.StartOffset(), log.EndOffset(), nil
}

// ReadAhead gives whole batches from the one that holds from, up to the log's
// end, beyond the high watermark: maxBytes of them, or one. They are in buf if
// they fit. This broker must lead in that epoch.
func (p *Partition) ReadAhead(epoch kafka.Epoch, from kafka.Offset, maxBytes int, buf []byte) ([]byte, error) {
	log, _, code := p.readable(epoch)
	if code != 0 {
		return nil, &LogError{p.tp, code}
	}
	r, err := log.Read(from, log.EndOffset(), maxBytes, true)
	if err == nil && r.Len > 0 {
		buf, err = readRange(r, buf)
		r.Release()
	} else {
		buf = buf[:0]
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &LogError{p.tp, p.readError(log, err)}, err)
	}
	return buf, nil
}

func readRange(r seglog.Range, buf []byte) ([]byte, error) {
	if cap(buf) < r.Len {
		buf = make([]byte, r.Len)
	}
	buf = buf[:r.Len]
	n, err := r.ReadAt(buf, 0)
	if err == io.EOF && n == r.Len {
		err = nil
	}
	return buf, err
}
