package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"moldau/internal/kafka"
	"moldau/internal/producerstate"
	"moldau/internal/vfs"
)

// AbortedTxn is an entry of a transaction index.
type AbortedTxn struct {
	ProducerID       kafka.ProducerID
	FirstOffset      kafka.Offset
	LastOffset       kafka.Offset // of the marker
	LastStableOffset kafka.Offset
}

const (
	txnEntry   = 34
	txnVersion = 0
)

func appendAborted(buf []byte, t AbortedTxn) []byte {
	be := binary.BigEndian
	buf = be.AppendUint16(buf, txnVersion)
	buf = be.AppendUint64(buf, uint64(t.ProducerID))
	buf = be.AppendUint64(buf, uint64(t.FirstOffset))
	buf = be.AppendUint64(buf, uint64(t.LastOffset))
	return be.AppendUint64(buf, uint64(t.LastStableOffset))
}

// parseAborted gives the entries before the damage, if there is any.
func parseAborted(data []byte) ([]AbortedTxn, error) {
	be := binary.BigEndian
	out := make([]AbortedTxn, 0, len(data)/txnEntry)
	for ; len(data) >= txnEntry; data = data[txnEntry:] {
		if v := be.Uint16(data); v != txnVersion {
			return out, fmt.Errorf("%w: transaction entry of version %d", errIndex, v)
		}
		out = append(out, AbortedTxn{
			kafka.ProducerID(be.Uint64(data[2:])), kafka.Offset(be.Uint64(data[10:])),
			kafka.Offset(be.Uint64(data[18:])), kafka.Offset(be.Uint64(data[26:])),
		})
	}
	if len(data) != 0 {
		return out, fmt.Errorf("%w: %d bytes after the last transaction", errIndex, len(data))
	}
	return out, nil
}

func (l *Log) appendTxnIndex(base kafka.Offset, done producerstate.CompletedTxn) error {
	f, err := l.fs().Open(l.path(base, extTxn), vfs.Create)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(appendAborted(nil, AbortedTxn{done.ProducerID, done.FirstOffset, done.LastOffset, done.LastStableOffset}), size)
	l.namesGen.Add(1)
	return err
}

// readTxnIndex reads a segment's transaction index; a missing file is empty. One
// of the active segment may end in a part of the entry that is being appended:
// that is of a transaction beyond what readers may see.
func (l *Log) readTxnIndex(s *segment) ([]AbortedTxn, error) {
	growing := s.active.Load() // before the file is read
	var data []byte
	err := fs.ErrNotExist
	if s.swapping.Load() {
		data, err = vfs.ReadFile(l.fs(), l.path(s.base, extTxn+extSwap))
	}
	if errors.Is(err, fs.ErrNotExist) {
		data, err = vfs.ReadFile(l.fs(), l.path(s.base, extTxn))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if growing {
		data = data[:len(data)-len(data)%txnEntry]
	}
	list, err := parseAborted(data)
	if err != nil {
		return nil, &CorruptError{File: l.path(s.base, extTxn), Position: int64(len(list)) * txnEntry, Offset: s.base, Reason: err.Error()}
	}
	return list, nil
}

// AbortedTxns lists the aborted transactions that overlap [from, upper).
// (UnifiedLog.collectAbortedTransactions.)
func (l *Log) AbortedTxns(from, upper kafka.Offset) ([]AbortedTxn, error) {
	var out []AbortedTxn
	segs := l.list()
	for i := max(floorSegment(segs, from), 0); i < len(segs); i++ {
		list, err := l.readTxnIndex(segs[i])
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			if t.LastOffset >= from && t.FirstOffset < upper {
				out = append(out, t)
			}
			if t.LastStableOffset >= upper {
				return out, nil
			}
		}
	}
	return out, nil
}

// truncateTxnIndex removes the entries of markers at or beyond o.
func (l *Log) truncateTxnIndex(s *segment, o kafka.Offset) error {
	list, err := l.readTxnIndex(s)
	if err != nil || list == nil {
		return err
	}
	var data []byte
	for _, t := range list {
		if t.LastOffset < o {
			data = appendAborted(data, t)
		}
	}
	return l.writeFile(l.path(s.base, extTxn), data, false)
}
