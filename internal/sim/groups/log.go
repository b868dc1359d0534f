package groups

import (
	"errors"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

var errNotLeader = errors.New("not the leader in that epoch")

// simLog is the partition's log. What lies above the high watermark may vanish
// when the coordinator dies.
type simLog struct {
	w       *world
	epoch   kafka.Epoch
	batches []batch.Batch
	hw      kafka.Offset
	watches map[int]func()
	nextW   int
	max     int

	// commits are the committed offsets in the log, by key, in order.
	commits map[commitKey][]commit
}

type commitKey struct {
	group     string
	partition int32
}

// commit is an offset record: its place and its value, which is unique.
type commit struct {
	at    kafka.Offset
	value int64
}

func (l *simLog) end() kafka.Offset {
	if n := len(l.batches); n > 0 {
		return l.batches[n-1].NextOffset()
	}
	return 0
}

// Append implements statemachine.Log.
func (l *simLog) Append(epoch kafka.Epoch, base kafka.Offset, _ kafka.WallMs, list ...batch.Batch) (kafka.Offset, kafka.ErrorCode) {
	w := l.w
	switch {
	case epoch != l.epoch || base != l.end():
		return l.end(), kafka.ErrNotLeaderForPartition
	case w.chance(30):
		w.counts.Refused++
		codes := []kafka.ErrorCode{kafka.ErrNotEnoughReplicas, kafka.ErrKafkaStorageError, kafka.ErrMessageTooLarge, kafka.ErrNotLeaderForPartition}
		return l.end(), codes[w.rng.IntN(len(codes))]
	}
	for _, b := range list {
		if !b.Valid() || b.BaseOffset() != l.end() {
			w.violate("a batch at %d is appended where the log ends at %d", b.BaseOffset(), l.end())
		}
		own := append(batch.Batch(nil), b...)
		l.batches = append(l.batches, own)
		l.note(own)
	}
	w.counts.Appends++
	if w.chance(300) {
		// It becomes durable after all, or nobody would ever be answered again.
		w.counts.HalfWritten++
		l.commitLater(epoch)
		return l.end(), kafka.ErrKafkaStorageError
	}
	if w.rng.IntN(2) == 0 {
		l.commit(l.end())
	} else {
		if w.chance(200) {
			w.after(0, w.die) // between append and reply
		}
		l.commitLater(epoch)
	}
	return l.end(), 0
}

// commitLater lets the high watermark come to what is the log's end now.
func (l *simLog) commitLater(epoch kafka.Epoch) {
	at := l.end()
	l.w.after(l.w.ms(1, 60), func() {
		if epoch == l.epoch {
			l.commit(at)
		}
	})
}

// note remembers the offsets that a batch commits.
func (l *simLog) note(b batch.Batch) {
	err := b.EachRecord(func(r *batch.Record) error {
		id, k, err := record.DecodeKey(record.GroupLog, r.Key)
		if err != nil {
			return err
		}
		key, ok := k.(*record.OffsetCommitKey)
		if !ok || r.Value == nil {
			return nil
		}
		v, _, err := record.DecodeValue(record.GroupLog, id, r.Value)
		if err != nil {
			return err
		}
		ck := commitKey{key.Group, int32(key.Partition)}
		l.commits[ck] = append(l.commits[ck], commit{b.BaseOffset() + kafka.Offset(r.OffsetDelta), int64(v.(*record.OffsetCommitValue).Offset)})
		return nil
	})
	if err != nil {
		l.w.violate("a batch that cannot be read: %v", err)
	}
}

// commit raises the high watermark.
func (l *simLog) commit(to kafka.Offset) {
	if to <= l.hw {
		return
	}
	l.hw = to
	for n := range l.nextW {
		if f := l.watches[n]; f != nil {
			delete(l.watches, n)
			l.w.after(0, f)
		}
	}
}

// cut takes away a part of what is not committed, and begins a leader epoch.
func (l *simLog) cut() {
	keep := len(l.batches)
	for keep > 0 && l.batches[keep-1].BaseOffset() >= l.hw && l.w.rng.IntN(2) == 0 {
		keep--
		l.w.counts.Truncated++
	}
	l.batches = l.batches[:keep]
	for k, list := range l.commits {
		for len(list) > 0 && list[len(list)-1].at >= l.end() {
			list = list[:len(list)-1]
		}
		l.commits[k] = list
	}
	l.lead()
}

// lead begins a leader epoch: what the log holds is committed.
func (l *simLog) lead() {
	l.epoch++
	l.hw = l.end()
	l.watches = map[int]func(){}
}

// Span implements statemachine.Log.
func (l *simLog) Span(epoch kafka.Epoch) (start, end kafka.Offset, err error) {
	if epoch != l.epoch {
		return 0, 0, errNotLeader
	}
	return 0, l.end(), nil
}

// Read implements statemachine.Log.
func (l *simLog) Read(epoch kafka.Epoch, from kafka.Offset, maxBytes int, buf []byte) ([]byte, error) {
	if epoch != l.epoch {
		return nil, errNotLeader
	}
	for _, b := range l.batches {
		if b.NextOffset() <= from {
			continue
		}
		if len(buf) > 0 && len(buf)+len(b) > maxBytes {
			break
		}
		buf = append(buf, b...)
	}
	return buf, nil
}

// HighWatermark implements statemachine.Log.
func (l *simLog) HighWatermark() kafka.Offset { return l.hw }

// MaxBatchBytes implements statemachine.Log.
func (l *simLog) MaxBatchBytes() int { return l.max }

// Watch implements statemachine.Log.
func (l *simLog) Watch(news func()) (cancel func()) {
	n := l.nextW
	l.nextW++
	l.watches[n] = news
	return func() { delete(l.watches, n) }
}

// committed is the last committed offset for a key; at is −1 if there is none.
func (l *simLog) committed(k commitKey) commit {
	list := l.commits[k]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].at < l.hw {
			return list[i]
		}
	}
	return commit{at: -1, value: -1}
}

// find gives the last committed place of a value, which duplicates may have
// written more than once; beyond all offsets if it is not committed.
func (l *simLog) find(k commitKey, value int64) kafka.Offset {
	if value == -1 {
		return -1
	}
	at := kafka.Offset(1 << 62)
	for _, c := range l.commits[k] {
		if c.value == value && c.at < l.hw {
			at = c.at
		}
	}
	return at
}
