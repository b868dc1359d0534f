package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"moldau/internal/kafka"
)

var errTooLarge = errors.New("larger than max.message.bytes")

// boundedBuffer collects output up to a limit, so that a small batch which
// expands without end costs no memory.
type boundedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}

// rebuild writes the batch anew: with the topic's codec if it asks for one,
// and with offset deltas 0, 1, 2, … if they were not (old clients, see
// LogValidator). The records have been validated before.
func (w *Workspace) rebuild(b Batch, rules *Rules, stamp kafka.WallMs) (Batch, Rejection) {
	codec, level := b.Codec(), defaultLevel(b.Codec())
	if rules.Recompress {
		codec, level = rules.Codec, rules.Level
	}
	out := &boundedBuffer{limit: rules.MaxBatchBytes}
	out.Buffer.Write(b[:HeaderSize])
	if err := w.copyRecords(out, codec, level, b); err != nil {
		if errors.Is(err, errTooLarge) {
			return nil, reject(kafka.ErrMessageTooLarge, "Message batch size exceeds the maximum configured size of %d after it was compressed anew", rules.MaxBatchBytes)
		}
		return nil, reject(kafka.ErrInvalidRecord, "%v", err)
	}
	n := Batch(out.Bytes())
	binary.BigEndian.PutUint32(n[posLength:], uint32(len(n)-PrefixSize))
	attr := n.Attributes()&^(attrCodecMask|attrLogAppendTime) | int16(codec)
	if rules.LogAppendTime {
		attr |= attrLogAppendTime
	}
	binary.BigEndian.PutUint16(n[posAttributes:], uint16(attr))
	binary.BigEndian.PutUint64(n[posMaxTimestamp:], uint64(stamp))
	n.seal()
	return n, Rejection{}
}

func (w *Workspace) copyRecords(out io.Writer, codec Codec, level int, b Batch) error {
	dst, err := compressor(out, codec, level)
	if err != nil {
		return err
	}
	unordered := w.scan.unordered
	src, err := w.Decompress(b.Codec(), b.Records())
	if err != nil {
		return err
	}
	if unordered {
		err = renumber(dst, src, b.Count())
	} else {
		_, err = io.Copy(dst, src)
	}
	if err != nil {
		return err
	}
	return dst.Close()
}

// renumber copies records, replacing their offset deltas by 0, 1, 2, …
func renumber(dst io.Writer, src io.Reader, count int32) error {
	all, err := io.ReadAll(io.LimitReader(src, maxRenumberBytes+1))
	if err != nil {
		return err
	}
	if len(all) > maxRenumberBytes {
		return fmt.Errorf("%w: offsets out of order in more than %d bytes of records", ErrCorrupt, maxRenumberBytes)
	}
	var buf []byte
	i := int32(0)
	return Each(all, count, func(r *Record) error {
		r.OffsetDelta = i
		i++
		buf = r.appendTo(buf[:0])
		_, err := dst.Write(buf)
		return err
	})
}

// maxRenumberBytes bounds the memory for batches of clients that number
// records wrongly.
const maxRenumberBytes = 64 << 20

func defaultLevel(c Codec) int {
	switch c {
	case Gzip:
		return -1
	case LZ4:
		return 9
	case Zstd:
		return 3
	}
	return 0
}
