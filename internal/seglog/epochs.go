package seglog

import (
	"bytes"
	"fmt"
	"sort"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/seglog/logdir"
)

// EpochStart says at which offset a leader epoch began.
type EpochStart struct {
	Epoch kafka.Epoch
	Start kafka.Offset
}

// epochs is the leader epoch cache (Kafka's LeaderEpochFileCache): a sorted,
// immutable list, both columns strictly rising. Changes give a new list.
type epochs []EpochStart

func parseEpochs(data []byte) (epochs, error) {
	lines, err := logdir.ParseLines(data)
	if err != nil {
		return nil, err
	}
	var list epochs
	for _, line := range lines {
		a, b, ok := bytes.Cut(line, []byte{' '})
		epoch, err1 := strconv.ParseInt(string(a), 10, 32)
		start, err2 := strconv.ParseInt(string(b), 10, 64)
		if !ok || err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, fmt.Errorf("%w: epoch entry %.60q", logdir.ErrCorrupt, line)
		}
		list, _ = list.assign(kafka.Epoch(epoch), kafka.Offset(start))
	}
	return list, nil
}

func (l epochs) appendTo(buf []byte) []byte {
	buf = logdir.AppendLinesHeader(buf, len(l))
	for _, e := range l {
		buf = append(strconv.AppendInt(buf, int64(e.Epoch), 10), ' ')
		buf = append(strconv.AppendInt(buf, int64(e.Start), 10), '\n')
	}
	return buf
}

func (l epochs) latest() kafka.Epoch {
	if len(l) == 0 {
		return kafka.NoEpoch
	}
	return l[len(l)-1].Epoch
}

// assign adds an epoch that begins at start; entries that it contradicts go.
func (l epochs) assign(epoch kafka.Epoch, start kafka.Offset) (epochs, bool) {
	if n := len(l); n > 0 && l[n-1].Epoch == epoch && start >= l[n-1].Start {
		return l, false
	}
	n := len(l)
	for n > 0 && (l[n-1].Epoch >= epoch || l[n-1].Start >= start) {
		n--
	}
	out := make(epochs, n, n+1)
	copy(out, l)
	return append(out, EpochStart{epoch, start}), true
}

// truncateEnd removes the epochs that begin at or beyond end.
func (l epochs) truncateEnd(end kafka.Offset) (epochs, bool) {
	n := sort.Search(len(l), func(i int) bool { return l[i].Start >= end })
	return l[:n:n], n < len(l)
}

// truncateStart makes the epoch in which start lies begin there, and removes
// the ones before.
func (l epochs) truncateStart(start kafka.Offset) (epochs, bool) {
	n := sort.Search(len(l), func(i int) bool { return l[i].Start > start })
	if n == 0 || n == 1 && l[0].Start == start {
		return l, false
	}
	out := append(epochs(nil), l[n-1:]...)
	out[0].Start = start
	return out, true
}

// endOffset answers OffsetsForLeaderEpoch (LeaderEpochFileCache.endOffsetFor).
func (l epochs) endOffset(epoch kafka.Epoch, end kafka.Offset) (kafka.Epoch, kafka.Offset) {
	if epoch == kafka.NoEpoch {
		return kafka.NoEpoch, kafka.NoOffset
	}
	if l.latest() == epoch {
		return epoch, end
	}
	i := sort.Search(len(l), func(i int) bool { return l[i].Epoch > epoch })
	switch {
	case i == len(l):
		return kafka.NoEpoch, kafka.NoOffset
	case i == 0:
		return epoch, l[0].Start
	}
	return l[i-1].Epoch, l[i].Start
}

// at is the epoch in which an offset lies, NoEpoch before the first.
func (l epochs) at(o kafka.Offset) kafka.Epoch {
	i := sort.Search(len(l), func(i int) bool { return l[i].Start > o })
	if i == 0 {
		return kafka.NoEpoch
	}
	return l[i-1].Epoch
}

func (l *Log) epochList() epochs {
	if p := l.epochs.Load(); p != nil {
		return *p
	}
	return nil
}

func (l *Log) setEpochs(list epochs, changed bool) {
	if changed {
		l.epochs.Store(&list)
		l.epochsDirty = true
	}
}

// AssignEpoch records that epoch begins at start: a new leader calls it with
// the end offset before it appends. Owner only. The entry is written with the
// next flush; until then it can be lost, which is harmless while no batch of the
// epoch is durable.
func (l *Log) AssignEpoch(epoch kafka.Epoch, start kafka.Offset) error {
	if epoch < 0 || start < 0 {
		return fmt.Errorf("%s: epoch %d at offset %d", l.Dir(), epoch, start)
	}
	list, changed := l.epochList().assign(epoch, start)
	l.setEpochs(list, changed)
	return nil
}

// LatestEpoch is the highest epoch that the log knows, or NoEpoch.
func (l *Log) LatestEpoch() kafka.Epoch { return l.epochList().latest() }

// Epochs lists the leader epochs. The slice must not be changed.
func (l *Log) Epochs() []EpochStart { return l.epochList() }

// EpochAt is the epoch of the record at an offset, or NoEpoch.
func (l *Log) EpochAt(o kafka.Offset) kafka.Epoch { return l.epochList().at(o) }

// EndOffsetForEpoch gives the largest known epoch ≤ epoch and where it ends:
// the start of the next epoch, or the log's end for the latest. NoEpoch and
// NoOffset if the log cannot tell (LeaderEpochFileCache.endOffsetFor).
func (l *Log) EndOffsetForEpoch(epoch kafka.Epoch) (kafka.Epoch, kafka.Offset) {
	return l.epochList().endOffset(epoch, l.EndOffset())
}
